"""Writes the page of the attention benchmark from its rows: tables, pictures, exponents and break-even lengths."""

import json
import pathlib

from benchmarks.work import attention_samples
from lwt import errors
from lwt.attention import kv_projection
from lwt.report import results, scaling
from studies.attention import variants

CONFIG = "benchmarks/attention"
SIZES = ("width", "heads", "batch", "reach", "causal")
TITLES = dict(zip(attention_samples.PASSES, ("forward", "forward and backward")))
TABLES = {  # metric -> title, unit, factor
    "seconds": ("Time", "ms", 1e3),
    "peak_bytes": ("Memory", "MB", 1e-6),
    "flops": ("Operations", "GFLOP", 1e-9),
}
RANKS = {"kv_projection_half": 2, "kv_projection_quarter": 4}  # variant -> d_k / k
HOW_TO_READ = """\
A column is a length n. Every variant includes its projections, with biases. The backward pass gives the gradients of
the input and of all weights. Figures are medians over the rounds, in float32; the lowest and the highest are in
results.json. p is the exponent of the power law n^p that fits a variant's costs best, over the upper half of the
lengths that all variants have; it is – where the cost falls from one of these lengths to the next. Memory is what a
pass allocates beyond its weights and inputs, results and gradients included. For lwt it is the growth of the process in
its first step, which includes a few MB of code and threads, most of it at short lengths; for PyTorch it is its
allocator's count. Operations are the compiler's count, with every round of a loop; PyTorch does not count those of its
fused attention. A pass that was not run has the reason in its cell: "over 9 GB" is the memory that the compiled program
plans, "over 60 s" a step is four times the time at half the length. Softmax attention (also in K/V projection and
efficient attention) computes its weights in parts from some length on ([speed](../../design/speed.md)); its memory
falls there.
"""


