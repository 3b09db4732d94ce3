"""The page of a model's attention heads: scores, ablations and a pruning curve as tables, CSV and plots.

    python -m studies.inspection.heads --workdir=runs/multi30k --out=docs/results/heads
    python -m studies.inspection.heads --workdir=runs/snips --out=docs/results/heads_snips --shares=0.25,0.5,0.75

Scores are taken on the validation set, figures on the test set; see `lwt/inspect/head_importance.py`.
"""

import dataclasses
import functools
import re
import statistics
import time

import numpy as np
from absl import flags

import lwt
from lwt import errors
from lwt.compress import gates
from lwt.inspect import head_importance
from lwt.machine import command_line, hardware
from lwt.report import line_names, pages, records, results, style

HOW_TO_READ = """\
The score of a head is the mean over the validation set of |∂L/∂ξ|: how sensitive an example's loss is to a factor ξ on
the head's output ({over}). Heads are ranked by it{normalised}.
They are masked, without training afterwards; `lwt.compress.structured` removes heads from the arrays.
"""
ONE_HEAD = """\
Changes in {name} from the model with all heads{points}. "Without one": one head of the module is masked, the one whose
removal changes the figure most. "With one": all other heads of the module are masked, and the one that remains gives
the best figure. Both are picked by these figures themselves; scores.csv has all heads.
"""


def write(out, *, points, scores, ranking, ablated, **about):
    """Writes README.md, results.json, scores.csv, pruning_curve.csv, scores.png and pruning_curve.png; returns names.

    Args:
        out: the folder.
        points: dicts of the fields of `head_importance.Point`.
        scores: ``{module: [heads]}``.
        ranking: the scores that ranked the heads, likewise.
        ablated: ``{module: [(ablated, alone) of every head]}``, or empty.
        about: what was measured, and how; see `measured`.
    """
    points = [head_importance.Point(**own) for own in points]
    page = pages.Page(out, f"Attention heads of `{about['config']}`", command_line=about["command"])
    label, (name, unit, factor) = results.shown(about["metric"])[0], results.named(about["metric"])
    page.rows(rows_of(points, about))
    lines = [
        [module, i, value, ranking[module][i], *(ablated[module][i] if ablated else ("", ""))]
        for module, values in scores.items()
        for i, value in enumerate(values)
    ]
    page.csv("scores.csv", (["module", "head", "score", "ranked_by", "without", "alone"], lines))
    lines = [[p.order, p.seed, p.share, p.heads, p.value] for p in points]
    page.csv("pruning_curve.csv", (["order", "seed", "share", "heads", about["metric"]], lines))
    draw_scores(page.path("scores.png"), ranking, normalised=about["normalised"])
    shown = [dataclasses.replace(point, value=factor * point.value) for point in points]
    whole = factor * about["whole"]
    title = message({p.share: p.value for p in shown if p.order == "importance"}, name)
    draw_curve(page.path("pruning_curve.png"), shown, label=label, title=title)
    page.add(
        f"`{about['config']}` on {about['data']} ({about['records']:,} records): {name} {whole:.4g}{unit} with all "
        f"{points[0].heads} heads. Measured on {about['hardware']} in {about['seconds'] / 60:.0f} minutes.",
        HOW_TO_READ.format(
            over="summed over its tokens" if about["over"] == "examples" else "in absolute value at every position",
            normalised=", with an L2 norm of 1 in every module" if about["normalised"] else "",
        ),
        "![scores](scores.png)\n![the figure over the share of pruned heads](pruning_curve.png)",
        "## Without a share of all heads",
        curve_table(shown, label),
    )
    if ablated:
        scaled = {module: [[factor * value for value in head] for head in own] for module, own in ablated.items()}
        text = ONE_HEAD.format(name=name, points=", in points" if unit else "")
        page.add("## One head", text, ablation_table(scaled, name, whole=whole))
    return sorted(page.write())


