"""All steps for a table: look at it, divide it, fit the baseline and the model, measure both, write the report."""

import dataclasses
import pathlib
import re
import shutil

import numpy as np

import lwt
from lwt import errors, files, trees
from lwt.classify import baseline, figures, fit, look, ngrams, page, split, table, tell
from lwt.data import labels as data_labels
from lwt.data import text as texts
from lwt.data.kinds import common
from lwt.report import study
from lwt.runs import assembly, run_config
from lwt.training import train

FOLDER = "classify"  # of a run: the parts of the table, and what is said of it
NETWORK = "network"  # in that folder: the training run, to which a linear model is added
ASKED = "asked.json"
TIME = {"": 1, "s": 1, "m": 60, "h": 3600}


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user may ask for; the flags of ``python -m lwt.classify`` explain each."""

    text: str = ""
    label: str = ""
    validation: str = ""
    test: str = ""
    merge_labels: bool = False
    rename_labels: tuple = ()
    min_rows: int = 1
    max_malformed: float = 0.1
    model: str = ""  # `fit.MODEL`, or another one if that does not know the language of the texts
    base: str = ""
    teacher: str = ""
    epochs: int = 0
    seed: int = 0
    time: str = ""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A table that is ready to learn from.

    Attributes:
        found, looked: see `table.Table` and `look.Looked`.
        parts: ``{part: [table.Row, ...]}``.
        names: of the classes of the training part, in the run's order.
    """

    found: table.Table
    looked: look.Looked
    parts: dict
    names: tuple

    def texts(self, part):
        """The texts of a part."""
        return [row.text for row in self.parts[part]]

    def labels(self, part):
        """The classes `[n]` of a part, -1 for one without a training row."""
        known = {name: number for number, name in enumerate(self.names)}
        return np.array([known.get(row.label, -1) for row in self.parts[part]])

    def counts(self):
        """``{"rows", "left_out", "classes", "train", "validation", "test"}``."""
        kinds = table.counts(self.looked.left_out)
        left_out = {kind: kinds[kind] for kind in tell.WHY if kind in kinds}
        sizes = {part: len(rows) for part, rows in self.parts.items()}
        rows = len(self.looked.rows) + kinds.total()
        return {"rows": rows, "left_out": left_out, "classes": len(self.names), **sizes}


def classify(path, workdir="", *, options=None, say=print):
    """Makes a classifier from the table at `path` in the run `workdir`; returns the figures that the program prints.

    The same call continues what was stopped.

    Args:
        path: see `table.find`.
        workdir: "" for ``runs/NAME``, by the name of the table.
        options: `Options`.
        say: prints a line.

    Raises:
        lwt.errors.LwtError: the table or an option cannot be used; or `workdir` holds another run.
    """
    options = options or Options()
    workdir = pathlib.Path(workdir or default_workdir(path))
    folder = workdir / FOLDER
    if re.search(r"[,=+@]", str(workdir)):
        raise errors.ConfigError(f"--out={workdir}: the path of the run must have none of the characters , = + @")
    seconds_of(options.time)
    started = fit.start(options.model or fit.MODEL, base=options.base)
    say(f"1/4  {path}")
    prepared, said = prepare(path, options, folder=folder, say=say)
    if not (folder / "data" / "train.jsonl").exists():
        split.write(prepared.parts, folder / "data", label=prepared.found.label)

    say(f"\n2/4  {baseline.NAME}")
    models = [fitted_baseline(prepared)] if baseline.available() else []
    tell.all_of([models[0].about if models else baseline.MISSING], say)

    started, more = (started, []) if options.model or options.base else fit.suited(started, prepared.texts("train"))
    say(f"\n3/4  {started.about}")
    network = network_of(workdir, folder, large=started.large)
    config_of = config_maker(started, prepared, options=options, folder=folder, apart=network != workdir)
    more += of_tokens(config_of(None), network, prepared=prepared)
    tell.all_of(more, say)
    tried = trained(config_of, network, folder=folder, options=options, large=started.large)
    tell.all_of(fit.described(tried) if tried else [], say)
    about, seconds = started.about, sum(trial["seconds"] for trial in tried) or study.seconds(network)
    if network != workdir:
        added = ngrams.add_once(network, workdir)
        more.append(tell.of_ngrams(added["validation_accuracy"]))
        tell.all_of(more[-1:], say)
        about, seconds = f"{about}, and a linear model of n-grams", seconds + added["seconds"]
    models.append(measured(workdir, prepared, name=started.name, about=about, seconds=seconds))

    labels = prepared.labels("test")
    say(f"\n4/4  {len(labels)} texts of the test\n")
    tell.all_of(figures.plain(figures.HEADER, list(figures.lines(models, labels))), say)
    wrong = figures.errors(models[-1], labels, rows=prepared.parts["test"], names=prepared.names)
    about = {"said": said + more, "models": models, "labels": labels, "wrong": wrong, "tried": tried}
    report = page.write(workdir, folder, **about)
    say(f"\n  {report}: these figures, those of each class, the confusion matrix, the worst errors\n\nnext:")
    tell.all_of(page.commands(workdir), say)
    found = [model.figures(labels) for model in models]
    return {"workdir": str(workdir), "report": str(report), **prepared.counts(), "models": found}


