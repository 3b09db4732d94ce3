"""Every export opens every form of a trained model, and writes the weights that the form has."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.export import bundle, quantize
from lwt.export.c import export as c
from lwt.export.phone import classify
from lwt.export.torch import hf, peft
from lwt.huggingface import model_folder
from lwt.layers import linear
from lwt.reparam import compose
from lwt.runs import config_file, experiment, integer_file
from lwt.training import new_run

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[2]
FORMS = ("run", "adapter_run", "derived_run", "bundle_of_floats", "bundle_of_integers")
LORA = {"name": "lora", "rank": 2, "targets": ".*(query|fc1)/kernel"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, untrained):
    """A folder with every form of a text classifier; all but the run have the weights of the adapter run."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "texts").mkdir()
    rows = [{"text": f"{'old new cold warm'.split()[i % 4]} {i}", "label": "no yes".split()[i % 2]} for i in range(40)]
    (folder / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = f"{ROOT}/configs/embbert_finetune.py:model=bert_tiny,vocabulary=160,smoke=true,data=folder:{folder}/texts"
    config = config_file.load(spec)
    config.model.update(width=16, hidden=24, layers=1, max_length=16)
    config.data.row_length, config.precision = 16, "float32"
    run = untrained(config, folder / "run")
    generator, leaves = np.random.default_rng(0), compose.build(LORA).init(jax.random.key(0), run.weights)
    leaves = {name: generator.normal(0, 0.3, leaf.shape).astype(np.float32) for name, leaf in leaves.items()}
    adapted = new_run.adapt(run, folder / "adapter_run", reparam=LORA, adapter=leaves)
    new_run.write(adapted, folder / "derived_run")
    bundle.write(adapted, folder / "bundle_of_floats")
    bundle.write(adapted, folder / "bundle_of_integers", precision="int8")
    return folder


@pytest.fixture(params=FORMS)
def form(request):
    """The name of a form."""
    return request.param


def assert_equal(found, wanted):
    """Asserts that two flat dicts of weights stand for the same arrays."""
    assert found.keys() == wanted.keys()
    for name, w in wanted.items():
        np.testing.assert_array_equal(linear.dense(found[name]), linear.dense(w), err_msg=name)


def test_quantize(form, folders, tmp_path):
    source = experiment.load(folders / form)
    quantize.export(source, tmp_path / "file")
    found = integer_file.load(tmp_path / "file")
    assert any(map(linear.is_node, found.values()))
    if form == "run":
        wanted = quantize.weights(source, quantize.quantization_of(source))
        assert_equal(found, integer_file.as_stored(wanted, rest="float16"))
    else:
        assert_equal(found, experiment.load(folders / "bundle_of_integers").weights)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_bundle(form, precision, folders, tmp_path):
    source = experiment.load(folders / form)
    bundle.write(source, tmp_path / "bundle", precision=precision)
    wanted = source.weights
    if precision == "int8" and form != "run":
        wanted = experiment.load(folders / "bundle_of_integers").weights
    found = experiment.load(tmp_path / "bundle").weights
    assert any(map(linear.is_node, found.values())) == (precision == "int8")
    if (form, precision) != ("run", "int8"):
        assert_equal(found, wanted)


def test_hf(form, folders, tmp_path):
    source = experiment.load(folders / form)
    hf.write(source, tmp_path / "hf")
    assert_equal(model_folder.read(tmp_path / "hf")[1], source.weights)


def test_peft(form, folders, tmp_path):
    source = experiment.load(folders / form)
    if form == "adapter_run":
        peft.write(source, tmp_path / "peft")
        base = experiment.load(folders / "run")
        assert_equal(peft.convert(tmp_path / "peft", base, workdir=tmp_path / "back").weights, source.weights)
    else:  # only an adapter run has an adapter
        with pytest.raises(errors.ConfigError, match="must be a run that trains an adapter"):
            peft.write(source, tmp_path / "peft")


def test_phone(form, folders, tmp_path):
    report = classify.export(experiment.load(folders / form), tmp_path / "file", runtime="onnx", records=4)
    assert report["relative_error"] < 1e-5 and report["agreement"] == 1


def test_c(form, folders, tmp_path):
    c.write(experiment.load(folders / form), tmp_path, activations="fp16")
    model = (tmp_path / "src/model.c").read_text()
    (tmp_path / "other").mkdir()
    c.write(experiment.load(folders / "derived_run"), tmp_path / "other", activations="fp16")
    assert (model == (tmp_path / "other/src/model.c").read_text()) == (form != "run")


def test_the_program_quantizes_a_committed_bundle_of_integers(tmp_path):
    source, out = ROOT / "pretrained/multi30k-small", tmp_path / "file"
    command = [sys.executable, "-m", "lwt.export.quantize", f"--workdir={source}", f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["bytes"] == out.stat().st_size
    assert_equal(integer_file.load(out), integer_file.load(source / "model.safetensors"))
    command += ["--format=int4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "already quantized, with format='int8' instead of 'int4'" in done.stderr
