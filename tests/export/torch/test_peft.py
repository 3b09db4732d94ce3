"""An adapter in PEFT gives the same logits on the same base, and comes back with the same weights to the bit."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from lwt import errors, trees
from lwt.export import bundle
from lwt.export.torch import hf, peft_configs
from lwt.export.torch import peft as border
from lwt.export.torch import timm as public
from lwt.reparam import adapters, compose
from lwt.runs import config_file, experiment
from lwt.training import new_run

pytestmark = pytest.mark.usefixtures("compiled_once")
torch_timm = pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
torch = torch_timm.torch
transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")
peft = pytest.importorskip("peft", reason="needs peft (the extra `test`)")

TOLERANCE = 1e-5
IDS = np.array([[2, 9, 30, 4, 17, 3], [2, 7, 40, 3, 8, 5]])
IMAGES = np.random.default_rng(0).normal(0, 1, (4, 8, 8, 3)).astype(np.float32)
# Some of these kernels read channels, others write them.
KERNELS = r"encoder/.*(query|out|fc1)/kernel|decoder/.*(cross_attention/value|fc2)/kernel"
CASES = {
    "rslora": {"name": "lora", "rank": 4, "alpha": 6.0, "scaling": "rslora", "dropout": 0.1},
    "dora, patterns": {
        "name": "dora",
        "rank": 4,
        "rank_pattern": [["encoder/.*query/kernel", 6], [".*fc2/kernel", 1]],
        "alpha_pattern": [[".*value/kernel", 2.0], ["encoder/.*query/kernel", 3.0]],
    },
}


@pytest.fixture(scope="module")
def translator(tiny, untrained, tmp_path_factory):
    """A translator's run, its function from weights to logits, and the folder that transformers reads."""
    folder = tmp_path_factory.mktemp("runs")
    bundle.write(untrained(tiny(), folder / "run"), folder / "base")  # a bundle opens faster than a run
    source = experiment.load(folder / "base")
    hf.write(source, folder / "base-hf")
    return source, logits_of(source), folder / "base-hf"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A ViT's run, its function from weights to logits, and the folder of transformers it was made from."""
    folder = tmp_path_factory.mktemp("runs")
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, layer_norm_eps=1e-6, **sizes)
    other = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.normal_(std=0.3)
    other.save_pretrained(folder / "base-hf")
    path, own = folder / "base-hf/model.safetensors", config_file.load("configs/vit.py:smoke=true")
    with own.unlocked():
        own.precision = "float32"
    public.convert(own, path, workdir=str(folder / "run"), names=("ant", "bee", "cat"))
    bundle.write(experiment.load(folder / "run"), folder / "base")
    source = experiment.load(folder / "base")
    return source, logits_of(source), folder / "base-hf"


@pytest.fixture(scope="module")
def reader(untrained, tmp_path_factory):
    """A BERT of two classes: its run, its function from weights to logits, and the folder that transformers reads."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [{"text": f"{'old new cold warm'.split()[i % 4]} {i}", "label": "no yes".split()[i % 2]} for i in range(40)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = config_file.load(
        f"configs/embbert_finetune.py:model=bert_tiny,vocabulary=80,smoke=true,data=folder:{folder}"
    )
    config.model.update(width=16, hidden=24, layers=2, heads=2, max_length=8)
    config.data.row_length = 8
    bundle.write(untrained(config, folder / "run"), folder / "base")
    source = experiment.load(folder / "base")
    hf.write(source, folder / "base-hf")
    return source, logits_of(source), folder / "base-hf"


def logits_of(source):
    """The function ``weights -> logits`` of a run's model, with `IDS` as source and target, or for `IMAGES`."""
    ones, positions = np.ones_like(IDS), np.arange(IDS.shape[1])[None].repeat(len(IDS), 0)
    batch = {"source": IDS, "source_segments": ones, "source_positions": positions}
    batch |= {"inputs": IDS, "target_segments": ones, "target_positions": positions, "image": IMAGES}
    batch |= {"ids": IDS, "segments": ones}
    return jax.jit(lambda w: source.model.apply({"params": trees.unflatten(w)}, jax.tree.map(jnp.asarray, batch)))


