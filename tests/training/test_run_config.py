"""The keys of a config: none is missing in silence."""

import json

import pytest

from configs import common
from lwt import errors, trees
from lwt.training import build, experiment, run_config

OWN = ("mesh/", "optimizer/arguments/", "optimizer/schedule/")  # their other keys are their own arguments


def test_the_keys_are_those_of_the_common_config():
    flat = trees.flatten(common.base().to_dict())
    expected = {next((own[:-1] for own in OWN if name.startswith(own)), name) for name in flat}
    found = {key.replace(".", "/").removesuffix("/name" if "schedule" in key else "") for key in run_config.KEYS}
    assert found == expected


def without(key, config):
    *section, last = key.split(".")
    place = config
    for name in section:
        place = place[name]
    del place[last]
    return config


@pytest.mark.parametrize("key", ["data.kind", "epochs", "optimizer.schedule.name", "data.clean", "task.name"])
def test_a_missing_key_is_named(tiny, tmp_path, key):
    run_config.keep(tiny(), tmp_path / "run")
    path = tmp_path / "run/config.json"
    path.write_text(json.dumps(without(key, json.loads(path.read_text()))))
    wanted = {"data.clean": "data.clean.lowercase"}.get(key, key)
    for call in (experiment.load, run_config.read):
        with pytest.raises(errors.ConfigError, match=f"run/config.json has no key {wanted}: .*configs/common.py"):
            call(tmp_path / "run")
    config = tiny()
    with config.unlocked():
        without(key, config)
    with pytest.raises(errors.ConfigError, match=f"^the config has no key {wanted}: "):
        build.build(config, tmp_path / "other")
    assert not (tmp_path / "other").exists()
