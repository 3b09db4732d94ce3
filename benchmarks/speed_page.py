"""The page of `benchmarks.run`: ratios to PyTorch first, then a table for each work, machine and group of variants."""

UNITS = {"train": "tokens"} | dict.fromkeys(("adapter", "decode", "pretrain", "vit"), "examples")
WORK = {
    "train": "translation step",
    "adapter": "adapter step",
    "decode": "greedy decoding",
    "pretrain": "pre-training step",
    "vit": "ViT step",
}


HOW_TO_READ = """\
[Benchmarks](../../benchmarks.md) describes the workloads and their variants. The command of a table is above it, and
the fastest variant is its first row. Rates and times are medians over the rounds, in which all variants of a command
take turns; in tables since December 2026, rounds of two processes each. A step of decoding translates all sentences
once. "Loss not finite" marks variants whose loss was NaN or infinite: their time is shown, but they trained nothing.

Peak memory is that of the whole process, imports and compilers included; on a GPU it is that of the framework's
allocator. The first start compiles all programs and keeps them, as lwt's training does. A second start finds them; its
peak has a column of its own ("–": not measured).
"""
FASTEST = """\
A row compares the fastest measured variant of each side at the same precision. "Speed", "memory" and "second start"
(its memory) are lwt over PyTorch: a speed above 1 means that lwt is faster, a memory above 1 that it takes more. "Not
compiled" marks workloads for which no variant with `torch.compile` was measured on the machine at this precision:
PyTorch may be faster than shown. Rates on different machines cannot be compared.
"""
PEAKS = ("peak_bytes", "second_peak_bytes")
NOT_COMPILED, NOT_FINITE = ", not compiled", ", loss not finite"


def page(rows):
    """The Markdown page of the rows: per kind of work and machine, one table for each group of variants.

    The group of ``MODULE/GROUP:REST`` is GROUP.
    """
    parts = [
        "# Speed and memory compared with PyTorch and CTranslate2\n",
        "    python -m benchmarks.run\n",
        HOW_TO_READ,
        "## lwt compared with PyTorch\n",
        FASTEST.rstrip(),
    ]
    for machine in sorted({row["hardware"] for row in rows}):
        parts += [f"\n### {machine}\n", *_ratios([row for row in rows if row["hardware"] == machine])]
    for what, unit in UNITS.items():
        own = [row for row in rows if row["config"] == f"benchmarks/{what}"]
        if not own:
            continue
        parts += [f"\n## {WORK[what][0].upper()}{WORK[what][1:]}"]
        for machine in sorted({row["hardware"] for row in own}):
            parts += _machine([row for row in own if row["hardware"] == machine], unit=unit)
    return "\n".join(parts) + "\n"


def _machine(rows, *, unit):
    """Lines on what one command measured: a heading, the command, and a table for each group of variants."""
    parts = [f"\n### {rows[0]['hardware']}\n", f"`{rows[0]['command']}`, {rows[0]['date']}."]
    for group, cells in _groups(rows).items():
        parts += ["", *_table(f"variant, {group}" if group else "variant", cells, unit=unit)]
    return parts


def _groups(rows):
    """``{group: {variant: {metric: row}}}``; the group of ``MODULE/GROUP:REST`` is GROUP, else ""."""
    groups = {}
    for row in rows:
        name = row["overrides"]["variant"] + ("" if row["overrides"].get("finite", True) else NOT_FINITE)
        group = name.partition("/")[2].rpartition(":")[0]
        groups.setdefault(group, {}).setdefault(name, {})[row["metric"]] = row
    return groups


def _ratios(rows):
    """Lines of a machine's table: per work and group the ratios of lwt's fastest variant to PyTorch's."""
    header = ["work", "precision", "lwt", "PyTorch", "speed", "memory", "second start", "PyTorch's variant"]
    lines = [f"| {' | '.join(header)} |", "|---|---|---:|---:|---:|---:|---:|---|"]
    for what, unit in UNITS.items():
        for group, cells in _groups([row for row in rows if row["config"] == f"benchmarks/{what}"]).items():
            for precision in ("float32", "bfloat16"):
                sides = [_fastest(cells, f"{side}_", precision=precision, unit=unit) for side in ("lwt", "torch")]
                if None in sides:
                    continue
                (own, own_cells, _), (other, other_cells, variant) = sides
                name = f"{WORK[what]}, {group}" if group else WORK[what]
                memory = [_ratio(own_cells, other_cells, metric=metric) for metric in PEAKS]
                rates = [f"{own:,.0f} {unit}/s", f"{other:,.0f} {unit}/s", f"{own / other:.2f}"]
                lines.append(f"| {' | '.join([name, precision, *rates, *memory, variant])} |")
    return lines


def _ratio(own, other, *, metric):
    """The ratio of a figure of two variants; "–" if it was not measured."""
    return f"{own[metric]['value'] / other[metric]['value']:.2f}" if metric in own and metric in other else "–"


def _fastest(cells, side, *, precision, unit):
    """``(units per second, figures, variant)`` of the fastest of a side at a precision; None without one.

    The variant says so if no compiled one was measured.
    """
    names = [
        name
        for name in cells
        if name.startswith(side) and ("bf16" in name or "bfloat16" in name) == (precision == "bfloat16")
    ]
    ending = "" if any("compiled" in name or "graphs" in name for name in names) else NOT_COMPILED
    found = [(cells[name][f"{unit}_per_second"]["value"], cells[name], _variant(name) + ending) for name in names]
    return max(found, default=None, key=lambda one: one[0])


def _variant(name):
    """``"plain"`` of ``"torch_vit/vit:plain+bf16"``; the precision is in a column of its own."""
    return name.partition("/")[2].rpartition(":")[2].replace("+bf16", "")


def _table(title, cells, *, unit):
    """Lines of a table, the fastest variant first; `cells` is ``{variant: {metric: row}}``."""
    header = f"| {title} | {unit}/s (lowest and highest round) | ms a step | peak MB | second start |"
    lines = [header, "|---|---|---|---|---|"]
    for name, row in sorted(cells.items(), key=lambda item: -item[1][f"{unit}_per_second"]["value"]):
        rate = row[f"{unit}_per_second"]
        low, high = rate["range"]
        step = row["step_seconds"]["value"] * 1e3
        duration = f"{step:,.0f}" if step >= 10 else f"{step:.2f}"
        peaks = " | ".join(f"{row[metric]['value'] / 1e6:,.0f}" if metric in row else "–" for metric in PEAKS)
        lines.append(f"| {name} | {rate['value']:,.0f} ({low:,.0f}–{high:,.0f}) | {duration} | {peaks} |")
    return lines