def prepare(path, options, *, folder, say):
    """Reads the table, looks at it, and divides it; returns `Prepared`, and the sentences on the table.

    What was found is said, and the rows that are left out are listed in `folder`, before an error that follows from it.
    """
    found = table.find(path, validation=options.validation, test=options.test)
    found = table.read(found, text=options.text, label=options.label, max_malformed=options.max_malformed)
    keep(folder, found, options=options)
    asked = {"merge": options.merge_labels, "rename": renames(options.rename_labels), "min_rows": options.min_rows}
    looked = look.look(found, **asked)
    said = [*tell.of_rows(found, looked), *tell.of_labels(looked)]
    tell.all_of(said, say)
    tell.write_left_out(folder / "left_out.csv", looked)
    if looked.left_out:
        tell.all_of([f"{folder / 'left_out.csv'} lists the rows that are left out."], say)
    look.check(looked, column=found.label)
    parts = split.split(looked.rows, seed=options.seed, given=found.files)
    names = data_labels.Labels.of([row.label for row in parts["train"]], where=str(path), warn=False).names
    sizes = [*tell.of_parts(parts)]
    tell.all_of(sizes, say)
    return Prepared(found, looked, parts, names), said + sizes


def default_workdir(path):
    """``runs/NAME`` of a table ``NAME.csv``, or of a folder NAME."""
    name = pathlib.Path(path).resolve().name.split(".")[0]
    return pathlib.Path("runs", re.sub(r"[^\w-]+", "-", name) or "table")


