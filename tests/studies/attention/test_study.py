"""The study of the attentions: its configs, a run of either task, and the page of records that are made up."""

import csv
import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import pytest

from lwt.data.batches import pair_examples
from lwt.report import results
from lwt.runs import assembly, config_file
from studies.attention import report, study, variants

WORDS = "cold old bold warm long dark young slow great small".split()
SOFTMAX = {"name": "softmax"}
VARIANTS = [name for name in variants.names() if name not in study.LEFT_OUT]
LAYERS = {"translation": ("encoder_layers", "decoder_layers"), "classification": ("layers",)}


@pytest.fixture
def data(tmp_path):
    """Texts in two classes."""
    folder = tmp_path / "data" / "emotion"
    folder.mkdir(parents=True)
    rows = [{"text": f"{w} {WORDS[i % 7]}", "label": WORDS[i % 2]} for i, w in enumerate(WORDS * 6)]
    for split, count in (("train", 48), ("validation", 9), ("test", 10)):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
    return folder.parent


def entry_of(name, **more):
    (found,) = [entry for entry in study.entries(seeds=2, **more) if entry.name == name]
    return found


def test_entries():
    names = [entry.name for entry in study.entries(seeds=2)]
    runs = {f"{task}-{v}-seed{s}" for task in study.TASKS for v in VARIANTS for s in (0, 1)}
    assert set(names) == runs | {f"search-classification-{v}" for v in VARIANTS} and len(set(names)) == len(names)


def test_configs():
    config = study.config_of(entry_of("translation-local-seed1"))
    assert (config.seed, config.steps, config.data.packed, config.optimizer.schedule.warmup) == (1, 1000, False, 200)
    found = [config.model[key].to_dict() for key in ("attention", "decoder_attention", "cross_attention")]
    assert found == [{"name": "local", "window": 8}, {"name": "local", "window": 8}, SOFTMAX]
    assert config.model.encoder_layers == config.model.decoder_layers == 2 and config.model.dropout == 0.2
    config = study.config_of(entry_of("translation-linformer-seed0")).model
    assert (config.decoder_attention.name, config.cross_attention.name) == ("softmax", "linformer")
    config = study.config_of(entry_of("classification-kv_projection_quarter-seed0"))
    assert config.model.attention.to_dict() == {"name": "kv_projection", "rank": 10}
    assert (config.epochs, config.model.name, config.model.get("cross_attention")) == (6, "bert", None)
    assert study.config_of(entry_of("search-classification-local")).epochs == 3


@pytest.mark.parametrize(
    "run, arguments",
    [
        ("translation-kv_projection_quarter_folded-seed1", "form=folded,rank=8,seed=1"),
        ("classification-kv_projection_quarter-seed0", "task=classification,rank=10"),
        ("classification-softmax-seed1", "task=classification,form=softmax,seed=1"),
    ],
)
def test_the_config_of_k_v_projection_trains_the_same(run, arguments):
    ours, own = study.config_of(entry_of(run)), config_file.load(f"configs/kv_projection.py:{arguments}")
    model = ours.model.to_dict()
    assert model.pop("decoder_attention", model["attention"]) == model["attention"] == own.model.attention.to_dict()
    assert model.pop("cross_attention", model["attention"]) == model["attention"]
    assert ours.to_dict() | {"model": model} == own.to_dict()


def test_the_cache_shrinks_with_the_heads():
    def size(variant):
        config = study.config_of(entry_of(f"translation-{variant}-seed0"))
        return study.cache_bytes(assembly.make_model(config, 64), 10)

    # two layers of self and cross attention, keys and values
    assert size("softmax") == 2 * 2 * 2 * 10 * 128 * 4
    assert size("kv_projection_quarter") == size("kv_projection_quarter_folded") == size("softmax") / 4
    assert size("efficient") == size("softmax") / 2
    config = study.config_of(entry_of("classification-softmax-seed0"))
    assert study.cache_bytes(assembly.make_model(config, 64), 10) == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_models_take_every_attention(variant):
    """Shapes only: the loss of a batch, and a step of decoding."""
    for task, keys in (("translation", pair_examples.KEYS), ("classification", ("ids", "segments"))):
        config = study.config_of(entry_of(f"{task}-{variant}-seed0"))
        model = assembly.make_model(config, 64).clone(**dict.fromkeys(LAYERS[task], 1))
        batch = {name: jnp.ones((2, study.TASKS[task].length), jnp.int32) for name in keys}

        def use(model=model, batch=batch):
            variables = model.init(jax.random.key(0), model.example())
            states = model.apply(variables, batch, train=False, method="hidden_states")
            if hasattr(model, "start"):
                cache = model.apply(variables, states, batch["source_segments"], length=5, method="start")
                states, _ = model.apply(variables, jnp.ones(2, jnp.int32), cache, method="step")
            return states

        assert jax.eval_shape(use).shape[0] == 2