def theirs(model):
    """The same for a model of transformers, adapted or not."""
    with torch.no_grad():
        if model.config.model_type == "vit":
            return model(pixel_values=torch.from_numpy(IMAGES).permute(0, 3, 1, 2)).logits.numpy()
        if model.config.model_type == "bert":
            return model(input_ids=torch.from_numpy(IDS)).logits.numpy()
        return model(input_ids=torch.from_numpy(IDS), decoder_input_ids=torch.from_numpy(IDS)).logits.numpy()


def adapted(base, workdir, section, *, seed=0):
    """A run on `base` with an adapter whose leaves are random."""
    section = {"targets": KERNELS, **section}
    leaves = compose.build(section).init(jax.random.key(0), base.weights)
    generator = np.random.default_rng(seed)
    for name, leaf in leaves.items():
        if not name.endswith("0"):  # constants stay
            leaves[name] = leaf + generator.normal(0, 0.2, leaf.shape).astype(np.float32)
    return new_run.adapt(base, workdir, reparam=section, adapter=leaves)


@pytest.mark.parametrize("case", CASES)
def test_peft_and_lwt_give_the_same_logits_and_the_adapter_comes_back(case, translator, tmp_path):
    base, logits, folder = translator
    run = adapted(base, tmp_path / "run", CASES[case])
    border.write(run, tmp_path / "adapter")
    model = transformers.MarianMTModel.from_pretrained(folder)
    wanted = theirs(peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval())
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    assert np.abs(wanted - logits(base.weights)).max() > 0.1
    again = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "again")
    found, _ = again.stored()
    for name, leaf in run.stored()[0].items():
        np.testing.assert_array_equal(found[name], leaf, err_msg=name)
    for name, w in run.weights.items():
        np.testing.assert_array_equal(again.weights[name], w, err_msg=name)
    border.write(again, tmp_path / "twice")
    for file in (border.CONFIG, border.WEIGHTS):
        assert (tmp_path / "twice" / file).read_bytes() == (tmp_path / "adapter" / file).read_bytes()


def test_what_peft_trained_runs_in_lwt(classifier, tmp_path):
    base, logits, folder = classifier
    torch.manual_seed(0)
    options = dict(r=2, lora_alpha=3, target_modules=["q_proj", "v_proj", "fc1"], modules_to_save=["classifier"])
    config = peft.LoraConfig(
        **options, rank_pattern={"v_proj": 3}, alpha_pattern={"layers.1.mlp.fc1": 5}, use_dora=True
    )
    model = peft.get_peft_model(transformers.ViTForImageClassification.from_pretrained(folder), config)
    before, optimizer = theirs(model.eval()), torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        images = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)
        model(pixel_values=images, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    wanted = theirs(model)
    assert np.abs(wanted - before).max() > 0.1
    model.save_pretrained(tmp_path / "adapter")
    run = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "run")
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    assert run.labels == ("ant", "bee", "cat") and run.config.init_from == base.workdir
    border.write(run, tmp_path / "back")
    found, made = (safetensors.numpy.load_file(tmp_path / name / border.WEIGHTS) for name in ("back", "adapter"))
    assert found.keys() == made.keys() and all(np.array_equal(found[name], made[name]) for name in made)


def test_a_classifier_travels_with_the_adapter_both_ways(reader, tmp_path):
    base, logits, folder = reader
    torch.manual_seed(0)
    fresh = transformers.BertForSequenceClassification.from_pretrained(
        folder, num_labels=3, ignore_mismatched_sizes=True
    )
    options = dict(r=2, lora_alpha=3, target_modules=["query", "value"], modules_to_save=["classifier", "pooler"])
    model = peft.get_peft_model(fresh, peft.LoraConfig(**options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape) * parameter.requires_grad
    wanted = theirs(model)
    model.save_pretrained(tmp_path / "theirs")
    with pytest.raises(errors.ConfigError, match="classifier of 3 classes; no, yes are 2: name its classes with"):
        border.convert(tmp_path / "theirs", base, workdir=tmp_path / "run")
    run = border.convert(tmp_path / "theirs", base, workdir=tmp_path / "run", classes=("a", "b", "c"))
    assert wanted.shape == (2, 3) and run.labels == ("a", "b", "c") and {*run.predict(["old 3", "new"])} <= {*"abc"}
    np.testing.assert_allclose(logits_of(run)(run.weights), wanted, atol=TOLERANCE)
    border.write(run, tmp_path / "ours")
    again = transformers.BertForSequenceClassification.from_pretrained(
        folder, num_labels=3, ignore_mismatched_sizes=True
    )
    back = peft.PeftModel.from_pretrained(again, tmp_path / "ours").eval()
    np.testing.assert_allclose(theirs(back), wanted, atol=TOLERANCE)
    assert border.convert(tmp_path / "ours", base, workdir=tmp_path / "again").labels == ("a", "b", "c")
    merged = adapters.merge(run.weights, run.weights)
    assert merged["head/classifier/kernel"].shape == (16, 3) and base.labels == ("no", "yes")
    assert np.abs(logits(base.weights)).max() > 0.1


def test_a_low_rank_change_is_written_as_lora(translator, tmp_path):
    base, logits, folder = translator
    run = adapted(base, tmp_path / "run", {"name": "lora", "rank": 2, "scaling": "one", "start": "pissa"})
    with pytest.raises(errors.ConfigError, match="reparam.name='lora' with start='pissa'.*--as_lora"):
        border.write(run, tmp_path / "adapter")
    border.write(run, tmp_path / "adapter", as_lora=True)
    model = transformers.MarianMTModel.from_pretrained(folder)
    wanted = theirs(peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval())
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)


