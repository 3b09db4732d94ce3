"""The study of a pretrained encoder, on a tiny one: both sides compute the same, and a page comes out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.reparam import compose
from lwt.report import results
from lwt.runs import assembly, experiment
from studies.pretrained import peft_side, report
from studies.pretrained import study as pretrained
from tests.huggingface import small

pytest.importorskip("benchmarks.torch.timm", reason="needs torch and timm (the test extra)", exc_type=ImportError)
pytest.importorskip("peft", reason="needs peft (the test extra)")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The records of a pair of runs of two steps each: ``({name: record}, folder of the encoder, workdir)``."""
    folder = tmp_path_factory.mktemp("pretrained")
    small.write(folder / "bert")
    (folder / "data").mkdir()
    for part, count in (("train", 40), ("validation", 10), ("test", 12)):
        lines = [f"{text.replace(',', '')},{'ab'[i % 2]}" for i, text in enumerate((small.TEXTS * 4)[:count])]
        (folder / "data" / f"{part}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LWT_CACHE", str(folder / "cache"))
        patch.setattr(pretrained, "TASKS", {"texts": f"folder:{folder}/data"})
        chosen = pretrained.entries(f"hf:{folder}/bert", seeds=1, smoke=True)[:2]
        records = {entry.name: pretrained.run(entry, str(folder / "runs")) for entry in chosen}
        yield records, folder, chosen


def test_both_sides_train_the_same_weights(made):
    records = [*made[0].values()]
    assert [record["arguments"]["side"] for record in records] == ["lwt", "peft"]
    assert records[0]["trainable"] == records[1]["trainable"] and records[0]["steps"] == records[1]["steps"] == 2
    for record in records:
        assert 0 <= record["figures"]["accuracy"] <= 1 and record["texts_per_second"] > 0


def test_both_sides_compute_the_same_outputs(made):
    _, folder, chosen = made
    config, workdir = pretrained.config_of(chosen[0]), folder / "runs" / chosen[0].name
    base = experiment.arrays_of(config.init_from, "best")
    data = assembly.make_data(config, workdir, make=False)
    model = assembly.make_model(config, data.vocabulary, outputs=data.outputs)
    part = compose.build(config.reparam)
    trainable, frozen = assembly.initial_params(config, model, reparam=part, base=base)
    full = assembly.expand(part, {**trainable, **frozen}, step=0)
    theirs = peft_side.classifier(str(folder / "bert"), outputs=data.outputs, config=config).eval()
    torch = peft_side._import()
    with torch.no_grad():
        theirs.head.weight.copy_(torch.from_numpy(np.array(full["head/classifier/kernel"]).T))
    batch = next(data.training())
    ours = model.apply({"params": trees.unflatten(full)}, jax.tree.map(jnp.asarray, batch))
    with torch.inference_mode():
        np.testing.assert_allclose(theirs(batch).numpy(), ours, atol=1e-5)


def test_the_page(made, tmp_path):
    records = made[0]
    names = report.write(tmp_path, records, base="hf:bert", missing=[], command_line="python -m studies.pretrained")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "times as many texts per second" in text and "peft" in text.lower() and set(names) >= {"results.json"}
    assert {row["metric"] for row in results.load(tmp_path / "results.json")} == {
        "accuracy", "validation accuracy", "trainable", "texts_per_second",
    }  # fmt: skip
