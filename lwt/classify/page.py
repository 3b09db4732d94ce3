"""The report of a classifier of a table: one page beside its run."""

import csv
import io
import os
import pathlib
import shlex

from lwt import files
from lwt.classify import figures, fit
from lwt.machine import command_line
from lwt.metrics import translation
from lwt.report import pages, results

NAME = "report.md"


def commands(workdir):
    """The three commands that come next: answer, serve, export; as the console command, if that was the start."""
    run, program = shlex.quote(str(workdir)), "lwt" if command_line.CALLED else "python -m lwt"
    return [
        f"{program} predict new.csv --workdir={run} --scores --threshold=0.8 --out=answers.csv",
        f"{program} export --target=service --workdir={run} --out=service",
        f"{program} export --target=c --workdir={run} --out=firmware",
    ]


def write(workdir, folder, *, said, models, labels, wrong, tried):
    """Writes ``report.md`` and ``errors.csv`` in `folder`; returns the path of the page.

    Args:
        said: sentences on the table.
        models: of `figures.Model`; the last one is the run.
        labels: classes of the test part.
        wrong: of `figures.errors`.
        tried: of `fit.search`.
    """
    page = pages.Page(folder, f"A classifier of {len(labels):,} test texts", text=pathlib.Path(folder, NAME))
    page.add("## Figures", figures.markdown(models, labels))
    page.add(
        "Accuracy has its 95 % interval. Macro F1 counts every class alike. ECE is the expected calibration error: how "
        "far scores are from the shares of right answers. The scores are scaled on the validation part.",
        pages.bullets(f"{model.name}: {model.about}" for model in models),
    )
    if tried:
        page.add("## What was tried", pages.bullets(fit.described(tried)))
    page.add("## The table", pages.bullets(said))
    record = pathlib.Path(workdir, "eval", "test.json")
    if record.exists():
        page.add("## Classes", per_class(files.read_json(record).get("per_class", {})))
    picture = pathlib.Path(workdir, "eval", "test.confusion.png")
    if picture.exists():
        page.add("## Confusion matrix", f"![confusion matrix]({os.path.relpath(picture, folder)})")
    page.add(
        "## The worst errors",
        f"{len(wrong)} of {len(labels)} answers are wrong; `errors.csv` lists all of them. "
        "An error of a high score is often a wrong label of the table.",
    )
    page.add(figures.shown(wrong) if wrong else "")
    page.add("## Next", "\n".join(f"    {line}" for line in commands(workdir)))
    content = io.StringIO()
    header = ["file", "row", "label", "prediction", "score", "score_of_label", "text"]
    writer = csv.DictWriter(content, header)
    writer.writeheader()
    writer.writerows(wrong)
    files.write_bytes(pathlib.Path(folder, "errors.csv"), content.getvalue().encode("utf-8-sig"))
    page.write()
    return pathlib.Path(folder, NAME)


def per_class(found):
    """The table of ``per_class`` of an evaluation's record; "" without one."""
    if not found:
        return ""
    keys = list(next(iter(found.values())))
    body = []
    for name, own in found.items():
        values = (f"{value:.3f}" if isinstance(value, float) else str(value) for value in own.values())
        body.append([translation.escape(name), *values])
    return results.markdown(["class", *keys], body)
