"""Small folders in the format of transformers, made without it: random weights, a WordPiece or byte-level tokenizer."""

import json

import jax
import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from lwt import trees
from lwt.export import folders
from lwt.huggingface import configs, layouts
from lwt.models import bert

TEXTS = ["The cold house by the sea.", "An old, warm wind!", "Ein kalter Hügel — 你好, 世界", "naïve café £5"] * 3
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = dict(
    width=16, heads=2, hidden=24, layers=2, max_length=32, activation="gelu", segments=2, embedding_norm=True,
    pooler=True, norm_epsilon=1e-12,
)  # fmt: skip
KINDS = {  # model_type -> the fields of lwt's model
    "bert": SIZES,
    "distilbert": SIZES | dict(segments=0, pooler_activation="relu"),
    "roberta": SIZES | dict(segments=1),
    "electra": SIZES | dict(pooler_activation="gelu", embedding_width=8),
    "albert": SIZES | dict(shared=True, embedding_width=8, activation="gelu_tanh"),
}


def word_piece(texts=TEXTS, *, size=120, lowercase=True):
    """A tokenizer like BERT's."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    made.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIALS, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made


def byte_pairs(texts=TEXTS, *, size=340):
    """A tokenizer like RoBERTa's."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=size, special_tokens=names, initial_alphabet=alphabet, show_progress=False),
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


def unigram(texts=TEXTS, *, size=120):
    """A tokenizer like that of XLM-RoBERTa."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=size, special_tokens=names, unk_token="<unk>", show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B:0 </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


def write(folder, kind="bert", *, head="none", labels=(), tokenizer=None, task="", seed=0, **config):
    """Writes a folder; returns ``(model, weights)``, the same as lwt has it.

    Args:
        config: keys of config.json to change; None removes one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer or (byte_pairs() if kind == "roberta" else word_piece())
    tokenizer.save(str(folder / "tokenizer.json"))
    fields = KINDS[kind] | dict(head=head, outputs=len(labels) or 2)
    if head == "none" and kind not in ("bert", "albert"):
        fields["pooler"] = False
    model = bert.Bert(tokenizer.get_vocab_size(), **fields)
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example())["params"]))
    generator = np.random.default_rng(seed)
    weights = {name: generator.normal(0, 0.3, shape.shape).astype(np.float32) for name, shape in shapes.items()}
    found = configs.of_model("bert", model, labels=labels, task=task) | config
    (folder / "config.json").write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
    arrays = layouts.to_hf(weights, configs.architecture("bert", model).layout, model=model)
    folders.write_arrays(folder / "model.safetensors", arrays)
    return model, weights
