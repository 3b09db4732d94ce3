"""One call, three readers: the console, metrics.jsonl and TensorBoard."""

import json
import subprocess
import sys

from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import masked_crc32c

from lwt.training import log


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def events(folder):
    """TensorBoard's records: 8 bytes of length, 4 of checksum, the event, 4 of checksum."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content = path.read_bytes()
        while content:
            size = int.from_bytes(content[:8], "little")
            assert int.from_bytes(content[8:12], "little") == masked_crc32c(content[:8])
            found.append(event_pb2.Event.FromString(content[12 : 12 + size]))
            content = content[16 + size :]
    return found


def test_a_row_a_line_and_an_event(tmp_path, capsys):
    written = log.Log(tmp_path, total_steps=100)
    written.say("starting")
    written.write(50, {"train/loss": 2.5, "train/tokens_per_second": 12345.6, "train/real_share": 0.975})
    written.write(50, {"validation/bleu": 33.333333, "validation/sentences": 1200, "validation/signature": "nrefs:1"})
    written.close()
    first, second = rows(tmp_path)
    assert 0 <= first.pop("time") <= second.pop("time")
    assert first == {"step": 50, "train/loss": 2.5, "train/tokens_per_second": 12345.6, "train/real_share": 0.975}
    assert second.pop("validation/signature") == "nrefs:1"
    assert second == {"step": 50, "validation/bleu": 33.333333, "validation/sentences": 1200}
    assert capsys.readouterr().out.splitlines() == [
        "starting",
        "50/100  loss 2.5  12,346 tokens/s",
        "50/100  validation/bleu 33.33  validation/sentences 1,200",
    ]
    scalars = {
        e.summary.value[0].tag: (e.step, e.summary.value[0].simple_value) for e in events(tmp_path) if e.summary.value
    }
    assert scalars["train/loss"] == (50, 2.5) and len(scalars) == 5


def test_an_evaluation_is_one_line_of_the_chosen_figures(tmp_path, capsys):
    figures = {"loss": 0.5, "bleu": 31.0, "bleu/long": 30.0, "records": 9, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert log.chosen(figures, "bleu") == ["bleu", "loss", "a", "b", "c"]
    written = log.Log(tmp_path, total_steps=9)
    written.write(3, figures, shown=log.chosen(figures, "bleu")[:2])
    written.close()
    assert capsys.readouterr().out == "3/9  bleu 31  loss 0.5\n" and rows(tmp_path)[0]["bleu/long"] == 30.0


def test_a_terminal_gets_a_bar_and_a_file_does_not(tmp_path, capsys, monkeypatch):
    def run():
        written = log.Log(tmp_path, total_steps=4)
        for step in (1, 2, 3):
            written.advance(step)
        written.say("a line")
        written.close()
        return capsys.readouterr()

    assert run() == ("a line\n", "")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    said, bar = run()
    assert "a line\n" in said and "/4 [" in bar and "step" in bar


def test_time_left_is_measured_from_the_first_row(tmp_path, capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    written = log.Log(tmp_path, total_steps=4000)
    for step, at in ((10, 1600.0), (20, 1610.0), (4000, 5600.0)):  # ten minutes of compilation, then a step a second
        now[0] = at
        written.write(step, {"loss": 1.0})
    written.close()
    assert capsys.readouterr().out.splitlines() == [
        "10/4000  loss 1",
        "20/4000  loss 1  1:06:20 left",
        "4000/4000  loss 1",
    ]
    assert [row["time"] for row in rows(tmp_path)] == [600.0, 610.0, 4600.0]


def test_time_left_forgets_a_pause(tmp_path, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    written = log.Log(tmp_path, total_steps=1000)
    for step in range(0, 300, 10):
        now[0] += 3600.0 if step == 10 else 10.0  # an hour's pause, else a step a second
        written.write(step, {"loss": 1.0})
    written.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[5].endswith("19:12:40 left") and lines[-1] == "290/1000  loss 1  0:11:50 left"


def test_what_is_not_finite_stays_valid_json(tmp_path):
    written = log.Log(tmp_path, total_steps=9)
    written.write(1, {"loss": float("nan"), "norm": float("inf"), "tokens_per_second": float("nan")})
    written.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    row = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert row["loss"] is None and row["norm"] is None


def test_a_resumed_run_has_each_row_once(tmp_path):
    first = log.Log(tmp_path, total_steps=9)
    for step in (1, 2, 3):
        first.write(step, {"loss": float(step)})
    first.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 4, "lo')  # torn by a kill
    again = log.Log(tmp_path, total_steps=9)
    again.resume(2)
    for step in (3, 4):
        again.write(step, {"loss": 10.0 * step})
    again.close()
    found = rows(tmp_path)
    assert [(row["step"], row["loss"]) for row in found] == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]
    assert [row["time"] for row in found] == sorted(row["time"] for row in found)
    restarts = [event for event in events(tmp_path) if event.HasField("session_log")]
    assert restarts[-1].step == 3, "TensorBoard is told to drop the rows that come again"
    again.resume(-1)
    assert rows(tmp_path) == []


def test_other_processes_write_nothing(tmp_path, capsys):
    silent = log.Log(tmp_path / "w", total_steps=9, active=False)
    silent.resume(3)
    silent.say("hello")
    silent.write(4, {"loss": 1.0})
    silent.close()
    assert not (tmp_path / "w").exists() and capsys.readouterr().out == ""


def test_tensorboard_s_files_need_no_pytorch(tmp_path):
    code = "import sys; from lwt.training import log; written = log.Log(sys.argv[1], total_steps=9, active=True)\n"
    code += "written.write(1, {'loss': 1.0}); written.close(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert any(event.HasField("summary") for event in events(tmp_path))
