"""The search: bytes as in the file, steps as in decoding, fronts that decide, and the whole of it on little data."""

import csv
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.inspect import cost, measuring
from lwt.models import seq2seq
from lwt.reparam.compression import quantize
from lwt.report import results
from lwt.runs import assembly, integer_file
from studies.lighter import architectures, fronts, search

pytestmark = pytest.mark.usefixtures("compiled_once")

SMALL = dict(layers=(1,), width=(8,), heads=(2,), expansion=(1,), attention=("softmax",), format=("float32", "int8"))


def candidate(**changes):
    (one,) = architectures.candidates(SMALL | {"format": ("int8",)} | {k: (v,) for k, v in changes.items()}, count=1)
    return one


def test_candidates():
    space = architectures.SPACE | {"width": (60, 64), "heads": (2, 4)}
    every = architectures.candidates(space, count=10_000)
    assert len(every) == len({one.name for one in every}) == 3 * 3 * 3 * 2 * 3  # 60 is no multiple of 8
    drawn = architectures.candidates(space, count=7, seed=1)
    assert len(drawn) == 7 and drawn == architectures.candidates(space, count=7, seed=1)
    wide = architectures.candidates(space, count=7, seed=1, fits=lambda one: one.width > 60)
    assert len(wide) == 7 and min(one.width for one in wide) > 60
    assert set(drawn) < set(every) and drawn != architectures.candidates(space, count=7, seed=2)
    for wrong, match in (("depth=4", "--space=depth"), ("format=int9", "int8"), ("attention=soft", "softmax")):
        with pytest.raises(errors.ConfigError, match=match):
            architectures.candidates(space | search.parse([wrong]), count=1)


def test_config():
    config = architectures.config_of("translation", candidate(width=16, attention="linformer"), steps=50)
    assert (config.model.encoder_layers, config.model.decoder_layers, config.model.hidden) == (1, 1, 16)
    assert (config.steps, config.eval_every, config.epochs, config.optimizer.schedule.warmup) == (50, 50, 0.0, 10)
    assert not config.data.packed and config.model.attention.name == "linformer"
    assert config.model.decoder_attention.name == "softmax"  # linformer has no causal form
    config = architectures.config_of("classification", candidate(layers=3), steps=9, data="folder:mine")
    assert (config.model.layers, config.data.train, config.data.packed) == (3, "folder:mine", True)


@pytest.mark.parametrize("format", architectures.FORMATS)
def test_bytes_are_those_of_the_file(format, tmp_path):
    config = architectures.config_of("classification", candidate(width=12), steps=1, smoke=True)
    weights = assembly.init_weights(assembly.make_model(config, cost.vocabulary_of(config)), jax.random.key(0))
    if format == "float32":
        wanted = integer_file.write(tmp_path / "file", weights, rest="float32")
    else:
        rounded = quantize.Quantize(format=format).expand(weights, {}, 0)
        wanted = integer_file.write(tmp_path / "file", rounded, rest="float16")
    assert architectures.nbytes(config, format) == wanted - integer_file.parts(tmp_path / "file")["header"]


def test_timed_steps_are_those_of_decoding():
    sizes = dict(vocabulary=23, width=8, heads=2, hidden=8, encoder_layers=1, decoder_layers=2)
    model, length = seq2seq.Seq2Seq(**sizes, scale_embedding=False), 5
    made = jax.jit(lambda key: assembly.init_weights(model, key))
    ones = jnp.ones((1, length), jnp.int32)
    whole = {"segments": ones, "positions": jnp.arange(length)[None]}
    batch = {f"{side}_{key}": value for side in ("source", "target") for key, value in whole.items()}

    @jax.jit
    def choices(weights, ids):
        return model.apply({"params": trees.unflatten(weights)}, batch | {"source": ones, "inputs": ids})[0].argmax(-1)

    for seed in range(50):  # most random weights say one token again and again
        weights, ids = made(jax.random.key(seed)), np.ones((1, length + 1), np.int32)
        for n in range(length):
            ids[0, n + 1] = choices(weights, ids[:, :length])[n]
        if len(set(ids[0, 1:].tolist())) > 2:
            break
    assert len(set(ids[0, 1:].tolist())) > 2
    assert architectures._translate(model, length, weights).tolist() == ids[0, -1:].tolist()


