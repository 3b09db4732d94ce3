"""How fine-tunings start: their pre-trainings and teachers."""

import pytest

from lwt.runs import config_file
from studies.embbert import paper, starts

RUN = {"model": "embbert", "task": "snips", "seed": 5}


def names(arguments):
    return [name for name, *_ in starts.bases_of(arguments)]


def test_the_pre_trainings_of_a_run():
    found = {start: names(RUN | {"start": start}) for start in starts.STARTS}
    own = ["base-embbert"]
    assert found["scratch"] == found["small"] == []
    assert found["pretrained"] == found["taught"] == found["ngrams"] == own
    assert found["further"] == [*own, "base-embbert-snips"]
    assert found["paper"] == ["base-embbert-paper"]
    assert {*map(tuple, (found[start] for start in found if start.startswith("small_")))} == {("base-embbert-small",)}
    assert names(RUN | {"start": "further", "task": "rte"}) == [*own, "base-embbert-glue"]
    assert starts.bases_of({"model": "embbert"}) == starts.teachers_of({"model": "embbert"}) == []


def test_the_teachers_of_a_run_are_the_same_for_all_seeds():
    for start, taught_by in (("taught", "pretrained"), ("small_taught_ngrams", "small_ngrams")):
        found = starts.teachers_of(RUN | {"start": start})
        assert found == [RUN | {"start": taught_by, "seed": seed} for seed in range(3)]
    assert starts.teachers_of(RUN | {"start": "small_ngrams"}) == []


def test_what_must_be_finished_before_a_run():
    linear = RUN | {"start": "small_taught_linear"}
    network = RUN | {"start": "small_taught"}
    assert starts.network_of(linear) == network and starts.network_of(network) is None
    assert starts.before(linear) == [*starts.before(network), network] and len(starts.before(network)) == 3
    assert starts.before({"model": "embbert"}) == [] and starts.network_of({"model": "embbert"}) is None


def test_the_larger_model_comes_before_the_runs_on_its_labels():
    teacher = {"model": "minilm", "start": "pretrained", "task": "snips", "seed": 0}
    run = RUN | {"start": "small_labelled"}
    assert (
        starts.is_labelled(run) and starts.before(run) == [teacher] and names(teacher) == starts.before(teacher) == []
    )
    assert not starts.is_distilled(run) and starts.is_distilled(RUN | {"start": "small_distilled"})
    linear, network = (RUN | {"start": start} for start in ("small_distilled_linear", "small_distilled"))
    assert starts.before(network) == [teacher] and starts.before(linear) == [teacher, network]
    before = [teacher | {"task": task} for task in ("mnli", "rte")]
    assert starts.before(run | {"task": "rte"}) == before and starts.before(before[1]) == before[:1]


@pytest.mark.parametrize("start", starts.STARTS)
def test_every_start_has_a_line_and_known_arguments(start):
    assert start in ("scratch", "pretrained") or start in paper.VARIANTS
    added = ",".join(f"{key}={value}" for key, value in starts.STARTS[start].added.items())
    config_file.load(f"configs/embbert_finetune.py:{added}")
