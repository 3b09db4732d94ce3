"""An opened run: other weights, its base, its files of an evaluation, and answers that do not depend on company."""

import json
import pathlib
import shutil

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.reparam import compose
from lwt.runs import experiment
from lwt.training import new_run

pytestmark = pytest.mark.usefixtures("compiled_once")
PROMPTS = ["copy: 1 2 3 4", "add 1: 7 30 2 9", "sort ascending: 4 3 2 1"]
LORA = {"name": "lora", "rank": 2}


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def adapted(run, tmp_path_factory):
    """An adapter run on `run`, beside it."""
    leaves = compose.build(LORA).init(jax.random.key(0), run.weights)
    folder = tmp_path_factory.mktemp("adapters") / "adapted"
    return new_run.adapt(run, folder, reparam=LORA, adapter={name: leaf + 0.1 for name, leaf in leaves.items()})


def test_an_answer_does_not_depend_on_the_other_texts(run):
    together = run.predict(PROMPTS)
    assert [run.predict([prompt])[0] for prompt in PROMPTS] == together
    assert run.predict(PROMPTS[::-1]) == together[::-1]


def test_what_a_run_stores(run, adapted):
    trained, frozen = run.stored()
    assert frozen == {} and set(trained) == {f"base/{name}" for name in run.weights}
    trained, frozen = adapted.stored()
    assert all(name.startswith("adapter/") for name in trained)
    assert set(frozen) == {f"base/{name}" for name in run.weights}


def test_the_base_is_found_where_it_was_or_beside(run, adapted, tmp_path):
    for name, w in run.weights.items():
        np.testing.assert_array_equal(adapted.base()[name], w)
    assert run.base() is None
    moved = shutil.copytree(adapted.workdir, tmp_path / "moved/adapted")
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps(config | {"init_from": "elsewhere/run"}))
    with pytest.raises(errors.CheckpointError, match="adapts the run elsewhere/run, which is neither there nor at"):
        experiment.load(moved)
    shutil.copytree(run.workdir, tmp_path / "moved/run")
    assert experiment.load(moved).predict(PROMPTS) == adapted.predict(PROMPTS)


def test_other_weights_have_to_fit(run):
    doubled = {name: 2 * w for name, w in run.weights.items()}
    other = run.with_weights(doubled, name="doubled", step=3)
    assert other.step == 3 and other.weights is doubled and run.weights is not doubled
    kernel = "encoder/layer_0/mlp/fc1/kernel"
    with pytest.raises(errors.CheckpointError, match=f"small holds another model than .*{kernel}"):
        run.with_weights(run.weights | {kernel: run.weights[kernel][:, :5]}, name="small", step=0)


def test_a_report_leaves_its_files(run):
    figures = run.report()
    stem = experiment.file_stem(run.test, {})
    written = json.loads(pathlib.Path(run.workdir, f"eval/{stem}.json").read_text())
    assert written == figures and figures["records"] == 8
    beams = experiment.load(run.workdir, decoding={"beams": 2})
    assert beams.report()["decoding"].startswith("beam search, 2 beams")
    assert experiment.file_stem("folder:x@test", {"beams": 2}) == "folder_x@test_beams=2"


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(errors.CheckpointError, match="is not the workdir of a run"):
        experiment.load(tmp_path)
