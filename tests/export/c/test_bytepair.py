"""The program's ids equal those of the run's cleaner and tokenizer."""

import gzip
import json
import os
import pathlib
import resource

import numpy as np
import pytest

from lwt import errors
from lwt.data import text, tokenizer
from lwt.export.c import bytepair, reference

ODD = [
    "",
    "   ",
    "\t tabs \x01ctl\x7f \x85 nel",
    "Ünïcödé — naïve café",
    "e\u0301 o\u0308 \u0301x \ufeffbom\u200bzero\u00adsoft",
    "İstanbul ŞİŞLİ ß Straße ﬁ ½ ™ №5 ①②⑩ ´acute¨ ¯ ¸",
    "日本語 テスト が は 한국어 Ζεύς привет مرحبا שלום हिन्दी",
    "emoji 😀👍🏽 ❤️ x\u200dy",
    "𝕳𝖊𝖑𝖑𝖔 Ｗｏｒｌｄ ㎏ ﷺ ",
    "a▁b ▁ c ▁▁d e▁",
    "▁",
    "▁ ▁▁ ",
    "▁ a ▁",
    "a ▁ ▁ b ▁▁ ▁",
    "字 ▁ 字▁",
    "[MASK] [CLS] </s> <unk>",
    "<b>bold</b> & &lt;tag&gt; &amp;amp; &#65;&#x42; &#x110000; &#0; <!-- c > --> <script>x</script>y a<b </p >",
    "see https://example.com/a?b=c). and www.foo.org, ok ftp://x http:// end xhttp://y «www.a.b»",
    "word " * 60,
    "x" * 900,
    "unknown 東京 東京東京 £ £ £",
]
CHINESE = [  # addresses begin after Chinese punctuation, for a large alphabet alone
    "一丅丌乃，好：http://a.de，一 一。www.b.de、一「ftp://c」（www.d）一www.e 一・www.f ～www.g ＿www.h",
    "一丅丌" * 400,
]
BROKEN = [
    b"caf\xe9 ol\xc3\xa9",
    b"\xff\xfe\xfd abc",
    b"\xe2\x82 x \xf0\x9f\x98 y \xed\xa0\x80 z \xc0\xaf \xf4\x90\x80\x80 \xe2\x28\xa1 \xf0\x9f",
]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A tokenizer of 400 Chinese characters and some pairs of them."""
    generator, characters = np.random.default_rng(0), [chr(0x4E00 + 7 * i) for i in range(400)]
    texts = ["".join(generator.choice(characters, 12)) + f"，第{i}，www.a.de" for i in range(2000)]
    path = tmp_path_factory.mktemp("large") / tokenizer.FILE
    return tokenizer.train(texts, path, vocabulary=800, specials=tokenizer.ENCODER)


@pytest.fixture(scope="module", params=["small", "large"])
def check(request, variant, program, large):
    """``check(lines)`` asserts that the program gives lines (bytes) the ids of the run.

    The vocabulary is that of the run, or one of more characters than a byte can number.
    """
    experiment = variant("embedder")
    if request.param == "large":
        experiment = variant("embedder", vocabulary=large.vocabulary)
        experiment.tokenizer = large
    answer = program(experiment, "fp16")

    def check(lines):
        found = [list(map(int, row.split())) for row in answer([line + b"\n" for line in lines], "--ids")]
        for line, ids in zip(lines, found, strict=True):
            assert ids == reference.row(experiment, (line.decode("utf-8", "replace"),))[0].tolist(), line

    check.more = CHINESE if request.param == "large" else []
    return check


def test_a_text_that_loses_its_middle(variant, program):
    experiment = variant("embedder")
    with experiment.config.unlocked():
        experiment.config.data.cut = "middle"
    lines = [" ".join(f"{i} cold £{i % 7}" for i in range(words)) for words in range(40)]
    found = [list(map(int, row.split())) for row in program(experiment, "fp16")([f"{x}\n" for x in lines], "--ids")]
    assert found == [reference.row(experiment, (line,))[0].tolist() for line in lines]
    whole = [[2, *experiment.tokenizer.encode([line])[0], 4] for line in lines]  # [CLS] text [SEP]
    assert found == [ids if len(ids) <= 24 else ids[:12] + ids[-12:] for ids in whole]
    assert sum(len(ids) > 24 for ids in whole) > 20


def test_odd_texts(check):
    check([*(line.encode() for line in ODD + check.more), *BROKEN])


@pytest.mark.parametrize("cut", ["end", "middle"])
def test_hostile_text_takes_linear_time(cut, variant, program):
    """A megabyte of each kind, a second each; the processes of a loaded machine share it, so their own time counts."""
    experiment = variant("embedder")
    with experiment.config.unlocked():
        experiment.config.data.cut = cut
    answer = program(experiment, "fp16")
    for hostile in (
        "<!--",
        "<!",
        "<script>",
        "<style ",
        "</script ",
        "<a ",
        "&#",
        "http://.",
        "www.",
        "a",
        "▁",
        "www.<!--",
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        answer([hostile * (1_000_000 // len(hostile)) + "\n"], "--ids")
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1, hostile


def test_every_character(check):
    """A few thousand characters, alone and between letters; without lone parts of syllables and the Greek sigma."""
    generator = np.random.default_rng(0)
    numbers = np.concatenate(
        [np.arange(0xA0, 0x250), np.arange(0x1E00, 0x2200), generator.integers(0xA0, 0x20000, 3000)]
    )
    skipped = {"Σ"} | {chr(n) for n in range(0x1100, 0x1200)} | {chr(n) for n in range(0xD800, 0xE000)}
    characters = [c for c in map(chr, numbers.tolist()) if c not in skipped]
    lines = [f"{c} a{c}b {d}" for c, d in zip(characters[::2], characters[1::2])]
    check([line.encode() for line in lines])


@pytest.mark.skipif(not os.environ.get("LWT_DATA"), reason="LWT_DATA, the folder of real data, is not set")
@pytest.mark.parametrize("name", ["snips", "emotion"])
def test_test_sets(name, check):
    path = pathlib.Path(os.environ["LWT_DATA"], name, "test.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [" ".join(json.loads(line)["text"].split()) for line in file]
    check([line.encode() for line in texts])


def test_unsupported_cleaning_is_refused():
    pieces = (*tokenizer.ENCODER, "▁", "a")
    for change in ({"lowercase": False}, {"characters": r"\w"}, {"unicode": "NFC"}):
        key = next(iter(change))
        with pytest.raises(errors.ConfigError, match=f"data.clean.{key}="):
            bytepair.make(pieces, text.Cleaner(**{"strip_accents": True, **change}), first=5)
    cleaner = text.Cleaner(strip_accents=True)
    for wrong, message in (("ab", "are not pieces"), ("a" * 17, "of at most 16 letters"), ("a▁a", "within a word")):
        with pytest.raises(errors.ConfigError, match=message):
            bytepair.make((*pieces, wrong), cleaner, first=5)
