"""The check finds what differs between the WebAssembly and the program in C."""

import copy
import shutil

import jax.numpy as jnp
import pytest

from lwt import errors
from lwt.export.wasm import check, folder
from tests.export.c import test_tasks

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="apt install nodejs: it runs WebAssembly")


made, folders, many, others = test_tasks.made, test_tasks.folders, test_tasks.many, test_tasks.others


def test_all_texts_are_equal(run, tmp_path):
    folder.export(run, tmp_path / "browser", activations="int8")
    found = check.check(run, tmp_path / "browser")
    assert found["equal"] == found["texts"] > 4 and 0 < found["milliseconds"] <= found["slowest"]
    few = check.check(run, tmp_path / "browser", records=3)
    assert few["equal"] == few["texts"] == 3
    other = copy.copy(run)
    other.weights = {name: weight + jnp.float32(1) for name, weight in run.weights.items()}
    with pytest.raises(errors.ConfigError, match="browser has other weights or another vocabulary than the run"):
        check.check(other, tmp_path / "browser")
    with pytest.raises(errors.ConfigError, match="node fails with .*model.js: .*model.nothing is not a function"):
        check.node(tmp_path / "browser", "model.nothing()")
    (tmp_path / "browser" / folder.WASM).write_bytes(b"no program")
    with pytest.raises(errors.ConfigError, match="node fails with .*expected magic word"):
        check.check(run, tmp_path / "browser")


def test_every_task_is_equal(run, many, others, tmp_path):
    folder.export(run, tmp_path / "browser", many=many)
    found = check.check(run, tmp_path / "browser", many=many)
    assert [*found] == ["topic", "mood"] and all(row["equal"] == row["texts"] > 4 for row in found.values())
    with pytest.raises(errors.ConfigError, match="browser has the tasks .* and --adapter gives"):
        check.check(run, tmp_path / "browser", many=others)


@pytest.mark.parametrize(
    ("answer", "line", "same"),
    [
        ({"label": "a", "logits": [0.1, -2]}, "a\t0.100000001\t-2", True),
        ({"label": "a", "logits": [0.1, -2]}, "a\t0.100000009\t-2", False),
        ({"label": "a", "logits": [0.1, -2]}, "b\t0.100000001\t-2", False),
        ({"label": "a", "logits": [0.1, -2]}, "a\t0.100000001", False),
        ({"value": 3}, "3", True),
        ({"value": 3}, "-3", False),
        ({"text": "a dog"}, "a dog", True),
        ({"text": "a dog"}, "a  dog", False),
    ],
)
def test_equal_answers(answer, line, same):
    assert check.equal(answer, line) == same
