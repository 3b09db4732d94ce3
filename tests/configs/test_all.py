"""No config without a smoke run."""

import pathlib
import re

from lwt.runs import config_file
from tests.configs import smoke


def test_every_config_has_a_smoke_run():
    tested = {
        name
        for path in pathlib.Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def test_(\w+)", path.read_text(), re.MULTILINE)
    }
    files = {path.stem for path in (smoke.ROOT / "configs").glob("*.py")} - {"__init__", "common"}
    assert tested >= files
    assert set(config_file.module(smoke.ROOT / "configs/translation.py").SETS) == {"pool", "multi30k", "wmt17"}
