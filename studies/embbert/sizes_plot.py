"""The picture of sizes and scores, the paper's figure 2."""

import statistics

from matplotlib import ticker

from lwt.report import style


def sizes_and_scores(panels, path, *, weights, activations, label="score (%)"):
    """Bars of the size of every model, and marks of its scores at a scale of their own, a panel for each benchmark.

    Args:
        panels: ``{title: {series: {model: value, or a list of values}}}``: of a list, the mean and ± one standard
            deviation; models without a score have no mark.
        path: of the PNG.
        weights, activations: ``{model: count}``, the models from left to right.
        label: of the scores' axes, with the unit.
    """
    names = list(weights)
    with style.drawing(path, "", panels=len(panels)) as (drawn, axes):
        for place, (title, series) in zip(drawn.axes, panels.items(), strict=True):
            for shift, (kind, counts) in zip((-0.2, 0.2), (("weights", weights), ("activations", activations))):
                color = "#9ecae9" if kind == "weights" else "#d0d0d0"
                place.bar([i + shift for i in range(len(names))], counts.values(), 0.38, label=kind, color=color)
            place.set_title(title)
            place.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
            place.tick_params(axis="x", length=0)
            place.yaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
            place.grid(False)
            scale = place.twinx()
            for i, (name, values) in enumerate(series.items()):
                lists = {model: v if isinstance(v, list | tuple) else [v] for model, v in values.items()}
                shown = [(names.index(model), found) for model, found in lists.items() if model in names]
                scale.errorbar(
                    [at for at, _ in shown],
                    [statistics.fmean(found) for _, found in shown],
                    [statistics.stdev(found) if len(found) > 1 else 0.0 for _, found in shown],
                    label=name, color=style.COLORS[i + 1], marker=style.MARKERS[i], linestyle="none", capsize=3,
                )  # fmt: skip
            scale.grid(False)
            scale.spines["right"].set_visible(True)
            scale.set_ylabel(label)
        axes[0].set_ylabel("values")
        handles = [place.get_legend_handles_labels() for place in (drawn.axes[0], drawn.axes[len(panels)])]
        drawn.legend(*map(sum, zip(*handles), ([], [])), loc="outside lower center", ncols=4)
    return drawn
