"""Smoke runs of the configs of translators: from nothing, adapted, and made lighter."""

import pytest

from configs import lightweight
from lwt.runs import experiment
from lwt.training import build, loop, train
from tests.configs import smoke

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Workdir of a translator, for the adapters to start from."""
    workdir = tmp_path_factory.mktemp("base") / "pool"
    smoke.cycle(smoke.small("translation.py:data=pool"), workdir)
    return workdir


@pytest.fixture(scope="module")
def weights(translator):
    return experiment.load(str(translator)).weights


def test_pool(translator):
    figures, sources, hypotheses, references = experiment.load(str(translator), checkpoint="last").evaluate()
    assert len(sources) == len(hypotheses) == len(references) == 4
    assert figures["loss"] > 0 and 0 <= figures["bleu"] <= 100


@pytest.mark.parametrize("data", ["multi30k", "wmt17"])
def test_translation(data, tmp_path):
    smoke.cycle(smoke.small(f"translation.py:data={data}"), tmp_path)


def test_lora_ranks(translator, tmp_path):
    smoke.cycle(smoke.small(f"lora_ranks.py:base={translator},rank=4"), tmp_path)
    figures, *_ = experiment.load(str(tmp_path), checkpoint="last").evaluate()
    tasks = ("add_1", "add_2", "sort_ascending", "sort_descending")
    assert figures["exact_match"] == pytest.approx(sum(figures[f"exact_match/{task}"] for task in tasks) / 4)


@pytest.mark.parametrize("method", ["lora_plus", "pissa", "singlora", "dora", "full", "bitfit"])
def test_other_methods(method, translator, weights, tmp_path):
    """The other methods share lora's way through saving and resuming: here they are built, stepped and evaluated."""
    config = smoke.small(f"lora_ranks.py:base={translator},method={method},rank=4")
    config.eval_decode, config.select, config.select_mode = False, "loss", "min"
    figures = loop.train(build.build(config, str(tmp_path), base=weights))
    assert figures["loss"] > 0 and smoke.steps_of(tmp_path) == ([1, 2], [1, 2], [1, 2])


@pytest.fixture(scope="module")
def student(translator, tmp_path_factory):
    """Workdir of a student of other sizes."""
    workdir = tmp_path_factory.mktemp("student")
    spec = f"lightweight.py:teacher={translator},method=distill,layers=1,width=32,heads=2,hidden=32,match_hidden=1"
    smoke.cycle(smoke.small(spec), workdir)
    return workdir


def test_lightweight(student, translator):
    found = experiment.load(str(student), checkpoint="last")
    assert found.model.width == 32 and found.model.decoder_layers == 1 and found.evaluate()[0]["bleu"] >= 0
    assert found.tokenizer.fingerprint == experiment.load(str(translator)).tokenizer.fingerprint


@pytest.mark.parametrize("method", sorted({*lightweight.METHODS} - {"distill"}))
def test_other_ways_on(method, student, tmp_path):
    config = smoke.small(f"lightweight.py:base={student},method={method}")
    config.eval_decode = False
    assert train.run(config, str(tmp_path))["loss"] > 0
    assert smoke.steps_of(tmp_path) == ([1, 2], [1, 2], [1, 2])


def test_quickstart(tmp_path):
    smoke.cycle(smoke.small("quickstart.py:stage=base"), tmp_path / "base")
    smoke.cycle(smoke.small(f"quickstart.py:stage=adapt,base={tmp_path}/base"), tmp_path / "adapted")