def point(name, quality, size, time):
    return measuring.Point(name, "", "t", "bleu", False, quality, 1, size, time)


def test_promotion_goes_by_fronts():
    points = [
        point("best", 9, 90, 9), point("small", 3, 10, 8), point("fast", 4, 80, 1),
        point("second", 8, 95, 10), point("small too", 2, 12, 9), point("worst", 1, 99, 11),
    ]  # fmt: skip
    order = [p.name for p in search.promote(points, 6)]
    assert order == ["best", "fast", "small", "second", "small too", "worst"]
    assert [p.name for p in search.promote(points, 2)] == order[:2]


def test_halving():
    every = [candidate(layers=n) for n in range(1, 9)]
    costs, trained = {one.name: (one.layers, 1.0) for one in every}, []

    def train(one, steps):
        trained.append((one.layers, steps))
        if one.layers == 8:
            raise errors.NotFinite("too deep")
        return "bleu", False, 100 - abs(one.layers - 5) + steps  # 5 is the best, and the front goes on below it

    reached, left = search.halve(every, [10, 20, 30], train=train, costs=costs, keep=0.5)
    assert [n for n, steps in trained if steps == 10] == [*range(1, 9)]
    assert [n for n, steps in trained if steps == 20] == [2, 3, 4, 5] and sum(s == 30 for _, s in trained) == 2
    assert [one.layers for one in left] == [4, 5]
    assert {name: steps for name, (steps, _) in reached.items()} == {
        one.name: 30 if one in left else 20 if one.layers in (2, 3) else 10 for one in every[:-1]
    }


def test_the_whole_search(tmp_path, monkeypatch):
    folder = tmp_path / "data/mine"
    folder.mkdir(parents=True)
    words = "cold old bold warm long dark young slow great small".split()
    rows = [{"text": f"{w} {words[i % 7]}", "label": words[i % 2]} for i, w in enumerate(words * 6)]
    for split, count in (("train", 48), ("validation", 9), ("test", 10)):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    space = [f"{key}={':'.join(map(str, values))}" for key, values in SMALL.items() if key != "width"]
    given = dict(
        task="classification", data="folder:mine", max_bytes=30_000, max_milliseconds=0.0, candidates=9, rounds=1,
        space=[*space, "width=8:64"], steps=["1"], keep=1.0, seed=0, smoke=True,
        workdir=str(tmp_path / "runs"), out=str(tmp_path / "out"),
    )  # fmt: skip
    files = search.write(given["out"], **search.search(types.SimpleNamespace(**given)))
    with open(tmp_path / "out/candidates.csv") as file:
        lines = {line["candidate"]: line for line in csv.DictReader(file)}
    assert list(lines) == ["l1-d8-h2-f8-softmax, float32", "l1-d8-h2-f8-softmax, int8"]
    page = (tmp_path / "out/README.md").read_text()
    assert "2 candidates; 2 others that were drawn are larger" in page
    value = float(lines["l1-d8-h2-f8-softmax, int8"]["quality"])
    assert "| candidate | bytes | milliseconds | steps | MCC (%) |" in page and f" | 1 | {100 * value:.2f} |\n" in page
    points = {p.name: p for p in fronts.points_of(results.load(tmp_path / "out/results.json"))}
    assert set(points) == {"l1-d8-h2-f8-softmax-1", "l1-d8-h2-f8-softmax-1, int8"}
    files_bytes = [points[f"l1-d8-h2-f8-softmax-1{format}"].bytes for format in (", int8", "")]
    wanted = int(lines["l1-d8-h2-f8-softmax, float32"]["bytes"])
    assert files_bytes[0] < files_bytes[1] < wanted  # this little text fills no vocabulary of 320
    assert all((tmp_path / "out" / name).stat().st_size > 0 for name in files)
    monkeypatch.setattr(search.study.train, "run", None)  # nothing is trained twice
    assert search.write(given["out"], **search.search(types.SimpleNamespace(**given))) == files
    with pytest.raises(errors.ConfigError, match="the least"):
        search.search(types.SimpleNamespace(**given | {"max_bytes": 10}))