def test_a_run(data, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    monkeypatch.setattr(study, "ROW", 8)
    small = dataclasses.replace(study.TASKS["classification"], model=dict(layers=1, width=16, hidden=16), rates=(1e-3,))
    monkeypatch.setitem(study.TASKS, "classification", small)
    known = {entry.name: entry for entry in study.entries(seeds=1, smoke=True)}
    run = functools.partial(study.run, workdir=str(tmp_path / "runs"), known=known)
    entry = known["classification-linformer-seed0"]
    record = run(entry)
    searched = run(known["search-classification-linformer"])
    assert searched["rate"] == 1e-3 and record["config"].endswith(",rate=0.001")
    assert record["steps"] == 2 and record["figures"]["records"] == 10
    assert min(record["costs"].values()) > 0 and "cache_bytes" not in record["costs"]
    assert record["softmax_in"] == [] and record["setting"] == "linformer, max_length=128, rank=8"
    monkeypatch.setattr(study, "measure", None)
    assert run(entry) == record  # it is left alone
    report.write(tmp_path / "out", {entry.name: record, "search": searched}, missing=["another"], command_line="c")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page
    assert "| 0.001 | – | `linformer, max_length=128, rank=8` |" in page and "rate=" not in page


def record_of(task, attention, seed, quality, flops):
    metric = report.METRICS[task][0]
    return {
        "arguments": {"task": task, "attention": attention, "seed": seed},
        "config": "configs/x.py",
        "steps": 1500,
        "figures": {"data": "folder:x@test", metric: quality},
        "costs": {"flops": flops, "parameters": 1000},
        "setting": attention,
        "softmax_in": [],
        "seconds": 3600.0,
        "hardware": "h",
    }


def test_the_page(tmp_path):
    runs = [
        ("translation", "softmax", (20.0, 21.0, 22.0), 4e6),
        ("translation", "kv_projection_half", (18, 19, 20), 1e6),
    ]
    runs += [("classification", "kv_projection_half", (0.5,), 1e6), ("classification", "softmax", (0.75,), 2e6)]
    records = {f"{t}{a}{i}": record_of(t, a, i, q, f) for t, a, all_q, f in runs for i, q in enumerate(all_q)}
    files = report.write(tmp_path, records, missing=[], command_line="python -m study")
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    text = (tmp_path / "README.md").read_text()
    # both have a standard deviation of 1: √(1/3 + 1/3) = 0.816
    assert "| kv_projection_half | 19.00 ± 1.00 (n=3) | -2.00 ± 0.82 | 1.0 | 1,000 | – |" in text
    assert "kv_projection_half: -2.00 BLEU against softmax attention, more than two standard errors of the" in text
    assert "of the difference (1.63)" in text
    assert (
        "kv_projection_half: -25.00 accuracy (%) against softmax attention with one seed; 50% of the operations."
        in text
    )
    assert text.index("| softmax |", text.index("## Classification")) < text.index("| kv_projection_half | 50.00 (n=1)")
    rows = results.load(tmp_path / "results.json")
    assert len(rows) == 8 * 3 and {row["seed"] for row in rows} == {0, 1, 2}
    with open(tmp_path / "table.csv", newline="") as file:
        lines = {(line["task"], line["attention"], line["metric"]): line for line in csv.DictReader(file)}
    assert float(lines["translation", "softmax", "bleu"]["deviation"]) == 1
    assert lines["classification", "softmax", "flops"]["deviation"] == ""


def test_one_seed_is_compared_with_the_same_seed():
    assert report.difference({1: 18.0}, {0: 10.0, 1: 20.0, 2: 30.0}) == (-2.0, None)
    assert report.difference({0: 1.0, 1: 2.0}, {0: 2.0, 1: 4.0, 2: 99.0}) == (-1.5, pytest.approx(1.25**0.5))