def rows_of(points, about):
    """Rows for ``results.json``: the points of the curve."""
    fixed = {key: about[key] for key in ("config", "metric", "hardware", "seconds", "command")}
    return [
        fixed
        | {"overrides": {"order": p.order, "share": p.share, "heads": p.heads}, "seed": p.seed, "split": about["data"]}
        | {"value": p.value, "paper": None}
        for p in points
    ]


def curve_table(points, label):
    """A table of the figure by share: in order of importance, and in random orders (mean ± standard deviation)."""
    by_share = values_of(points)
    heads = {p.share: p.heads for p in points}
    body = [
        [f"{share:.0%}", str(heads[share]), *(results_text(found.get(order, [])) for order in ("importance", "random"))]
        for share, found in by_share.items()
    ]
    header = ["heads masked", "heads left", f"{label}, lowest scores first", f"{label}, random order"]
    return results.markdown(header, body)


def ablation_table(ablated, label, *, whole):
    """A row for each module: the head whose removal changes the figure most, and the one that does best alone."""
    better = min if "loss" in label else max
    body = []
    for name, own in ablated.items():
        largest = max(range(len(own)), key=lambda head: abs(whole - own[head][0]))
        alone = better(range(len(own)), key=lambda head: own[head][1])
        body.append(
            [name, str(len(own)), f"{own[largest][0] - whole:+z.3f} (head {largest})",
             f"{own[alone][1] - whole:+z.3f} (head {alone})"]
        )  # fmt: skip
    return results.markdown(["module", "heads", f"{label}, without one", f"{label}, with one"], body)


def values_of(points):
    """``{share: {order: [values of the seeds]}}``, shares in order."""
    found = {}
    for p in sorted(points, key=lambda p: p.share):
        found.setdefault(p.share, {}).setdefault(p.order, []).append(p.value)
    return found


def results_text(values):
    """``"25.10 ± 0.21 (n=3)"``; a dash for no values."""
    return results.Cell.of(values).text(3) if values else "–"


def spoken(name):
    """``"decoder 0, cross-attention"`` for ``"decoder/layer_0/cross_attention"``; ``"block 1"`` for ``"block_1"``."""
    return re.sub(r"_(\d+)", r" \1", name.replace("/layer_", "_")).replace("/", ", ").replace("_", "-")


def draw_scores(path, ranking, *, normalised):
    """Draws a map of the scores, with a row for each module and a column for each head."""
    table = np.full((len(ranking), max(map(len, ranking.values()))), np.nan)
    for row, values in zip(table, ranking.values(), strict=True):
        row[: len(values)] = values
    title = "Which attention heads matter: the score of every head, a row for each module"
    with style.drawing(path, title) as (drawn, axes):
        drawn.set_figheight(max(2.5, 0.3 * len(ranking) + 1.2))
        shown = axes.imshow(table, aspect="auto", cmap="viridis")
        axes.set_yticks(range(len(ranking)), [spoken(name) for name in ranking], fontsize=9.5)
        axes.set_xticks(range(table.shape[1]))
        axes.grid(False)
        axes.set_xlabel("head")
        drawn.colorbar(shown, label="normalised score" if normalised else "score")
    return drawn


def message(values, name):
    """The title of the curve: the largest share of the heads that costs at most one point, if the metric has points.

    Args:
        values: ``{share: value}``, lowest scores first, in the unit of the page.
        name: of the metric.
    """
    if "loss" in name or max(values.values()) <= 1:
        return f"The {name} as attention heads are removed"
    share = max(share for share, value in values.items() if value >= values[0.0] - 1)
    return f"{100 * share:.0f} % of the heads can go for at most one point of {name}"


