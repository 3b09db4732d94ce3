"""An opened run: other weights, its base, its files of an evaluation, and answers that do not depend on company."""

import io
import json
import pathlib
import shutil
import tracemalloc

import jax
import numpy as np
import pytest

from lwt import errors, files
from lwt.reparam import compose
from lwt.runs import eval_files, experiment
from lwt.training import new_run

pytestmark = pytest.mark.usefixtures("compiled_once")
PROMPTS = ["copy: 1 2 3 4", "add 1: 7 30 2 9", "sort ascending: 4 3 2 1"]
LORA = {"name": "lora", "rank": 2}


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def adapted(run, tmp_path_factory):
    """An adapter run on `run`, beside it."""
    leaves = compose.build(LORA).init(jax.random.key(0), run.weights)
    folder = tmp_path_factory.mktemp("adapters") / "adapted"
    return new_run.adapt(run, folder, reparam=LORA, adapter={name: leaf + 0.1 for name, leaf in leaves.items()})


def test_an_answer_does_not_depend_on_the_other_texts(run):
    together = run.predict(PROMPTS)
    assert [run.predict([prompt])[0] for prompt in PROMPTS] == together
    assert run.predict(PROMPTS[::-1]) == together[::-1]


def test_no_texts_get_no_answers(run, tmp_path, capsys):
    assert run.predict([]) == []
    (tmp_path / "empty.txt").touch()
    run.predict_file(tmp_path / "empty.txt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("texts", [PROMPTS[0], [None], [3], {"a": "b"}])
def test_what_is_no_list_of_texts_is_refused(run, texts):
    with pytest.raises(errors.DataError, match="takes a list of texts, not|must be a string"):
        run.predict(texts)


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": 2.5}, {"limit": "5"}, {"limit": True}, {"name": 3}])
def test_wrong_records_to_evaluate_are_refused(run, wrong):
    for use in (run.evaluate, run.batches):
        with pytest.raises(errors.ConfigError, match="(limit|data)=.* should be"):
            use(**wrong)
    with pytest.raises(errors.ConfigError, match="split='test' and data='x:y' exclude each other"):
        run.report(split="test", data="x:y")


def test_texts_that_are_cut_are_counted_and_warned_of_once(run, tmp_path, caplog):
    long = "copy: " + "1 " * 200
    answers = run.predict([*PROMPTS, long, long])
    assert [record.getMessage() for record in caplog.records] == [
        f"texts longer than the {run.data.longest} tokens of a row, which were cut: 2"
    ]
    caplog.clear()
    (tmp_path / "x.txt").write_text("\n".join([*PROMPTS, long, *[PROMPTS[0]] * 20, long]))
    said = io.StringIO()
    run.predict_file(tmp_path / "x.txt", output=said)
    assert len(answers) == 5 and len(said.getvalue().splitlines()) == 25
    assert len(caplog.records) == 1 and caplog.records[0].getMessage().endswith("which were cut: 2")
    caplog.clear()
    run.predict(PROMPTS)
    assert not caplog.records


def test_records_of_a_file_are_answered(run, tmp_path):
    (tmp_path / "x.csv").write_text("number,source\n" + "".join(f"{i},{text}\n" for i, text in enumerate(PROMPTS)))
    said = io.StringIO()
    run.predict_file(tmp_path / "x.csv", output=said)
    assert said.getvalue().splitlines() == run.predict(PROMPTS)


def test_a_long_file_is_answered_in_chunks(run, tmp_path, monkeypatch):
    """Memory does not grow with the file; the model is a stub."""
    monkeypatch.setattr(run, "outputs", lambda texts: (texts, 0))
    peaks = {}
    for count in (2_000, 200_000):
        (tmp_path / "x.txt").write_text("".join(f"copy: {i} of {count}\n" for i in range(count)))
        tracemalloc.start()
        with open(tmp_path / "answers.txt", "w") as output:
            run.predict_file(tmp_path / "x.txt", output=output)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tmp_path / "answers.txt").read_text() == (tmp_path / "x.txt").read_text()
    assert peaks[200_000] - peaks[2_000] < 100e6


def test_what_a_run_stores(run, adapted):
    trained, frozen = run.stored()
    assert frozen == {} and set(trained) == {f"base/{name}" for name in run.weights}
    trained, frozen = adapted.stored()
    assert all(name.startswith("adapter/") for name in trained)
    assert set(frozen) == {f"base/{name}" for name in run.weights}


def test_the_base_is_found_where_it_was_or_beside(run, adapted, tmp_path):
    for name, w in run.weights.items():
        np.testing.assert_array_equal(adapted.base()[name], w)
    assert run.base() is None
    moved = shutil.copytree(adapted.workdir, tmp_path / "moved/adapted")
    config = files.read_json(moved / "config.json")
    files.write_json(moved / "config.json", config | {"init_from": "elsewhere/run"}, checked=True)
    with pytest.raises(errors.CheckpointError, match="adapts the run elsewhere/run, which is neither there nor at"):
        experiment.load(moved)
    shutil.copytree(run.workdir, tmp_path / "moved/run")
    assert experiment.load(moved).predict(PROMPTS) == adapted.predict(PROMPTS)


def test_other_weights_have_to_fit(run):
    doubled = {name: 2 * w for name, w in run.weights.items()}
    other = run.with_weights(doubled, name="doubled", step=3)
    assert other.step == 3 and other.weights is doubled and run.weights is not doubled
    kernel = "encoder/layer_0/mlp/fc1/kernel"
    with pytest.raises(errors.CheckpointError, match=f"small holds another model than .*{kernel}"):
        run.with_weights(run.weights | {kernel: run.weights[kernel][:, :5]}, name="small", step=0)


def test_a_report_leaves_its_files(run):
    figures = run.report()
    stem = eval_files.stem(run.test, {})
    written = json.loads(pathlib.Path(run.workdir, f"eval/{stem}.json").read_text())
    assert written == figures and figures["records"] == 8
    beams = experiment.load(run.workdir, decoding={"beams": 2})
    assert beams.report()["decoding"].startswith("beam search, 2 beams")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(errors.CheckpointError, match="is not the workdir of a run"):
        experiment.load(tmp_path)
    (tmp_path / "tickets").mkdir()
    (tmp_path / "tickets/config.json").write_text("{}")
    with pytest.raises(errors.CheckpointError, match=f"; of the runs in {tmp_path}, did you mean 'tickets'"):
        experiment.load(tmp_path / "ticket")
