"""The rows of the rank study: their groups, and how figures are shown."""

from studies.lora_ranks import rows


def row(value, **overrides):
    return {"overrides": overrides, "metric": "exact_match", "value": value}


def test_the_methods_have_their_titles():
    assert rows.title_of({"method": "lora", "scaling": "one", "rank": 8}) == "LoRA"
    assert rows.title_of({"method": "lora", "scaling": "alpha/r"}) == "LoRA, α = 1"
    assert rows.title_of({"method": "singlora", "seed": 1}) == "SingLoRA" and rows.title_of({"method": "new"}) == "new"


def test_lora_plus_is_shown_with_the_ratio_of_its_other_ranks():
    about = {"method": "lora_plus"}
    every = [row(0.1, rank=8, ratio=2.0, **about), row(0.2, rank=8, ratio=4.0, **about),
             row(0.3, rank=8, ratio=4.0, **about), row(0.4, rank=16, ratio=4.0, **about)]  # fmt: skip
    (kept,) = rows.by_method(every).values()
    assert rows.values_of(kept) == {8: [0.2, 0.3], 16: [0.4]} and rows.means(kept) == {8: 0.25, 16: 0.4}


def test_rates_have_three_digits():
    assert [rows.number(value) for value in (None, 0.0056568, 1825.0)] == ["–", "0.00566", "1,825"]
