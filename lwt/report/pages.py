"""A page of results: README.md, results.json, tables and pictures in one folder."""

import csv
import os
import pathlib
import shlex
import sys

from absl import flags

from lwt import errors, files
from lwt.report import plots, results

LISTED = 6  # missing runs that a page names


class Page:
    """Collects the text of a page, writes the files beside it, and the text last.

    Args:
        out: folder of the page.
        title: heading of README.md.
        command_line: what makes the page, shown below the heading; "": the page's own text says it.
        text: path of the text; default: README.md in the folder.

    Attributes:
        out: folder of the page.
        files: names of the files so far, that of the text first.
    """

    def __init__(self, out, title, *, command_line="", text=None):
        make_folder(out)
        self.out = pathlib.Path(out)
        self._text = pathlib.Path(text or self.out / "README.md")
        self.files = [self._text.name]
        self._paragraphs = [f"# {title}", *([f"    {command_line}"] if command_line else [])]

    def add(self, *paragraphs):
        """Adds paragraphs to the text; empty ones are left out."""
        self._paragraphs += [text.rstrip("\n") for text in paragraphs if text]

    def path(self, name):
        """The path of another file of the page, which the caller writes."""
        self.files.append(name)
        return self.out / name

    def rows(self, rows):
        """Writes ``results.json`` and returns its rows."""
        path = self.path("results.json")
        results.write(path, rows)
        return results.load(path)

    def csv(self, name, table):
        """Writes a table for programs: ``(header, lines)``."""
        header, body = table
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *body])

    def picture(self, name, label):
        """Shows a picture of the page's folder, and returns its path, which the caller draws to."""
        beside = self.out.relative_to(self._text.parent).as_posix()
        self.add(f"![{label}]({name if beside == '.' else f'{beside}/{name}'})")
        return self.path(name)

    def curves(self, name, caption, *, runs, **look):
        """Shows learning curves of ``{title: folder of a run}``; `look` as `plots.learning_curves` takes it.

        Where a record lacks a run's ``metrics.jsonl``, the picture stays as it is, or is left out if there is none.
        """
        if all(os.path.exists(os.path.join(folder, "metrics.jsonl")) for folder in runs.values()):
            plots.learning_curves(runs, self.picture(name, caption), **look)
        elif (self.out / name).exists():
            self.picture(name, caption)

    def write(self):
        """Writes the text and returns the names of all files of the page."""
        files.write_text(self._text, "\n\n".join(self._paragraphs) + "\n")
        return self.files


def make_folder(out):
    """Makes the folder of a page; programs call it before they measure anything.

    Raises:
        lwt.errors.ConfigError: the folder cannot be written, or is a file.
    """
    try:
        files.first_writable(out)
    except OSError as error:
        raise errors.ConfigError(f"--out={out} cannot be written ({error.strerror}); give another folder") from error


def define_report_only():
    """Declares --report_only of programs that measure and write a page."""
    flags.DEFINE_boolean("report_only", False, "Measure nothing; write the page again from the files beside it.")


def command_line(made=""):
    """The command that started this program, as one would type it in the folder it was started in.

    Args:
        made: folder of a page that is made again: the command is that of its rows, if it has any.
    """
    path = pathlib.Path(made, "results.json")
    if made and path.exists() and (rows := results.load(path)):
        return rows[0]["command"]
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    program = ["python", "-m", spec.name.removesuffix(".__main__")] if spec else ["python", sys.argv[0]]
    here = os.getcwd() + os.sep
    given = [part for part in sys.argv[1:] if part != "--report_only"]
    return shlex.join(part.replace(here, "") for part in [*program, *given])


def bullets(sentences):
    """A Markdown list, one sentence a line."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def notes(records, *, missing=()):
    """Sentences on runs that have no record, and on records of another config than the study's.

    Args:
        records: ``{name: record}``; "differs" in a record says how its config differs.
        missing: names of runs that were asked for and have no record.
    """
    others = {}
    for name, record in records.items():
        if "differs" in record:
            others.setdefault(record["differs"], []).append(name)
    found = [f"Not in the figures: {listed(missing)}."] if missing else []
    return found + [
        f"Trained with another config than the study's ({why}): {listed(names)}." for why, names in others.items()
    ]


def listed(names, *, limit=LISTED):
    """``"a, b, c and 4 more"``."""
    names = list(names)
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def machines(records):
    """``"one CPU; another"``: the machines of the runs."""
    return "; ".join(sorted({machine for record in records for machine in record["hardware"].split("; then ")}))


def effort(records, *, on=""):
    """``"3 runs, 1.5 hours in all on one CPU; another"``; `on` names the machines in other words."""
    count = f"{len(records)} runs" if len(records) > 1 else "1 run"
    together = " in all" if len(records) > 1 else ""
    return f"{count}, {hours(records)}{together} on {on or machines(records)}"


def hours(records):
    """``"1.5 hours"``: the training time of the runs together."""
    return f"{sum(record['seconds'] for record in records) / 3600:.1f} hours"
