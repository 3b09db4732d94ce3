"""Makes a tokenizer.json from the files that preceded it: BERT's ``vocab.txt``; ``vocab.json`` and ``merges.txt``."""

import pathlib

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from lwt import errors, files

SETTINGS = "tokenizer_config.json"


def write(folder, path):
    """Writes the tokenizer of a folder as the file `path`.

    Raises:
        lwt.errors.CheckpointError: the folder has no such files, or they are damaged or incomplete.
    """
    folder = pathlib.Path(folder)
    settings = files.load_json(folder / SETTINGS) if (folder / SETTINGS).exists() else {}
    try:
        if (folder / "vocab.txt").exists():
            made = _word_piece(folder, settings)
        elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
            made = _byte_pairs(folder, settings)
        else:
            raise errors.CheckpointError(
                f"{folder} has no tokenizer.json; where transformers is installed, "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes it"
            )
        files.write_text(path, made.to_str())
    except errors.LwtError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise errors.CheckpointError(f"{folder}: its tokenizer is damaged: {error}") from error


def _word_piece(folder, settings):
    """BERT's, also DistilBERT's and ELECTRA's."""
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")  # U+2028 may be a token
    words = words[:-1] if words[-1] == "" else words
    ids = {word: number for number, word in enumerate(words)}
    missing = [name for name in ("[UNK]", "[CLS]", "[SEP]") if name not in ids]
    if missing:
        raise errors.CheckpointError(f"{folder / 'vocab.txt'} lacks {missing[0]}")
    made = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    made.add_special_tokens([name for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in ids])
    return made


def _byte_pairs(folder, settings):
    """RoBERTa's."""
    made = tokenizers.Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    space = settings.get("add_prefix_space", False)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    made.decoder = decoders.ByteLevel()
    begin, end = (made.token_to_id(name) for name in ("<s>", "</s>"))
    if begin is None or end is None:
        raise errors.CheckpointError(f"{folder / 'vocab.json'} lacks <s> or </s>, RoBERTa's begin and end of a text")
    made.post_processor = processors.RobertaProcessing(("</s>", end), ("<s>", begin), add_prefix_space=space)
    made.add_special_tokens([name for name in ("<s>", "<pad>", "</s>", "<unk>") if made.token_to_id(name) is not None])
    if made.token_to_id("<mask>") is not None:
        made.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    return made