def write(folder, new):
    """Replaces the rows of the same passes in ``results.json``, and rewrites the page and its pictures.

    Older times stay where `new` has none.

    Raises:
        lwt.errors.DataError: there are no rows, or the folder has rows of another size of attention.
    """
    path = pathlib.Path(folder) / "results.json"
    old = results.load(path) if path.exists() else []
    measured = {}
    for row in new:
        measured.setdefault(json.dumps(row["overrides"]), set()).add(row["metric"])
    rows = [row for row in old if not _replaced(row, measured.get(json.dumps(row["overrides"]), set()))] + list(new)
    if not rows:
        raise errors.DataError(f"{path} holds no rows; run without --report_only to measure some")
    sizes = sorted({tuple(row["overrides"][key] for key in SIZES[:-1]) for row in rows})
    if len(sizes) > 1:
        raise errors.DataError(f"{path}: {' and '.join(map(str, sizes))} are sizes of two pages; give another --out")
    results.write(path, rows)
    width, heads, batch, reach = sizes[0]
    text = [
        "# Attention: cost against length",
        "",
        *[f"    {command}" for command in dict.fromkeys(row["command"] for row in rows)],
        "",
        f"One attention layer of width d = {width} with h = {heads} heads, for {batch} sequence{'s' * (batch > 1)} of "
        f"n positions. The reach of local, sparse and low-rank attention is {reach} (`studies/attention/variants.py`). "
        f"Measured on {'; '.join(dict.fromkeys(row['hardware'] for row in rows))}.",
        "",
        HOW_TO_READ,
    ]
    for causal in (False, True):
        own = [row for row in rows if row["overrides"]["causal"] == causal]
        if own:
            text += section(pathlib.Path(folder), own, causal=causal, head_width=width // heads)
    (pathlib.Path(folder) / "README.md").write_text("\n".join(text), encoding="utf-8")


def _replaced(row, metrics):
    """Whether the new `metrics` of its pass replace an old row; all metrics of time are replaced together."""
    return row["metric"] in metrics or not metrics <= {"peak_bytes", "flops"}


def section(folder, rows, *, causal, head_width):
    """The page's lines on all rows of one mask; draws their pictures."""
    ending, head = "", []
    if causal:
        ending, head = "_causal", ["## Causal", "", f"No causal form: {', '.join(without_causal())}.", ""]
    costs = {(metric, of): table_of(rows, metric, of) for metric in TABLES for of in TITLES}
    slow = costs["seconds", "forward_backward"]
    head += [f"- {sentence}" for sentence in findings(slow)]
    head += ["", *_pictures(folder, costs, ending), *break_even(costs, head_width)]
    for (metric, of), cells in costs.items():
        title, unit, factor = TABLES[metric]
        if cells:
            head += [f"### {title}, {TITLES[of]} ({unit})", ""]
            head.append(table(cells, refused(rows, of) if metric == "seconds" else {}, factor=factor))
    return head


def without_causal():
    """The variants of lwt that have no causal form."""
    sections = variants.sections(4, length=4, reach=4)
    return [name for name, section in sections.items() if not variants.abilities(section).has_causal]


def table_of(rows, metric, of):
    """``{variant: {length: value}}`` of one metric and pass."""
    cells = {}
    for row in rows:
        where = row["overrides"]
        if (row["metric"], where["pass"]) == (metric, of):
            cells.setdefault(where["variant"], {})[where["length"]] = row["value"]
    return cells


def refused(rows, of):
    """``{(variant, length): why}`` of skipped passes."""
    units = {"over_seconds": (1, "s"), "over_bytes": (1e-9, "GB")}
    return {
        (row["overrides"]["variant"], row["overrides"]["length"]): f"over {row['value'] * factor:.3g} {unit}"
        for row in rows
        for factor, unit in [units.get(row["metric"], (0, ""))]
        if unit and row["overrides"]["pass"] == of
    }


def table(cells, why, *, factor):
    """The Markdown table of `table_of`: a line for each variant, a column for each length, and the exponent.

    All exponents are fitted from the shortest length on that every variant has, so that they can be compared.

    Args:
        why: from `refused`.
        factor: multiplies the values shown.
    """
    lengths = sorted({n for points in cells.values() for n in points} | {n for _, n in why})
    names = list(dict.fromkeys([*cells, *(name for name, _ in why)]))
    shortest = max((min(points) for points in cells.values() if points), default=0)
    body = []
    for name in names:
        points = cells.get(name, {})
        power = power_of({n: cost for n, cost in points.items() if n >= shortest})
        shown = [_number(points[n] * factor) if n in points else why.get((name, n), "–") for n in lengths]
        body.append([name, *shown, "–" if power is None else f"{power:.2f}"])
    return results.markdown(["variant", *map(str, lengths), "p"], body)


def power_of(points):
    """`scaling.exponent` of ``{n: cost}``; None where the cost falls in the upper half, which no power of n does."""
    upper = [points[n] for n in sorted(points)[len(points) // 2 :]]
    falls = any(after < before for before, after in zip(upper, upper[1:]))
    return None if falls else scaling.exponent(points)


def findings(seconds):
    """Sentences that compare K/V projection with softmax attention and with PyTorch, from n = 1024 on.

    Args:
        seconds: `table_of` the time of forward and backward.
    """
    torch = [points for name, points in seconds.items() if name.startswith("torch_attention/")]
    fastest = {n: min(points[n] for points in torch if n in points) for points in torch for n in points}
    others = {"softmax": seconds.get("lwt_attention/softmax", {}), "PyTorch (the faster form)": fastest}
    sentences = []
    for name, points in seconds.items():
        parts = []
        for other, theirs in others.items():
            ratios = [theirs[n] / points[n] for n in points if n >= 1024 and n in theirs]
            if ratios:
                parts.append(f"{min(ratios):.2f} to {max(ratios):.2f} times as fast as {other}")
        if "kv_projection" in name and parts:
            sentences.append(f"{name.partition('/')[2]}, n ≥ 1024, forward and backward: {', '.join(parts)}.")
    return sentences


def break_even(costs, head_width):
    """Lines with a table of the lengths from which K/V projection costs less than softmax attention."""
    body = []
    for variant, ratio in RANKS.items():
        rank = head_width // ratio
        for name, formula in ((variant, kv_projection.break_even(head_width, rank)), (f"{variant}_folded", 0.0)):
            line = [name, str(rank), f"{formula:.0f}"]
            for key in (("flops", "forward"), ("seconds", "forward"), ("seconds", "forward_backward")):
                ours, softmax = (costs[key].get(f"lwt_attention/{which}", {}) for which in (name, "softmax"))
                line.append(_crossing(ours, softmax))
            body.append(line)
    if all(cell == "–" for line in body for cell in line[3:]):
        return []
    header = ["variant", "k", "2·d_k·k/(d_k−k)", "operations, forward", "time, forward", "time, forward and backward"]
    about = (
        "From this length n on, K/V projection to k dimensions a head costs less than softmax attention: by the "
        "formula, and as measured, interpolated between the lengths."
    )
    return ["### Break-even of K/V projection", "", about, "", results.markdown(header, body)]


def _crossing(ours, other):
    both = ours.keys() & other.keys()
    if not both:
        return "–"
    length = scaling.crossing(ours, other)
    if length is None:
        return f"not at {max(both)}"
    return f"{length:.0f}" if length else f"below {min(both)}"


def _pictures(folder, costs, ending):
    """Draws time and memory over the length; returns the lines that show the pictures."""
    lines = []
    for metric in ("seconds", "peak_bytes"):
        title, unit, factor = TABLES[metric]
        cells = costs[metric, "forward_backward"]
        series = {
            name.partition("/")[2]: {n: value * factor for n, value in points.items() if n >= 128}
            for name, points in cells.items()
        }
        series = {name: points for name, points in series.items() if points}
        if series:
            file, label = f"{title.lower()}{ending}.png", f"{title.lower()} of forward and backward ({unit})"
            look = dict(unit=unit, what=title.lower(), plain="softmax", names=variants.TITLES)
            scaling.by_length(series, folder / file, **look)
            lines += [f"![{label} over the length]({file})", ""]
    return lines


def _number(value):
    """Three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
