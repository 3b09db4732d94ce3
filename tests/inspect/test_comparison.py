"""What a comparison tells of runs, from their files."""

import shutil

import pytest

from lwt import errors
from lwt.inspect import comparison
from lwt.runs import experiment
from lwt.training import new_run, train

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    short = {"steps": 2, "eval_every": 1, "save_every": 2}
    train.run(tiny(short), f"{folder}/base")
    lora = {"reparam": {"name": "lora", "rank": 2}, "optimizer.trainable": ("adapter/.*",)}
    train.run(tiny({**short, **lora, "init_from": f"{folder}/base", "select": "accuracy"}), f"{folder}/lora")
    return folder


def test_facts_of_a_run_and_of_an_adapter(runs, rows):
    base, lora = comparison.facts(runs / "base"), comparison.facts(runs / "lora", "loss")
    assert base.parameters == base.trained == lora.parameters - lora.trained and 0 < lora.trained < 2000
    losses = {row["step"]: row["validation/loss"] for row in rows(runs / "base") if "validation/loss" in row}
    assert base.best == min(losses.values()) == losses[base.step] and base.figure == "loss" and base.seconds > 0
    found = comparison.differences([base, lora])
    assert found["reparam.rank"] == [None, 2] and found["reparam.name"] == ["none", "lora"] and "steps" not in found
    text = comparison.table({"a": base, "b": lora})
    assert "| reparam.rank | - | 2 |" in text and "| best loss | " in text


def test_a_run_made_from_another_is_evaluated(runs, tmp_path):
    made = tmp_path / "made"
    new_run.write(experiment.load(str(runs / "base")), str(made))
    base, found = (comparison.facts(folder, "loss") for folder in (runs / "base", made))
    assert found.best == pytest.approx(base.best, rel=1e-5) and (found.step, found.seconds) == (0, 0.0)
    assert found.parameters == found.trained == base.parameters
    with pytest.raises(errors.DataError, match="made has no figure 'acuracy'; did you mean 'accuracy'"):
        comparison.facts(made, "acuracy")
    assert comparison.draw({"base": (runs / "base", base), "made": (made, found)}, tmp_path / "x.png")
    assert comparison.draw({"made": (made, found)}, tmp_path / "y.png") is None and not (tmp_path / "y.png").exists()


def test_a_figure_that_is_not_there_is_named(runs):
    with pytest.raises(errors.DataError, match="has no validation/acuracy; did you mean 'accuracy'"):
        comparison.facts(runs / "base", "acuracy")
    with pytest.raises(errors.CheckpointError, match="nowhere"):
        comparison.facts(runs / "nowhere")


def test_a_figure_is_suggested_while_a_row_is_being_written(runs, tmp_path):
    folder = shutil.copytree(runs / "base", tmp_path / "base")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "validation/lo')
    with pytest.raises(errors.DataError, match="did you mean 'loss'"):
        comparison.facts(folder, "los")


def test_the_best_is_the_largest_of_an_accuracy_and_the_smallest_of_a_loss(tiny):
    config = tiny({"select": "loss", "select_mode": "min"})
    for name in ("loss", "soft_loss", "perplexity", "rmse", "mae", "ece"):
        assert comparison.mode_of(config, name) == "min", name
    for name in ("accuracy", "bleu", "precision_macro", "recall_macro", "f1_macro", "mcc", "pearson", "rougeL"):
        assert comparison.mode_of(config, name) == "max", name


def test_a_plot_has_a_curve_for_each_run(runs, tmp_path):
    found = {name: (runs / name, comparison.facts(runs / name, "loss")) for name in ("base", "lora")}
    drawn = comparison.draw(found, tmp_path / "x.png")
    curves = [line for line in drawn.axes[0].lines if line.get_linestyle() == "-"]  # not the mark of a broken axis
    assert len(curves) == 4  # training and validation of each
