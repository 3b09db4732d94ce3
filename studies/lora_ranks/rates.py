"""The part of the page about learning rates: what was searched, the ratio of LoRA+, and the report's claims."""

import statistics

from lwt.report import plots, results
from studies.lora_ranks import rows as tables


def curve_of(record):
    """``{rate: validation loss}`` of a search, without the rates that diverged."""
    return {trial["rate"]: trial["loss"] for trial in record["tried"] if "loss" in trial}


def robustness(record):
    """How many times larger the highest rate is than the lowest of those with a loss below 1.5 times the best one."""
    curve = curve_of(record)
    good = [rate for rate, loss in curve.items() if loss < 1.5 * min(curve.values())]
    return max(good) / min(good)


def rates_text(searches):
    """How the rates were searched."""
    trials = max(len(record["tried"]) for record in searches.values())
    ratios = sum(record["arguments"].get("ratio") is not None for record in searches.values())
    text = (
        f"Every method has the same search: {trials} rates, seed 0, half of the steps, chosen by the loss on the "
        "validation set. Rates of ranks that were not searched lie on the line between their neighbours, both axes "
        "logarithmic. The rate of LoRA+ is that of a; b has its ratio times as much."
    )
    if ratios:
        text += (
            f" LoRA+ has its ratio to choose as well: at rank {tables.RATIO_RANK}, each of {ratios} ratios has such a "
            "search, and all ranks take the ratio that was best there. No other method had as large a budget."
        )
    return text


def rates_table(searches):
    """The rate found for each method and searched rank."""
    found = {}
    for record in searches.values():
        arguments = record["arguments"]
        if arguments.get("ratio") is None:
            found.setdefault(tables.title_of(arguments), {})[arguments.get("rank")] = record["rate"]
    ranks = sorted({rank for by_rank in found.values() for rank in by_rank if rank})
    header = ["method", *(f"rank {rank}" for rank in ranks), "no rank"]
    return results.markdown(
        header,
        [[title, *(tables.number(by_rank.get(rank)) for rank in (*ranks, None))] for title, by_rank in found.items()],
    )


def at_ratio_rank(searches):
    """``{title: search}`` at rank 8, one for each method; of LoRA+ that of its best ratio."""
    found = {}
    for record in searches.values():
        arguments = record["arguments"]
        if arguments.get("rank") == tables.RATIO_RANK:
            title, before = tables.title_of(arguments), found.get(tables.title_of(arguments))
            if before is None or min(curve_of(record).values()) < min(curve_of(before).values()):
                found[title] = record
    return found


def ratio_table(rows, runs, searches):
    """LoRA and LoRA+ at rank 8: the best rate and accuracy of each ratio."""
    rates = {}
    for record in searches.values():
        arguments = record["arguments"]
        if arguments.get("rank") == tables.RATIO_RANK and (
            tables.title_of(arguments) == tables.PLAIN or "ratio" in arguments
        ):
            rates[arguments.get("ratio", 1)] = record["rate"]
    found = {
        1: tables.values_of([row for row in rows if tables.title_of(row["overrides"]) == tables.PLAIN]).get(
            tables.RATIO_RANK
        )
    }
    for ratio in sorted({row["overrides"]["ratio"] for row in rows if "ratio" in row["overrides"]}):
        found[ratio] = tables.values_of([row for row in rows if row["overrides"].get("ratio") == ratio]).get(
            tables.RATIO_RANK
        )
    header = ["ratio", "rate of a", "accuracy at rank 8", "steps to LoRA's last loss"]
    saved = steps_to_loss(runs)
    body = [
        [f"{ratio:g}", tables.number(rates.get(ratio)), results.percent(values), tables.number(saved.get(ratio))]
        for ratio, values in sorted(found.items())
    ]
    return results.markdown(header, body)