def draw_curve(path, points, *, label, title):
    """Draws the figure over the share of pruned heads, in both orders, with bars of ± one standard deviation."""
    with style.drawing(path, title) as (drawn, axes):
        ends = {}
        for i, (order, text) in enumerate((("importance", "least important first"), ("random", "random order"))):
            found = {share: by_order[order] for share, by_order in values_of(points).items() if order in by_order}
            means = [statistics.fmean(values) for values in found.values()]
            spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in found.values()]
            percent = [100 * share for share in found]
            look = dict(capsize=3, elinewidth=1.2, **style.look(i))
            if found:
                axes.errorbar(percent, means, spread, **look)
                place = len(percent) * (4 - i) // 6  # of its name: where the curves are apart
                ends[text] = (percent[place], means[place], style.COLORS[i])
        axes.set(xlabel="heads removed (%)", ylabel=label)
        axes.set_ylim(bottom=0)
        line_names.beside(axes, ends)
    return drawn


def measured(values):
    """What the page says, as `write` takes it; `values` are the flags."""
    begin = time.perf_counter()
    try:
        shares = [float(share) for share in values.shares]
    except ValueError as error:
        raise errors.ConfigError(f"--shares={','.join(values.shares)}: expected numbers") from error
    if not all(0 < share <= 1 for share in shares):
        raise errors.ConfigError(f"--shares={','.join(values.shares)}: each must be above 0, and at most 1")
    experiment = lwt.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    scores = gates.scores(experiment, "heads", batches=experiment.batches(limit=values.examples), over=values.over)
    ranking = gates.normalised(scores) if values.normalise else scores
    total = values.ablate * 2 * sum(map(len, scores.values())) + (1 + values.seeds) * len(shares)
    given = {key: getattr(values, key) for key in ("metric", "data", "limit")}
    measure = head_importance.Measure(experiment, **given, total=total)
    ablated = head_importance.ablations(measure, scores) if values.ablate else {}
    points = head_importance.curve(experiment, measure, scores=ranking, shares=shares, seeds=values.seeds)
    return {
        "points": [dataclasses.asdict(point) for point in points],
        "scores": {name: own.tolist() for name, own in scores.items()},
        "ranking": {name: own.tolist() for name, own in ranking.items()},
        "ablated": {name: [ablated[name, i] for i in range(len(own))] for name, own in scores.items() if ablated},
        "config": values.workdir,
        "data": values.data or "the run's test set",
        "records": measure.records,
        "metric": measure.metric,
        "whole": measure.whole,
        "over": values.over,
        "normalised": values.normalise,
        "hardware": hardware.describe(),
        "seconds": round(time.perf_counter() - begin, 1),
        "command": pages.command_line(),
    }


def main():
    """The program: measures, and writes the page."""
    values = flags.FLAGS
    facts = records.of_page(values.out, functools.partial(measured, values), report_only=values.report_only)
    files = write(values.out, **facts)
    command_line.report({"out": values.out, "files": files, "metric": facts["metric"], "whole": facts["whole"]})


if __name__ == "__main__":
    command_line.define_run(out="Folder of the page.")
    flags.DEFINE_string("metric", "", "The figure; default: the first that exists of bleu, accuracy and loss.")
    flags.DEFINE_string("data", "", "Data set of the figures, KIND:NAME@SPLIT; default: the test set.")
    flags.DEFINE_integer("limit", 0, "Number of its records; 0: all.", lower_bound=0)
    flags.DEFINE_integer("examples", 0, "Number of validation records for the scores; 0: all.", lower_bound=0)
    flags.DEFINE_enum("over", "examples", gates.OVER, "What absolute values are summed over.")
    flags.DEFINE_boolean("normalise", False, "Rank by scores with an L2 norm of 1 in every module, as the paper does.")
    flags.DEFINE_boolean("ablate", True, "Also measure without each head, and with it alone: two evaluations a head.")
    flags.DEFINE_list("shares", [f"{i / 10}" for i in range(1, 11)], "Shares of the heads that the curve prunes.")
    flags.DEFINE_integer("seeds", 3, "Number of random orders.", lower_bound=1)
    pages.define_report_only()
    command_line.run(main, required=["workdir", "out"])