def test_adapters_that_peft_does_not_support(translator, tmp_path):
    base, _, _ = translator
    for name in ("singlora", "quantize", "prune"):
        with pytest.raises(errors.ConfigError, match=f"run has reparam.name='{name}'.*--as_lora"):
            peft_configs.checked(adapters.Adapter({}, {"name": name}), "run")
    assert peft_configs.checked(adapters.Adapter({}, {"name": "lora", "start": "eva"}), "run").start == "eva"
    with pytest.raises(errors.ConfigError, match="reparam.name='none'.*must be a run that trains an adapter"):
        border.write(base, tmp_path / "adapter")
    section, table = {"name": "lora", "rank": 2, "targets": "embed/.*"}, "embed/embedding"
    leaves = compose.build(section).init(jax.random.key(0), base.weights)
    run = new_run.adapt(base, tmp_path / "table", reparam=section, adapter=leaves)
    with pytest.raises(errors.ConfigError, match=f"'{table}' is adapted, .*except the output layer"):
        border.write(run, tmp_path / "adapter")
    bias = "encoder/layer_0/mlp/fc1/bias"
    options = {"reparam": {**section, "targets": ".*fc2/kernel"}, "trained": {bias: base.weights[bias]}}
    leaves = compose.build(options["reparam"]).init(jax.random.key(0), base.weights)
    run = new_run.adapt(base, tmp_path / "bias", adapter=leaves, **options)
    with pytest.raises(errors.ConfigError, match=f"'{bias}' was trained, and '.*fc1/kernel' was not"):
        border.write(run, tmp_path / "adapter")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"peft_type": "XLORA"}, "peft_type='XLORA' must be 'LORA'"),
        ({"bias": "all"}, "bias='all' must be 'none'"),
        ({"lora_bias": True}, "lora_bias=True is not supported by lwt"),
        ({"init_lora_weights": "olora"}, "init_lora_weights='olora' has changed the base"),
        ({"r": None}, "has no key r"),
    ],
)
def test_configs_that_lwt_does_not_support(change, message):
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", **change}
    config = {key: value for key, value in config.items() if value is not None}
    with pytest.raises(errors.CheckpointError, match=f"file.*{message}"):
        peft_configs.to_section(config, {"x/kernel": "x"}, ranks={"x/kernel": 4}, where="file")


def test_folders_that_do_not_fit(translator, tmp_path):
    base, _, _ = translator
    for name, shapes, message in (
        ("unknown", {"model.encoder.layers.0.fc3.lora_A.weight": (2, 32)}, "fc3.lora_A.weight belongs to no linear"),
        (
            "wide",
            {"model.encoder.layers.0.fc1.lora_A.weight": (2, 33)},
            r"missing: .*fc1/kernel/b.*fc1/kernel/a: \(33, 2\)",
        ),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / border.CONFIG).write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 2}')
        arrays = {border.PREFIX + key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
        safetensors.numpy.save_file(arrays, tmp_path / name / border.WEIGHTS)
        with pytest.raises(errors.CheckpointError, match=message):
            border.convert(tmp_path / name, base, workdir=tmp_path / "run")
    (tmp_path / "wide" / border.WEIGHTS).unlink()
    with pytest.raises(errors.CheckpointError, match=f"wide/{border.WEIGHTS} cannot be read"):
        border.convert(tmp_path / "wide", base, workdir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
