"""The recipe: a chain of stages that goes on where it stopped, and its table."""

import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.report import results
from lwt.training import train
from studies.lighter import recipe, recipe_page

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
    found = recipe.measure([[whole, rounded]], rounds=1)
    assert min(row["milliseconds"] for row in found) > 0 and found[0]["bytes"] == 4 * count(whole)
    names = recipe_page.write(tmp_path / "out", found, config=CONFIG, kind="translation", command_line="c", machine="m")
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


def test_each_teacher_has_its_own_stages(monkeypatch):
    made = []
    monkeypatch.setattr(recipe, "run", lambda chain, *given, **more: made.append((given, more["more"])))
    recipe.run_all(CHAIN, ["a"], "work", path=CONFIG, more="smoke=true")
    recipe.run_all(CHAIN, ["a", "b"], "work", path=CONFIG, more="smoke=true")
    recipe.run_all(CHAIN, ["a", "b"], "work", path=CONFIG)
    assert made[0] == (("a", "work"), "smoke=true")
    assert made[1:3] == [(("a", "work/0"), "smoke=true,seed=0"), (("b", "work/1"), "smoke=true,seed=1")]
    assert made[4] == (("b", "work/1"), "seed=1")
