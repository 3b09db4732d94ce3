"""`lwt compare` without enough runs; `test_sweep.py` calls it with the runs of a sweep."""

import types

import pytest
from absl import flags

from lwt import errors
from lwt.commands import compare


@pytest.mark.parametrize("runs", [["runs/a"], ["runs/a", "runs/a/"]])
def test_one_run_is_not_compared(monkeypatch, runs):
    monkeypatch.setattr(flags, "FLAGS", types.SimpleNamespace(run=runs, figure="", plot="x.png"))
    with pytest.raises(errors.ConfigError, match="give two runs or more: lwt compare runs/a runs/b"):
        compare.main()
