"""The lock of a workdir."""

import subprocess
import sys

import pytest

from lwt import errors
from lwt.training import lock, train

HOLD = """\
import sys

from lwt.training import lock

with lock.held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_kept_out_until_the_first_ends(tiny, tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(errors.ConfigError, match="another process is training there"):
            train.run(tiny({"steps": 1}), str(tmp_path))
        assert not (tmp_path / "config.json").exists()
        other.kill()
    with lock.held(str(tmp_path)):
        pass


def test_a_folder_that_cannot_be_written_is_left_to_others_to_refuse(tiny, tmp_path):
    (tmp_path / "file").touch()
    with lock.held(str(tmp_path / "file")), pytest.raises(errors.ConfigError, match="cannot be written"):
        train.run(tiny({"steps": 1}), str(tmp_path / "file"))
