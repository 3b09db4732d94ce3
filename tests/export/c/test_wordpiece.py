"""The program's ids equal those of the `tokenizers` library for the same ``tokenizer.json``."""

import json
import shutil
import subprocess
import types

import numpy as np
import pytest
import tokenizers

from lwt import errors
from lwt.data import frame, hf_tokenizer
from lwt.export.c import export, toolchain, wordpiece

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SANITIZERS = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
NORMALIZERS = {
    "uncased": {},
    "cased": dict(lowercase=False),
    "lower-cased and nothing else": dict(strip_accents=False, clean_text=False, handle_chinese_chars=False),
}
CORPUS = [
    "the unbelievable embedding of a cold old bold café naïve Ünïcödé straße déjà vu don't U.S.A. 1234567890",
    "東京 日本語 テスト 字 한국어 안녕하세요 привет мир Привет Ζεύς ΑΣΑΣ σας ελλάδα שלום مرحبا हिन्दी में ไทย ①②",
    "emoji 😀 👍 “quoted” — £5 € ½ ™ ﬁne ǅ İstanbul ŞİŞLİ",
]
WORDS = [
    *("Ünïcödé", "naïve", "CAFÉ", "e\u0301", "ﬁne", "ß", "İ", "ΑΣΑΣ", "don't", "U.S.A.", "unbelievable", "embeddings"),
    *(
        "日本語",
        "한국어",
        "हिन्दी",
        "\uf900",
        "😀👍🏽",
        "x\u200dy",
        "\ufffd",
        "\u00a0",
        "\u3000",
        "\x1c",
        "\x85",
        "\x01",
    ),
    *("[MASK]", "[CLS]", "[MASK", "##ing", "[UNK]x", "a" * 40, "é" * 40, "é" * 41, "字" * 50, "o" * 500),
]
BROKEN = [
    b"caf\xe9 ol\xc3\xa9",
    b"\xff\xfe\xfd abc",
    b"\xe2\x82 x \xf0\x9f\x98 y \xed\xa0\x80 z \xc0\xaf \xf4\x90\x80\x80",
]
CLEAN = dict(lowercase=False, remove_urls=False, remove_html=False, unicode="", strip_accents=False)
BERT = dict(hidden=40, heads=2, activation="gelu", segments=2, embedding_norm=True, pooler=True)


def made(**normalizer):
    """A small vocabulary with the normalizer; words of more than 40 characters are unknown.

    It is made here, and not trained: tokenizers' trainer breaks ties at random.
    """
    normal, split = tokenizers.normalizers.BertNormalizer(**normalizer), tokenizers.pre_tokenizers.BertPreTokenizer()
    words = {word for text in CORPUS for word, _ in split.pre_tokenize_str(normal.normalize_str(text))}
    characters = {c for word in words for c in word}
    pieces = {*characters, *(f"##{c}" for c in characters)}
    pieces |= {word[:3] for word in words} | {f"##{word[-2:]}" for word in words if len(word) > 2}
    vocabulary = {piece: i for i, piece in enumerate([*SPECIALS, *sorted(pieces)])}
    model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=40)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normal, split
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def lines():
    """Every character of the first planes in some context, words in random order, and bytes that are no UTF-8."""
    generator = np.random.default_rng(0)
    numbers = [*range(1, 0x2200), *range(0x2200, 0xD800, 9), *range(0xE000, 0x20000, 9), *range(0x20000, 0x110000, 997)]
    characters = [chr(n) for n in numbers if chr(n) not in "\n\r\t"]
    found = [f"{a} a{b}e {c}" for a, b, c in zip(characters[::3], characters[1::3], characters[2::3])]
    for _ in range(1500):
        chosen = generator.choice(WORDS, generator.integers(0, 9))
        found.append(generator.choice(["", " "]).join(chosen))
    return [*(line.encode() for line in found), *BROKEN]


