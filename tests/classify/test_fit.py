"""What a model starts from, and the search within a time."""

import json
import pathlib

import pytest

from lwt import errors
from lwt.classify import fit


def test_a_model_starts_from_trained_weights_where_there_are_some(tmp_path, monkeypatch):
    assert fit.start("embbert").arguments["base"].endswith("pretrained/embbert-small-tables")
    assert fit.start("embedder").about == "embedder, from scratch"
    assert fit.start("embbert", base=str(tmp_path)) == fit.start(str(tmp_path))
    assert fit.start(str(tmp_path)).arguments == {"base": str(tmp_path)}
    assert fit.start("hf:folder").arguments == {"base": "hf:folder", "method": "lora"} and fit.start("hf:folder").large
    with pytest.raises(errors.ConfigError, match="--model=bert_huge: there is no such model; choose from embbert"):
        fit.start("bert_huge")
    monkeypatch.setattr(fit.pretrained, "names", lambda: [])
    assert fit.start("embbert").about == "embbert, from scratch"


@pytest.mark.parametrize(
    ("text", "name"),
    [("привет мир", "embedder"), ("今天 的 天气", "embedder"), ("Ich freue mich auf die Straße", "embbert")],
)
def test_texts_of_another_language_are_learned_from_scratch(text, name):
    started = fit.start(fit.MODEL)
    found, said = fit.suited(started, [text] * 20)
    assert (found, said) == (started, []) if name == "embbert" else found == fit.start(name) and len(said) == 1
    assert not said or "% of the tokens are unknown to embbert" in said[0] and "--model=embbert" in said[0]
    scratch = fit.start("embedder")
    assert fit.suited(scratch, [text]) == (scratch, [])


def test_small_tables_get_more_epochs_and_columns_get_through():
    given = dict(data="folder", text="a, b", label="c=d")
    epochs = [fit.make_config(fit.start("embbert"), rows=rows, **given).epochs for rows in (100, 2100, 100_000)]
    assert epochs == [30, 8, 3]
    config = fit.make_config(fit.start("embedder"), rows=100, epochs=4, settings={"rate": 2, "epochs": 0.5}, **given)
    assert config.epochs == 2 and config.optimizer.learning_rate == 4e-3 and config.data.leak_free
    assert config.model.embedding_std == config.model.position_std == 0.02  # from scratch
    assert config.data.fields == ("a, b",) and config.data.label == "c=d" and config.data.train == "folder:folder"


def test_a_teacher_reads_whole_texts_because_it_may_have_another_tokenizer():
    given = dict(data="folder", text="text", label="label", rows=100, teacher="runs/large")
    for model in ("embbert", "embedder"):
        config = fit.make_config(fit.start(model), **given)
        assert config.task.name == "distill" and config.task.teacher == "runs/large" and config.task.cache
        assert config.model.get("word_dropout", 0.0) == 0.0


def test_the_trials_start_with_the_usual_settings_and_differ():
    found = fit._grid(fit.DROPOUTS, 0)
    assert found[0] == {"rate": 1.0, "epochs": 1.0, "word_dropout": 0.2} and len(found) == 27
    assert len({json.dumps(settings) for settings in found}) == 27 and fit._grid(fit.DROPOUTS, 1)[:7] == found[:7]


@pytest.fixture
def trainer(monkeypatch):
    """Replaces training: writes the files of a run, takes 10 s an epoch, and is best at half the rate."""

    def train(config, workdir):
        rate, loss = config.optimizer.learning_rate, config.model.get("word_dropout", 0.0)
        rows = [{"step": 1, "time": 1.0, "validation/mcc": 0.1, "validation/loss": 3.0}]
        rows.append({"step": 2, "time": 10.0 * config.epochs, "validation/mcc": 1 - rate, "validation/loss": loss})
        pathlib.Path(workdir).mkdir(parents=True)
        pathlib.Path(workdir, "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pathlib.Path(workdir, "config.json").write_text(config.to_json_best_effort())

    monkeypatch.setattr(fit.train, "run", train)


def config_of(settings):
    given = dict(data="folder", text="text", label="label", rows=2100, epochs=4)
    return fit.make_config(fit.start("embbert"), **given, settings=settings)


@pytest.mark.parametrize(
    "seconds, epochs", [(10, [1]), (95, [1, 1]), (180, [1, 1, 1, 0.5, 1]), (250, [1, 1, 1, 2, 0.5])]
)
def test_a_search_stops_in_time_and_keeps_the_best(tmp_path, trainer, seconds, epochs):
    call = dict(folder=tmp_path / "trials", seconds=seconds)
    tried = fit.search(config_of, str(tmp_path / "run"), **call)
    assert [trial["settings"]["epochs"] for trial in tried][: len(epochs)] == epochs
    assert sum(trial["seconds"] for trial in tried) <= max(seconds, 40)
    best = min(tried, key=lambda trial: (trial["settings"]["rate"], trial["settings"]["word_dropout"]))
    assert fit.best_of(tried) is best and best["mcc"] == pytest.approx(1 - 2e-3 * best["settings"]["rate"])
    kept = json.loads((tmp_path / "run/config.json").read_text())
    assert kept["optimizer"]["learning_rate"] == pytest.approx(1 - best["mcc"])
    assert sum("the best" in line for line in fit.described(tried)) == 1
    assert fit.search(config_of, str(tmp_path / "run"), **call) == tried  # nothing is trained again


def test_a_stopped_search_continues(tmp_path, trainer, monkeypatch):
    call = dict(folder=tmp_path / "trials", seconds=130)
    whole = fit.search(config_of, str(tmp_path / "run"), folder=tmp_path / "other", seconds=130)
    working, calls = fit.train.run, []

    def stops(config, workdir):
        calls.append(workdir)
        if len(calls) == 3:
            raise KeyboardInterrupt
        working(config, workdir)

    monkeypatch.setattr(fit.train, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        fit.search(config_of, str(tmp_path / "run"), **call)
    assert fit.search(config_of, str(tmp_path / "run"), **call) == whole and calls[2] == calls[3]


def test_of_equal_trials_the_one_with_the_lower_loss_is_best():
    tried = [dict(mcc=0.5, loss=1), dict(mcc=0.5, loss=0.9), dict(mcc=0.4, loss=0)]
    assert fit.best_of(tried)["loss"] == 0.9
