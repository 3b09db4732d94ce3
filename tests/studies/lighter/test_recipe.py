"""The recipe: a chain of stages that goes on where it stopped, and its table."""

import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.report import results
from lwt.training import train
from studies.lighter import recipe

pytestmark = pytest.mark.usefixtures("compiled_once")

CONFIG = "configs/lightweight.py"
CHAIN = [
    ("student", "train", dict(method="distill", hidden=16)),
    ("pruned", "structured", dict(units=0.5, scores="magnitude")),
    ("factorised", "factorise", dict(rank=2)),
    ("int8", "quantize", dict()),
    ("adapter", "adapt", dict(method="lora_plus", rank=1)),
]


@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_the_stages(kind):
    chain = recipe.stages(CONFIG, kind, adapt="folder:other")
    names = [name for name, _, _ in chain]
    assert names[0] == {"translation": "shallow", "classification": "student"}[kind]
    assert names[-2:] == ["int8", "adapter"] and len(set(names)) == len(names)
    assert {what for _, what, _ in chain} <= {"train", "quantize", "adapt", *recipe.CUTS}
    with pytest.raises(errors.ConfigError, match="recipe='summaries': choose from translation, classification"):
        recipe.stages(CONFIG, "summaries")
    with pytest.raises(errors.ConfigError, match=r"has no recipe\(\)"):
        recipe.stages("configs/vit.py", kind)


def test_a_chain(tiny, tmp_path, monkeypatch):
    teacher, workdir = str(tmp_path / "teacher"), str(tmp_path / "recipe")
    train.run(tiny({"steps": 2}), teacher)
    given = dict(path=CONFIG, more="smoke=true")
    done = recipe.run(CHAIN, teacher, workdir, **given)
    assert [made.name for made in done] == ["teacher", *(name for name, _, _ in CHAIN)]
    whole, student, pruned, factorised, rounded, adapter = done

    def count(made):
        return recipe.parameters(made.experiment.weights)

    assert count(whole) > count(student) > count(pruned) > count(factorised) == count(rounded)
    assert count(whole) == trees.count(whole.experiment.weights)
    assert any(isinstance(w, linear.Factors) for w in rounded.experiment.weights.values())
    assert rounded.bytes < factorised.bytes > adapter.bytes
    found = recipe.measure([whole, rounded], rounds=1)
    assert min(row["milliseconds"] for row in found) > 0 and found[0]["bytes"] == 4 * count(whole)
    names = recipe.write(tmp_path / "out", found, config=CONFIG, kind="translation", command_line="c", machine="m")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    assert results.load(tmp_path / "out/results.json")[0]["overrides"] == {"recipe": "translation", "stage": "teacher"}

    monkeypatch.setattr(recipe.study.train, "run", None)  # finished stages are not trained again
    again = recipe.run(CHAIN[:2], teacher, workdir, **given)
    assert [(made.name, made.bytes, made.seconds) for made in again] == [(m.name, m.bytes, m.seconds) for m in done[:3]]
    other = [CHAIN[0], ("pruned", "structured", dict(units=0.25, scores="magnitude"))]
    with pytest.raises(errors.ConfigError, match="pruned was made from .*/student with {'units': 0.5"):
        recipe.run(other, teacher, workdir, **given)
    with pytest.raises(errors.ConfigError, match="pruned was made from .*/student with"):
        recipe._cut(None, "runs/other", f"{workdir}/pruned", CHAIN[1][2])  # of another run


def test_the_table():
    row = dict(
        task="x@test",
        metric="accuracy",
        quality=0.9,
        parameters=1000,
        bytes=4000,
        milliseconds=2.0,
        rate=50.0,
        seconds=60.0,
    )
    small = row | dict(name="int8", quality=0.88, bytes=400, rate=100.0, seconds=0.0)
    other = row | dict(name="adapter", task="y@test", quality=0.5)
    text = recipe.table([row | dict(name="teacher"), small, other])
    assert "| teacher | 90.00 | – | 1,000 | 4,000 | 100.0% | 2.00 | 50 | 1.00 | 1.0 |" in text
    assert "| int8 | 88.00 | -2.00 | 1,000 | 400 | 10.0% | 2.00 | 100 | 2.00 | 0.0 |" in text
    assert "| adapter, on `y@test` | 50.00 | – |" in text
