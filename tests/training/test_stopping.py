"""Training ends when the selected figure stops improving, and a resumed run ends at the same step."""

import math

import pytest

from lwt import errors
from lwt.runs import experiment
from lwt.training import stopping, train
from tests.training import test_resume


@pytest.mark.parametrize(
    "mode, figures, over",
    [
        ("min", [3, 2, 2, 1], [False, False, False, False]),
        ("min", [3, 2, 2, 2], [False, False, False, True]),
        ("max", [1, 0, math.nan], [False, False, True]),
        ("max", [1, 0, 2, 1, 1], [False, False, False, False, True]),
        ("min", [math.inf, math.nan], [False, True]),
    ],
)
def test_patience_counts_evaluations_without_improvement(mode, figures, over):
    found, never = (stopping.Stopping("x", mode=mode, patience=patience) for patience in (2, 0))
    for figure, wanted in zip(figures, over, strict=True):
        again = stopping.Stopping("x", mode=mode, patience=2)
        again.restore(found.state())
        for one in (found, again, never):
            one.update({"x": figure})
        assert found.over == again.over == wanted and not never.over


def test_another_figure_starts_anew():
    found = stopping.Stopping("x", mode="min", patience=1)
    found.restore({"select": "y", "best": 0.0, "since": 5})
    assert not found.over
    found.restore(None)
    assert not found.over and "x has not improved in 0 evaluations (never finite)" in str(found)


def test_a_run_stops_and_a_resumed_one_at_the_same_step(tiny, rows, tmp_path, capsys):
    """Steps so large that the loss rises soon; with a moving average, which is evaluated and kept."""
    changes = {"optimizer.learning_rate": 0.3, "optimizer.ema": 0.6, "optimizer.name": "adam"}
    changes |= {"patience": 2, "eval_every": 1, "steps": 40}
    figures = train.run(tiny(changes), tmp_path / "whole")
    state, data_state, step = test_resume.everything(tmp_path / "whole")
    assert 3 <= step < 40 and data_state["stopping"]["since"] == 2 and data_state["figures"] == figures
    assert f"stopped at step {step} of 40: loss has not improved in 2 evaluations" in capsys.readouterr().out
    assert train.run(tiny(changes), tmp_path / "whole") == figures  # nothing is left to do
    train.run(tiny({**changes, "steps": step - 1}), tmp_path / "parts")
    assert train.run(tiny(changes), tmp_path / "parts") == figures
    test_resume.assert_same(tmp_path / "parts", tmp_path / "whole", rows)

    last = experiment.load(tmp_path / "whole", checkpoint="last")
    for name, weight in last.weights.items():
        assert (weight == state[f"average/base/{name}"]).all(), name
    assert any((weight != state[f"trainable/base/{name}"]).any() for name, weight in last.weights.items())
    assert last.evaluate(last.data.named("validation"))[0]["loss"] == pytest.approx(figures["loss"], rel=1e-5)


@pytest.mark.parametrize("changes", [{"patience": -1}, {"optimizer.ema": 1.0}])
def test_values_outside_their_range_are_refused(tiny, tmp_path, changes):
    with pytest.raises(errors.ConfigError, match=f"{[*changes][0]}=.* should be"):
        train.run(tiny(changes), tmp_path)