@pytest.fixture
def with_tokenizer(variant, tmp_path):
    """``with_tokenizer(tokenizer)``: a run of a small BERT that has the tokenizer."""

    def make(tokenizer):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        experiment = variant("bert", vocabulary=tokenizer.get_vocab_size(), **BERT)
        experiment.tokenizer = hf_tokenizer.Tokenizer(tmp_path / "tokenizer.json")
        with experiment.config.unlocked():
            experiment.config.data.clean.update(CLEAN)
            experiment.config.data.row_length = 32
        return experiment

    return make


def ids(tokenizer, texts):
    return [row.ids for row in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.mark.parametrize("name", NORMALIZERS)
def test_ids_equal_those_of_the_library(name, with_tokenizer, tmp_path):
    tokenizer = made(**NORMALIZERS[name])
    experiment = with_tokenizer(tokenizer)
    experiment.config.data.cut = "middle" if name == "cased" else "end"
    folder = tmp_path / "program"
    folder.mkdir()
    export.write(experiment, folder, activations="fp16")
    sanitizers = shutil.which("gcc") and name == "cased"
    compiler = dict(CC="gcc", CFLAGS=SANITIZERS) if sanitizers else dict(CC=toolchain.host(), CFLAGS="-O0")
    toolchain.make(folder, "classify", **compiler)
    given = lines()
    done = subprocess.run([folder / "classify", "--ids"], input=b"\n".join([*given, b""]), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = [[*map(int, row.split())] for row in done.stdout.decode().splitlines()]
    wanted = ids(tokenizer, [line.decode("utf-8", "replace") for line in given])
    assert sum(len(row) > 30 for row in wanted) > 100 and sum(1 in row for row in wanted) > 1000
    assert [len(row) for row in found] == [min(len(row), 30) + 2 for row in wanted]
    for line, row, own in zip(given, wanted, found, strict=True):
        first, last = (15, 15) if name == "cased" else (30, 0)
        cut = row if len(row) <= 30 else row[:first] + row[len(row) - last :]
        assert own == [2, *cut, 3], line
    tested = subprocess.run([folder / "classify", "--self-test"], capture_output=True, check=True)
    assert tested.stdout.startswith(b"self-test: 0 of 5 failed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(normalizer={"type": "NFC"}), "normalizer is NFC; it must be BertNormalizer"),
        (dict(normalizer=None), "normalizer is missing; it must be BertNormalizer"),
        (dict(pre_tokenizer={"type": "Whitespace"}), "pre_tokenizer is Whitespace; it must be BertPreTokenizer"),
        (dict(model={"type": "BPE"}), "model is BPE; it must be WordPiece"),
        (dict(added_tokens=[{"content": "<x>", "normalized": True}]), "added token '<x>' must not be normalized"),
    ],
)
def test_other_tokenizers_are_refused(change, message):
    parts = json.loads(made().to_str()) | change
    with pytest.raises(errors.ConfigError, match=message):
        wordpiece.make(json.dumps(parts), cls=2, sep=3)


def test_other_settings_are_refused():
    parts = json.loads(made().to_str())
    changes = {
        "continuing_subword_prefix": ("@@", "continuing_subword_prefix is '@@'; it must be '##'"),
        "max_input_chars_per_word": (5000, "must be from 1 to 1,024"),
        "unk_token": ("<unk>", "the unknown token '<unk>' is not in its vocabulary"),
        "vocab": ({"[UNK]": 1 << 16}, "its largest id is 65,536; it must be below 65,536"),
    }
    for key, (value, message) in changes.items():
        changed = parts | {"model": parts["model"] | {key: value}}
        with pytest.raises(errors.ConfigError, match=message):
            wordpiece.make(json.dumps(changed), cls=2, sep=3)
    other = types.SimpleNamespace(frame=frame.Frame(begin=(2,), between=(3, 3), end=(3,)))
    with pytest.raises(errors.ConfigError, match=r"tokenizer.json: a row is Frame\("):
        wordpiece.of(other)