def seconds_of(time):
    """``"10m"`` -> 600; "" -> 0; raises `lwt.errors.ConfigError` for another text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", time.strip()) if time else None
    if time and not (match and float(match[1])):
        raise errors.ConfigError(f"--time={time} should be a number of seconds, minutes or hours, such as 90s, 10m, 1h")
    return float(match[1]) * TIME[match[2]] if match else 0.0


def renames(given):
    """``["biling:Billing"]`` -> ``{"biling": "Billing"}``."""
    found = {}
    for pair in given:
        old, colon, new = pair.partition(":")
        if not colon or not old.strip() or not new.strip():
            raise errors.ConfigError(f"--rename_labels={pair}: expected OLD:NEW, several separated by commas")
        found[data_labels.text_of(old)] = data_labels.text_of(new)
    return found


def keep(folder, found, *, options):
    """Keeps what was asked for: the same call continues; another one is refused once training has begun.

    The time of an unfinished search may change.
    """
    asked = {"text": found.text, "label": found.label, "files": table.contents(found.files)}
    asked |= {name: x for name, x in dataclasses.asdict(options).items() if name not in (*asked, "validation", "test")}
    asked |= {"rename_labels": list(options.rename_labels), "search": bool(options.time)}
    asked["model"] = options.model or fit.MODEL
    trained = any((place / run_config.NAME).exists() for place in (folder.parent, folder / NETWORK))
    path, begun = folder / ASKED, trained or (folder / "trials").exists()
    if begun and not path.exists():
        raise errors.ConfigError(f"--out={folder.parent} holds another run; give another folder")
    before = files.read_json(path) if path.exists() else {}
    changed = [key for key in asked if before.get(key) != asked[key]]
    refused = [key for key in changed if trained or key != "time"]
    if refused and begun:
        key = refused[0]
        was, now = ("another content", "this one") if key == "files" else (before.get(key), asked[key])
        raise errors.ConfigError(
            f"--out={folder.parent} was begun with {key}={was!r}, not {now!r}: give another folder, or remove it"
        )
    if changed and not begun:  # what was made of the table is made again
        shutil.rmtree(folder / "data", ignore_errors=True)
        shutil.rmtree(folder / NETWORK, ignore_errors=True)
        for name in common.FILES:
            files.remove(folder.parent / name)
    if changed:
        files.write_json(path, asked, checked=True)


def fitted_baseline(prepared):
    """The `figures.Model` of the baseline."""
    known = prepared.labels("validation") >= 0
    validation = [text for text, there in zip(prepared.texts("validation"), known, strict=True) if there]
    validation = validation, prepared.labels("validation")[known]
    train = prepared.texts("train"), prepared.labels("train")
    found = baseline.fit(train, validation, classes=len(prepared.names), scripts=prepared.looked.scripts)
    scores = [found.predict_proba(texts) for texts in (validation[0], prepared.texts("test"))]
    return figures.Model(
        name=baseline.NAME,
        about=found.about,
        probabilities=figures.calibrated(scores[0], validation[1], test=scores[1]),
        seconds=found.seconds,
        parameters=found.parameters,
        bytes=found.bytes,
    )


def config_maker(started, prepared, *, options, folder, apart):
    """``(settings) -> config`` of the run, or of a trial."""

    def config_of(settings):
        found = prepared.found
        place = {
            "data": folder / "data",
            "text": found.text,
            "label": found.label,
            "rows": len(prepared.parts["train"]),
        }
        given = {"seed": options.seed, "teacher": options.teacher, "epochs": options.epochs, "apart": apart}
        return fit.make_config(started, **place, **given, settings=settings)

    return config_of


def of_tokens(config, workdir, *, prepared):
    """Sentences on the tokens of the texts; makes the run's tokenizer."""
    data = assembly.make_data(config, workdir)
    cleaner = texts.Cleaner(**config.data.clean)
    ids = data.tokenizer.encode([cleaner.clean(text) for part in prepared.parts for text in prepared.texts(part)])
    return tell.of_tokens(ids, longest=config.data.row_length, own=data.tokenizer)


def trained(config_of, workdir, *, folder, options, large):
    """Trains the run, or the best of several in ``options.time``; returns what was tried, an empty list for one run.

    Args:
        large: whether the model is one of Hugging Face.
    """
    seconds = seconds_of(options.time)
    if not seconds:
        train.run(config_of(None), str(workdir))
        return []
    dropouts = (0.0,) if options.teacher else fit.DROPOUTS_OF_LARGE if large else fit.DROPOUTS
    more = {"dropouts": dropouts, "seed": options.seed}
    return fit.search(config_of, str(workdir), folder=folder / "trials", seconds=seconds, **more)


def network_of(workdir, folder, *, large):
    """Where the network is trained: `workdir`, or a folder of its own if a linear model is added to it.

    A run that was begun in one of the two places continues there, whether or not scikit-learn is installed.
    """
    begun = (workdir / run_config.NAME).exists()
    apart = (folder / NETWORK).exists() or (baseline.available() and not large and not begun)
    return folder / NETWORK if apart else workdir


def measured(workdir, prepared, *, name, about, seconds):
    """The `figures.Model` of the run; fits the temperature of its scores, and writes its evaluation."""
    experiment = lwt.load(workdir)
    if not experiment.calibration:
        experiment.calibrate()
    experiment.report()
    return figures.Model(
        name=name,
        about=about,
        probabilities=experiment.predict_proba(prepared.texts("test")),
        seconds=seconds,
        parameters=trees.count(experiment.weights),
        bytes=trees.nbytes(experiment.weights),
    )
