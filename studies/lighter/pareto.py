"""Quality, bytes and time of all models: one plot per task, with the Pareto front as a line.

    python -m studies.lighter.pareto --runs='runs/**' --out=docs/results/pareto
    python -m studies.lighter.pareto --runs='runs/mt*,runs/student*' --only=multi30k --out=docs/results/mt

Finds the finished runs, and the quantized files in their ``export/``, and writes ``OUT.md``, and into ``OUT/`` a
picture for every test set and ``results.json``. Runs that differ only in their seed are one point. How they are
measured: `lwt/inspect/measuring.py`.
"""

import os
import time

from absl import flags

from lwt import errors
from lwt.inspect import measuring
from lwt.machine import command_line, hardware
from lwt.report import pages, results
from studies.lighter import fronts

HOW_TO_READ = """\
A row is a trained model, or its file of integers ("int8", "int4"). "How it was made" names the architecture, and then
the methods in their order. Quality is measured on the test set and averaged over the runs, which differ only in their
seed.

The models come from several studies and were trained for different lengths. So the tables compare models as they are,
not methods at equal budgets; most models have one run, and small differences may be chance. Of a study that was run
again later, its own page has the newer figures.

Times are medians on {machine}, of one record alone and of batches of {rows}, all padded to the longest of these
records. All models of a task take turns. Translations are greedy, or as the run's config says, and decoded to their
end. Bytes are those of the file of integers, or of the weights in float32. ▪ marks what no other model beats in
quality at as many bytes, or at as much time; the pictures join these models by a line.

`lwt/inspect/measuring.py` measures; rows for programs are in [results.json]({folder}/results.json).
"""


def write(out, points, *, machine, command_line):
    """Writes the page OUT.md, and its pictures into the folder `out`; returns the names of the pictures."""
    page = pages.Page(out, "Quality against bytes and time", text=f"{out}.md", command_line=command_line)
    page.add(HOW_TO_READ.format(machine=machine, rows=measuring.ROWS, folder=os.path.basename(out)))
    fronts.add(page, points)
    return page.write()[1:]


def main():
    """The program: measures, and writes the page."""
    values, begin = flags.FLAGS, time.perf_counter()
    kept_rows = os.path.join(values.out, "results.json")
    if not values.report_only:
        pages.make_folder(values.out)
        found = measuring.collect(measuring.find(values.runs, only=values.only))
        if not found:
            raise errors.DataError(f"--runs={','.join(values.runs)}: none of the runs could be measured; see above")
        points = measuring.measure(found, rounds=values.rounds)
        facts = {"seconds": round(time.perf_counter() - begin, 1), "command_line": pages.command_line()}
        results.write(kept_rows, fronts.rows(points, machine=hardware.describe(), **facts))
    rows = results.load(kept_rows)
    points = fronts.points_of(rows)
    names = write(values.out, points, machine=rows[0]["hardware"], command_line=rows[0]["command"])
    command_line.report({"page": f"{values.out}.md", "points": len(points), "pictures": names})


if __name__ == "__main__":
    flags.DEFINE_list("runs", ["runs/**"], "Folders of runs, with * and **, separated by commas.")
    command_line.define_regex("only", "", help="Regular expression for the folders to measure.")
    flags.DEFINE_integer("rounds", 7, "Number of turns of every model in the timing.", lower_bound=1)
    pages.define_report_only()
    flags.DEFINE_string("out", "docs/results/pareto", "The page, OUT.md, and folder of its pictures.")
    command_line.run(main, required=[])
