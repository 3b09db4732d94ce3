"""The part of the rank study's page about learning rates."""

from studies.lora_ranks import rates


def test_speed_is_counted_in_steps():
    curve = [[50, 100, 150], [3.0, 2.0, 1.0]]
    assert [rates.first_below(curve, level) for level in (3.5, 2.0, 0.5)] == [50, 100, None]
    plain = {"arguments": {"rank": 8, "method": "lora", "scaling": "one", "seed": 0}, "ratio": 0.0, "curve": curve}
    plus = {"arguments": {"rank": 8, "method": "lora_plus", "ratio": 4, "seed": 0}, "ratio": 4.0}
    faster, slower = [[50, 100, 150], [1.0, 0.5, 0.4]], [[50, 100, 150], [4.0, 3.0, 2.0]]
    assert rates.steps_to_loss({"a": plain, "b": plus | {"curve": faster}}) == {1: 150, 4.0: 50}
    assert rates.steps_to_loss({"a": plain, "b": plus | {"curve": slower}}) == {1: 150}


def test_a_method_is_robust_over_the_rates_near_its_best():
    tried = [{"rate": rate, "loss": loss} for rate, loss in ((1e-3, 1.6), (2e-3, 1.4), (4e-3, 1.0), (8e-3, 1.2))]
    record = {"tried": [*tried, {"rate": 3.2e-2}]}  # training diverged at the last rate
    assert rates.curve_of(record) == {1e-3: 1.6, 2e-3: 1.4, 4e-3: 1.0, 8e-3: 1.2}
    assert rates.robustness(record) == 4


def test_the_larger_budget_of_lora_plus_is_told():
    tried = [{"rate": 1e-3, "loss": 1.0}, {"rate": 4e-3, "loss": 0.5}]
    plain = {"arguments": {"rank": 8, "method": "lora"}, "tried": tried, "rate": 4e-3}
    plus = {"arguments": {"rank": 8, "method": "lora_plus", "ratio": 4}, "tried": tried, "rate": 4e-3}
    alone = rates.rates_text({"a": plain})
    assert "2 rates, seed 0" in alone and "ratio to choose" not in alone
    assert "at rank 8, each of 1 ratios has such a search" in rates.rates_text({"a": plain, "b": plus})
