import re
import socket

from lwt.training import hardware


def test_a_machine_is_named_but_not_its_host():
    assert re.fullmatch(r"\S.*, \d+ cores?.*", hardware.describe())
    assert socket.gethostname() not in hardware.describe()


def test_a_run_tells_the_machines_that_it_was_on(tmp_path, monkeypatch):
    assert hardware.of_run(tmp_path) == "a machine not recorded"
    for _ in range(2):
        hardware.note(tmp_path)
    assert hardware.of_run(tmp_path) == hardware.describe()
    monkeypatch.setattr(hardware, "describe", lambda: "Abacus, 1 core")
    first = hardware.of_run(tmp_path)
    hardware.note(tmp_path)
    assert hardware.of_run(tmp_path) == f"{first}; then Abacus, 1 core"
