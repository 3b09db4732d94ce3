"""The runs of the EmbBERT-Q study: their names, configs, and what they start from."""

import pytest

from lwt import errors
from lwt.report import study
from lwt.runs import config_file
from studies.embbert import paper, starts
from studies.embbert import study as embbert_study


def test_entries():
    found = embbert_study.entries("runs/x", seeds=2, starts=starts.STARTS, more="rate=0.1,precision=bfloat16")
    names = [entry.name for entry in found]
    pretrained = set(paper.MODELS) - set(paper.FROM_SCRATCH)
    own = (
        "",
        "-glue",
        "-paper",
        "-small",
        *(f"-{task}" for task in config_file.module(embbert_study.FINETUNE).TINYNLP),
    )
    bases = [f"base-{model}{texts}" for model in pretrained for texts in own]
    teachers = 2 * 16 * 7 + 16  # of the third seed, and the larger model's
    assert len(set(names)) == len(names) == len(bases) + 2 * 16 * (7 * len(starts.STARTS) + 2 * 2) + teachers
    assert {*names[: len(bases)]} == {*bases}
    assert found[names.index("base-bert_ea")].spec == "configs/embbert_pretrain.py:model=bert_ea,precision=bfloat16"
    tuned = found[names.index("rte-bert_ea-pretrained-seed1")].spec.partition(":")[2]
    assert tuned == "base=runs/x/base-bert_ea,model=bert_ea,task=rte,seed=1,rate=0.1,precision=bfloat16"
    assert "base=" not in found[names.index("rte-bert_ea-scratch-seed1")].spec
    assert "snips-embedder-pretrained-seed0" not in names
    further = embbert_study.entries(
        "runs/x", seeds=1, models=("embbert", "embedder"), starts=("further",), more="rate=0.1"
    )
    specs = {entry.name: entry.spec.partition(":")[2] for entry in further}
    assert list(specs)[:2] == ["base-embbert", "base-embbert-imdb_reviews"] and len(specs) == 1 + 7 + 1 + 2 * 16
    assert specs["base-embbert-nlu"] == "model=embbert,data=folder:nlu,base=runs/x/base-embbert"
    assert specs["base-embbert-glue"] == "model=embbert,data=glue,base=runs/x/base-embbert"
    assert specs["rte-embbert-further-seed0"].startswith("base=runs/x/base-embbert-glue,model=embbert,task=rte,")
    assert specs["nlu-embbert-further-seed0"].startswith("base=runs/x/base-embbert-nlu,")
    chosen = study.choose(further, only="^nlu-embbert")
    needed = ["base-embbert", "base-embbert-nlu", "nlu-embbert-further-seed0"]
    assert [entry.name for entry in embbert_study.with_needs(chosen, further)] == needed
    chosen = study.choose(further, only="^base-embbert-nlu")
    assert [entry.name for entry in embbert_study.with_needs(chosen, further)] == needed[:2]
    wide = embbert_study.entries("runs/x", seeds=1, models=("embbert",), starts=("ngrams",), more="rate=0.1")
    spec = "base=runs/x/base-embbert,model=embbert,task=nlu,seed=0,ngram_weights=128000,leak_free=true,rate=0.1"
    assert study.choose(wide, only="^nlu")[0].spec.partition(":")[2] == spec
    taught = embbert_study.entries("runs/x", seeds=1, models=("embbert",), starts=("taught",), suite="tinynlp")
    chosen = study.choose(taught, only="^nlu-embbert-taught")
    teachers = [f"nlu-embbert-pretrained-seed{seed}" for seed in range(3)]
    needed = ["base-embbert", *teachers, "nlu-embbert-taught-seed0"]
    assert [entry.name for entry in embbert_study.with_needs(chosen, taught)] == needed
    assert chosen[0].spec.endswith("task=nlu,seed=0,teacher=" + "+".join(f"runs/x/{name}" for name in teachers))
    small = embbert_study.entries(
        "runs/x", seeds=1, models=("bert_2mb", "embedder"), starts=("small",), suite="tinynlp", more="rate=0.1"
    )
    specs = {entry.name: entry.spec.partition(":")[2] for entry in small}
    assert len(specs) == 7 * 3  # Embedder from large tables as well
    assert specs["nlu-bert_2mb-small-seed0"] == "model=bert_2mb,task=nlu,seed=0,tables=small,rate=0.1"
    assert specs["nlu-embedder-small-seed0"] == "model=embedder,task=nlu,seed=0,tables=small,rate=0.1"
    given = dict(models=("embbert", "embedder"), starts=("small_pretrained",), suite="tinynlp", more="rate=0.1")
    specs = {e.name: e.spec.partition(":")[2] for e in embbert_study.entries("runs/x", seeds=1, **given)}
    assert len(specs) == 1 + 7 * 2 and specs["base-embbert-small"] == "model=embbert,tables=small"
    spec = "base=runs/x/base-embbert-small,model=embbert,task=nlu,seed=0,leak_free=true,rate=0.1"
    assert specs["nlu-embbert-small_pretrained-seed0"] == spec
    wrong = dict(suite="blue", models=["embert"], starts=["x"], splits=["x"], more="rate=1,task=rte")
    for flag, value in wrong.items():
        with pytest.raises(errors.ConfigError, match=f"--{flag}="):
            embbert_study.entries("runs/x", **{flag: value})
    with pytest.raises(errors.ConfigError, match="the study sets splits=code; see .*--splits"):
        embbert_study.entries("runs/x", more="splits=code")
    with pytest.raises(errors.ConfigError, match="'foo=1'"):  # before anything is pre-trained
        embbert_study.entries("runs/x", more="foo=1")


