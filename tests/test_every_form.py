"""Everything that opens a run opens its five forms: run, adapter run, derived run, float bundle, integer bundle.

The exports have such a test of their own, `tests/export/test_every_form.py`.
"""

import types

import jax
import numpy as np
import pytest
from absl import flags

import lwt
from lwt.compress import structured
from lwt.demo import session
from lwt.export import bundle
from lwt.layers import linear
from lwt.reparam import compose
from lwt.runs import experiment
from lwt.training import new_run, train
from studies.inspection import spectra

pytestmark = pytest.mark.usefixtures("compiled_once")
FORMS = ("run", "adapter", "derived", "floats", "integers")
LORA = {"name": "lora", "rank": 2}
PROMPTS = ["copy: zqxjkvwyzqxjkvwyp", "add 2: xqzjkvwyxqzjkvwyxj"]  # 17 to 31 tokens: rows of 32 here and on the page


@pytest.fixture(scope="module")
def forms(tiny, untrained, tmp_path_factory):
    """``{form: folder}``, all made from one translator with random weights."""
    folder = tmp_path_factory.mktemp("forms")
    run = untrained(tiny(), folder / "run")
    leaves = compose.build(LORA).init(jax.random.key(0), run.weights)
    leaves = {name: leaf + 0.1 for name, leaf in leaves.items()}
    new_run.adapt(run, folder / "adapter", reparam=LORA, adapter=leaves)
    structured.prune(run, folder / "derived", units=0.5, scores="magnitude")
    bundle.write(run, folder / "floats")
    bundle.write(run, folder / "integers", precision="int8")
    return {form: folder / form for form in FORMS}


@pytest.fixture(params=FORMS)
def folder(request, forms):
    return forms[request.param]


def test_forms_differ(forms):
    found = {form: lwt.load(folder).weights for form, folder in forms.items()}
    assert any(linear.is_node(w) for w in found["integers"].values())
    for name, w in found["run"].items():
        np.testing.assert_array_equal(found["floats"][name], w)
    kernel = "encoder/layer_0/self_attention/query/kernel"
    assert np.abs(found["adapter"][kernel] - found["run"][kernel]).max() > 0.01
    assert found["derived"]["encoder/layer_0/mlp/fc1/kernel"].shape[1] < 32


def test_load(folder):
    found = lwt.load(folder)
    assert len(found.predict(PROMPTS)) == 2
    assert found.report()["loss"] > 0 and (folder / "eval").is_dir()


def test_spectra(folder, tmp_path, monkeypatch, capsys):
    values = dict(workdir=str(folder), checkpoint="best", out=str(tmp_path), weights=".*kernel")
    monkeypatch.setattr(flags, "FLAGS", types.SimpleNamespace(**values, report_only=False, base=""))
    spectra.main()
    page = (tmp_path / "README.md").read_text()
    assert "## Weights of" in page and ("## Updates of" in page) == (folder.name == "adapter")


def test_prune(folder, tmp_path):
    pruned, figures = structured.prune(experiment.load(folder), tmp_path / "out", units=0.5, scores="magnitude")
    assert figures["parameters"] < figures["parameters_before"]
    assert pruned.predict(PROMPTS) == lwt.load(tmp_path / "out").predict(PROMPTS)


def test_distil(folder, tiny, tmp_path):
    task = {"name": "distill", "task": tiny().task.to_dict(), "teacher": str(folder), "temperature": 2.0, "weight": 1.0}
    settings = {"task": task, "steps": 2, "data.tokenizer.path": str(folder / "tokenizer.model")}
    assert train.run(tiny(settings), tmp_path / "student")["loss"] > 0
    assert lwt.load(tmp_path / "student").config.task.name == "translate"


def test_demo(folder):
    page = session.Session(folder)
    wanted = lwt.load(folder).predict(PROMPTS)
    assert [page.answer((prompt,)) for prompt in PROMPTS] == wanted
    assert page.look((PROMPTS[0],), answer=wanted[0])


def test_adapt(forms, tiny, tmp_path):
    start = str(forms["integers"])
    train.run(tiny({"init_from": start, "reparam": LORA, "optimizer.trainable": ("adapter/.*",)}), tmp_path / "run")
    assert lwt.load(tmp_path / "run").predict(PROMPTS)
