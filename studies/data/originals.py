"""Reads the files of data sets as their authors publish them, and divides them as the configs expect.

Where the authors have no validation set, a tenth of the training texts becomes one. Orders are those of NumPy's
generator with seed 0, so that they are the same everywhere.
"""

import collections.abc
import csv
import dataclasses
import errno
import functools
import gzip
import html.parser
import io
import json
import pathlib
import re

import numpy as np

from lwt import errors


def multi30k(folder):
    """German-English captions of photographs."""
    names = {"train": "train", "validation": "val"} | {f"test{y}_flickr": f"test_{y}_flickr" for y in (2016, 2017)}
    return {split: _pairs(folder / "data/task1/raw", name, suffix=".gz") for split, name in names.items()}


def newstest(folder):
    """WMT's German-English news."""
    return {f"newstest{y}": _pairs(folder / "testsets/de-en", f"newstest{y}") for y in range(2013, 2017)}


class _Paragraphs(html.parser.HTMLParser):
    """The texts of a page's paragraphs and headings, ``{id: text}`` in `found`."""

    ID = re.compile(r"(par|hd)_.+")

    def __init__(self, text):
        super().__init__()
        self.found, self._open = {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        name = dict(attrs).get("id") or ""
        if self._open is None and self.ID.fullmatch(name):
            self._open, self._parts, self._depth = (tag, name), [], 0
        if self._open and tag == self._open[0]:
            self._depth += 1

    def handle_endtag(self, tag):
        if self._open and tag == self._open[0]:
            self._depth -= 1
            if not self._depth:
                self.found[self._open[1]] = " ".join("".join(self._parts).split())
                self._open = None

    def handle_data(self, data):
        if self._open:
            self._parts.append(data)


def libreoffice_help(folder):
    """German-English paragraphs of LibreOffice's help, matched by their ids; every fiftieth page tests or validates.

    Paragraphs that are not translated and pairs that recur are left out, as are training pairs that share a text with
    the other two sets.
    """
    german, english = (
        {path.relative_to(folder / language) for path in (folder / language).rglob("*.html")}
        for language in ("de", "en-US")
    )
    pages = sorted(german & english)
    if not pages:
        raise FileNotFoundError(errno.ENOENT, "", f"page of de/ in en-US/ of {folder}")
    order, fiftieth = np.random.default_rng(0).permutation(len(pages)), -(-len(pages) // 50)
    parts = {"test": order[:fiftieth], "validation": order[fiftieth : 2 * fiftieth], "train": order[2 * fiftieth :]}
    found, held = {}, set()
    for split, part in parts.items():
        pairs = dict.fromkeys(pair for i in part for pair in _translated(folder, pages[i]))
        found[split] = [{"de": de, "en": en} for de, en in pairs if not {de, en} & held]
        held.update(text for record in found[split] for text in record.values())
    return found


def _translated(folder, page):
    """The paragraphs of a page in both languages, ``[(German, English)]``."""
    de, en = (_Paragraphs(_text(folder / language / page)).found for language in ("de", "en-US"))
    pairs = [(text, en.get(name, "")) for name, text in de.items()]
    return [pair for pair in pairs if all(pair) and pair[0] != pair[1]]


def snips(folder):
    """Requests to a voice assistant with their intents."""
    found = {}
    for split, name in {"train": "train", "validation": "valid", "test": "test"}.items():
        texts, labels = (_lines(folder / f"data/snips/{name}/{file}") for file in ("seq.in", "label"))
        pairs = zip(texts, labels, strict=True)
        found[split] = _shuffled([{"text": " ".join(text.split()), "label": label.strip()} for text, label in pairs])
    return found


def emotion(folder):
    """Tweets with feelings."""
    found = {}
    for split, name in {"train": "train", "validation": "val", "test": "test"}.items():
        rows = [line.rpartition(";") for line in _lines(folder / f"data/emotion/{name}.txt")[1:]]
        found[split] = _shuffled([{"text": text.strip(), "label": label.strip()} for text, _, label in rows])
    return found


def limit(folder):
    """Sentences with and without literal motion."""

    def read(name):
        rows = json.loads(_text(folder / f"data/{name}.json")).values()
        return [{"text": row["sentence"].strip(), "label": row["motion"]} for row in rows]

    return _held_out(read("train"), {"test": _shuffled(read("test"))})


def cyberbullying(folder):
    """Tweets with the kind of cyberbullying."""
    rows, first = csv.DictReader(io.StringIO(_text(folder / "cyberbullying_tweets.csv"), newline="")), {}
    for row in rows:
        first.setdefault(row["tweet_text"], row["cyberbullying_type"])  # of tweets that recur, the first label
    texts = [{"text": text, "label": label} for text, label in first.items()]
    order = np.random.default_rng(0).permutation(len(texts))
    tests = len(texts) // 10
    held = tests + (len(texts) - tests) // 10
    parts = {"test": order[:tests], "validation": order[tests:held], "train": order[held:]}
    return {split: [texts[i] for i in part] for split, part in parts.items()}


def imdb(folder):
    """Reviews of films."""

    def read(split):
        rows = []
        for label in ("neg", "pos"):
            paths = sorted((folder / split / label).glob("*.txt"), key=lambda path: int(path.stem.split("_")[0]))
            rows += [{"text": _text(path).strip(), "label": label} for path in paths]
        if not rows:
            raise errors.DataError(f"{folder}/{split} has no neg/*.txt and pos/*.txt")
        return rows

    return _held_out(read("train"), {"test": _shuffled(read("test"))})


def glue(folder, *, task, header=None, label="label"):
    """A task of GLUE; its dev set, which has labels, is the test set."""

    def read(name):
        rows = [line.split("\t") for line in _lines(folder / task / f"{name}.tsv")]
        names, rows = (header, rows) if header else (rows[0], rows[1:])
        texts = [name for name in names if name.startswith("sentence")]
        found = []
        for i, cells in enumerate(rows):
            row = dict(zip(names, cells, strict=True))
            given = float(row[label]) if label == "score" else int(row[label]) if row[label].isdecimal() else row[label]
            found.append({name: row[name] for name in texts} | {"label": given, "idx": i})
        return found

    return _held_out(read("train"), {"test": _shuffled(read("dev"))})


@dataclasses.dataclass(frozen=True)
class Set:
    """A data set: the reader of its authors' files, where these are, and the names of its classes in order."""

    reader: collections.abc.Callable
    origin: str
    classes: tuple = ()


GLUE = "the unpacked dl.fbaipublicfiles.com/glue/data/{}.zip"
ENTAILMENT = ("entailment", "not_entailment")
INTENTS = "AddToPlaylist BookRestaurant GetWeather PlayMusic RateBook SearchCreativeWork SearchScreeningEvent"
KINDS = "age ethnicity gender not_cyberbullying other_cyberbullying religion"
COLA = functools.partial(glue, task="CoLA", header=("source", "label", "mark", "sentence"))
SETS = {  # by the name of the folder
    "multi30k_de_en": Set(multi30k, "a clone of github.com/multi30k/dataset"),
    "wmt_newstest_de_en": Set(newstest, "a clone of github.com/Helsinki-NLP/OPUS-MT-testsets"),
    "libreoffice_help_de_en": Set(libreoffice_help, "/usr/share/libreoffice/help, of libreoffice-help-de and -en-us"),
    "snips": Set(snips, "a clone of github.com/MiuLab/SlotGated-SLU", tuple(INTENTS.split())),
    "emotion": Set(
        emotion,
        "a clone of github.com/niuzaisheng/AttExplainer",
        ("sadness", "joy", "love", "anger", "fear", "surprise"),
    ),
    "limit": Set(limit, "a clone of github.com/ilmgut/limit_dataset at commit 0d707d3", ("no", "yes")),
    "cyberbullying": Set(
        cyberbullying, "the unpacked kaggle.com/datasets/andrewmvd/cyberbullying-classification", tuple(KINDS.split())
    ),
    "imdb_reviews": Set(imdb, "aclImdb of ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", ("neg", "pos")),
    "glue_cola": Set(COLA, GLUE.format("CoLA"), ("unacceptable", "acceptable")),
    "glue_sst2": Set(functools.partial(glue, task="SST-2"), GLUE.format("SST-2"), ("negative", "positive")),
    "glue_rte": Set(functools.partial(glue, task="RTE"), GLUE.format("RTE"), ENTAILMENT),
    "glue_wnli": Set(functools.partial(glue, task="WNLI"), GLUE.format("WNLI"), ENTAILMENT[::-1]),
    "glue_stsb": Set(functools.partial(glue, task="STS-B", label="score"), GLUE.format("STS-B")),
}


def read(name, folder):
    """The splits of a data set of `SETS`, ``{split: [record]}``, with numbers as labels.

    Args:
        name: of the set.
        folder: with the files of its authors.

    Raises:
        lwt.errors.DataError: a file is missing, or not of the form that it had.
    """
    which = SETS[name]
    try:
        found = which.reader(pathlib.Path(folder))
    except FileNotFoundError as error:
        raise errors.DataError(f"no {error.filename}: --originals should name {which.origin}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.DataError(f"--originals={folder} is not {name} as it was: {errors.first_line(error)}") from error
    for record in (record for records in found.values() for record in records):
        if isinstance(record.get("label"), str):
            if record["label"] not in which.classes:
                known = errors.suggest(record["label"], which.classes)
                raise errors.DataError(f"--originals={folder}: {name} has the label {record['label']!r}; {known}")
            record["label"] = which.classes.index(record["label"])
    return found


def _pairs(folder, name, *, suffix=""):
    texts = (_lines(folder / f"{name}.{language}{suffix}") for language in ("de", "en"))
    return [{"de": de, "en": en} for de, en in zip(*texts, strict=True)]


def _lines(path):
    """The lines of a text, which only ``\\n`` ends."""
    return _text(path).removesuffix("\n").split("\n")


def _text(path):
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")


def _shuffled(rows):
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


def _held_out(rows, others):
    """``{"train": …, "validation": …}`` of rows, a tenth of which is held out, with the splits `others`."""
    rows = _shuffled(rows)
    tenth = len(rows) // 10
    return {"train": rows[tenth:], "validation": rows[:tenth], **others}