def steps_to_loss(runs):
    """``{ratio: steps}`` at rank 8: the first step at which the training loss is LoRA's at the end; mean of seeds.

    A seed that never gets there has no number, and then the ratio has none. The ratio of LoRA is 1.
    """
    curves = {}
    for record in runs.values():
        arguments = record["arguments"]
        if arguments.get("rank") == tables.RATIO_RANK and tables.title_of(arguments) in (
            tables.PLAIN,
            tables.TITLES["lora_plus"],
        ):
            curves.setdefault(record["ratio"] or 1, {})[arguments["seed"]] = record["curve"]
    found = {}
    for ratio, by_seed in curves.items():
        reached = [first_below(curve, curves[1][seed][1][-1]) for seed, curve in by_seed.items() if seed in curves[1]]
        if reached and None not in reached:
            found[ratio] = statistics.fmean(reached)
    return found


def first_below(curve, level):
    """The first step of ``(steps, losses)`` whose loss is at most `level`; None if no loss is that low."""
    return next((step for step, loss in zip(*curve) if loss <= level), None)


def claims(methods, runs, searches):
    """A sentence for each claim of the lightweight-transformer report about LoRA+ and SingLoRA."""
    found, plain, trials = [], tables.means(methods[tables.PLAIN]), at_ratio_rank(searches)
    names = {key: tables.TITLES[key] for key in ("lora_plus", "singlora") if tables.TITLES[key] in methods}
    for key, title in names.items():
        own = tables.means(methods[title])
        claim = "1 to 2 % better" if key == "lora_plus" else "better"
        found.append(f'{title}, "{claim}": points above LoRA: {gaps(own, plain)}.')
        if key == "lora_plus":
            scaled = tables.means(methods.get(tables.TITLES["lora alpha/r"], []))
            better = {rank: max(value, scaled[rank]) for rank, value in plain.items() if rank in scaled}
            if better:
                found.append(f"{title} against the better of LoRA's two scales (α/r = 1, α = 1): {gaps(own, better)}.")
            steps, ratio = steps_to_loss(runs), _ratio_of(methods[title])
            saved = f"{steps[1] / steps[ratio]:.2f} times as fast" if steps.get(ratio) else "not as fast"
            found.append(
                f'{title}, "up to twice as fast": at rank 8 and the best ratio, {ratio:g}, {saved}, counted in the '
                "steps until the training loss is LoRA's at the end."
            )
        else:
            half = (
                tables.means(methods[title], "trainable")[tables.RATIO_RANK]
                / tables.means(methods[tables.PLAIN], "trainable")[tables.RATIO_RANK]
            )
            equal = {rank: 100 * (own[2 * rank] - plain[rank]) for rank in plain if 2 * rank in own}
            listed = ", ".join(f"{gap:+z.1f} at rank {2 * rank}" for rank, gap in equal.items())
            found.append(
                f'{title}, "half the weights": {100 * half:.0f} % of LoRA\'s at one rank; at equal weights, with twice '
                f"the rank: {listed}."
            )
            found.append(
                f'{title}, "robust to the rate": the loss stays below 1.5 times the best one over a factor of '
                f"{robustness(trials[title]):.0f} in the rate at rank 8; LoRA's over a factor of "
                f"{robustness(trials[tables.PLAIN]):.0f}."
            )
    return found


def gaps(own, other):
    """Differences of two ``{rank: accuracy}`` in points, at each rank that both have, and their mean."""
    found = {rank: 100 * (own[rank] - other[rank]) for rank in own if rank in other}
    listed = ", ".join(f"{gap:+z.1f} at rank {rank}" for rank, gap in found.items())
    return f"{listed}; on average {statistics.fmean(found.values()):+z.1f}"


def _ratio_of(rows):
    return next(row["overrides"]["ratio"] for row in rows)


def draw(path, searches):
    """Accuracy on the validation set by rate, of every method at rank 8; 0 where training diverged."""
    found = at_ratio_rank(searches)
    curves = {
        title: {trial["rate"]: 100 * trial.get("exact_match", 0.0) for trial in found[title]["tried"]}
        for title in tables.TITLES.values()
        if title in found
    }
    title = f"Each method has its own best learning rate (rank {tables.RATIO_RANK}, half of the steps, one seed)"
    plots.by_rate(curves, path, label="exact match, validation set (%)", title=title)