def test_entries_with_a_labelled_set():
    """The larger model is fine-tuned first, for RTE on MNLI before; the splits of the code have no such runs."""
    given = dict(models=("embbert",), seeds=2, starts=("small_labelled",), more="recipe=tuned")
    found = embbert_study.entries("runs/x", encoder="hf:models/e", splits=("own", "code"), **given)
    specs = {entry.name: entry.spec for entry in found}
    teachers = [f"{task}-minilm-pretrained-seed0" for task in ("mnli", "rte")]
    own = ["runs/x/mnli-minilm-pretrained-seed0,data=folder:glue_rte", "hf:models/e,data=folder:glue_stsb"]
    rest = "leak_free=true,precision=bfloat16,seed=0"
    assert specs[teachers[1]] == f"configs/finetune.py:base={own[0]},task=classify,epochs=3.0,{rest}"
    assert specs["stsb-minilm-pretrained-seed0"] == f"configs/finetune.py:base={own[1]},task=regress,epochs=3.0,{rest}"
    assert ",epochs=1.5," in specs[teachers[0]]
    spec = (
        "base=runs/x/base-embbert-small,model=embbert,task=rte,seed=1,leak_free=true,added=runs/x/rte-minilm-labelled"
    )
    assert specs["rte-embbert-small_labelled-seed1"] == f"configs/embbert_finetune.py:{spec},recipe=tuned"
    assert len(specs) == 1 + 16 * 3
    learned = embbert_study.entries("runs/x", encoder="hf:models/e", **given | {"starts": ("small_distilled",)})
    (last,) = (entry.spec for entry in learned if entry.name == "rte-embbert-small_distilled-seed1")
    learning = f"teacher=runs/x/{teachers[1]},reads=whole,share=0.9"
    assert last == f"configs/embbert_finetune.py:{spec},{learning},recipe=tuned" and config_file.load(last).task.cache
    chosen = study.choose(found, only="^rte-embbert.*1$")
    needed = ["base-embbert-small", *teachers, "rte-embbert-small_labelled-seed1"]
    assert [entry.name for entry in embbert_study.with_needs(chosen, found)] == needed


def test_entries_by_the_paper_s_recipe():
    """Runs of their own, whatever recipe the others have."""
    given = dict(models=("embbert",), seeds=1, more="recipe=tuned,rate=0.1")
    specs = {e.name: e.spec.partition(":")[2] for e in embbert_study.entries("runs/x", starts=("paper",), **given)}
    assert specs["base-embbert-paper"] == "model=embbert,recipe=paper" and "base-embbert" not in specs
    spec = "base=runs/x/base-embbert-paper,model=embbert,task=nlu,seed=0,recipe=paper,rate=0.1"
    assert specs["nlu-embbert-paper-seed0"] == spec


def test_entries_on_the_splits_of_the_code():
    """Runs of TinyNLP beside those on own splits, with teachers on the same splits; GLUE has its own only."""
    given = dict(models=("embbert",), seeds=1, starts=("taught",), more="recipe=tuned")
    found = embbert_study.entries("runs/x", splits=("own", "code"), **given)
    own = {e.name: e.spec for e in embbert_study.entries("runs/x", **given)}
    beside = {e.name: e.spec.partition(":")[2] for e in found if e.name not in own}
    assert own == {e.name: e.spec for e in found if e.name not in beside} and len(beside) == 7 * 4
    assert all(name.split("-")[1] == "code" for name in beside)
    teachers = [f"snips-code-embbert-pretrained-seed{seed}" for seed in range(3)]
    spec = "base=runs/x/base-embbert,model=embbert,task=snips,seed=0,splits=code,leak_free=true,"
    taught = f"{spec}teacher={'+'.join(f'runs/x/{name}' for name in teachers)},recipe=tuned"
    assert beside["snips-code-embbert-taught-seed0"] == taught and beside[teachers[0]] == f"{spec}recipe=tuned"
    chosen = study.choose(found, only="^snips-code-embbert-taught")
    needed = ["base-embbert", *teachers, "snips-code-embbert-taught-seed0"]
    assert [e.name for e in embbert_study.with_needs(chosen, found)] == needed
    only = embbert_study.entries("runs/x", splits=("code",), **given)
    assert {e.name for e in only} == {*beside, "base-embbert"}
