"""The keys of a config: none is missing in silence."""

import ml_collections
import numpy as np
import pytest

from configs import common
from lwt import errors, files, trees
from lwt.runs import experiment, run_config
from lwt.training import build, train

OWN = ("mesh/", "optimizer/arguments/", "optimizer/schedule/")  # their other keys are their own arguments


def test_the_keys_are_those_of_the_common_config():
    flat = trees.flatten(common.base().to_dict())
    expected = {next((own[:-1] for own in OWN if name.startswith(own)), name) for name in flat}
    found = {key.replace(".", "/").removesuffix("/name" if "schedule" in key else "") for key in run_config.KEYS}
    assert found == expected | {"tasks"}  # an empty section


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
    files.write_json(path, without(key, files.read_json(path)), checked=True)
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


NAN, INF = float("nan"), float("inf")
WRONG = {
    "model.dropout": (NAN,),
    "mesh": ({"data": "a"}, {"": 1}, {"data": 1.5}, 3),
    "data.masking": (3,),
    "data.test": (3, (3,)),
    "data.train": ((), ("generated:arithmetic",)),
    "data.row_length": (10**9,),
    "seed": (-1, 2**32, 1.5, True, "0"),
    "steps": (0, 2**31, 1.0),
    "epochs": (-0.5, NAN, INF, "1"),
    "init_checkpoint": ("foo", "", "-1", 3),
    "init_skip": ("head/.*", ("(",)),
    "precision": ("float16",),
    "sharding": ((".*", ()), ((".*", ("data", "data")),), ((".*", "data"),), (("(", ()),)),
    "save_every": (-1,),
    "eval_decode": ("yes", 1),
    "keep_last": (0,),
    "select_mode": ("best",),
    "profile_steps": ((3,), (3, 2), 5, (0, 1)),
    "data.fields": ("source", ("source", 2), ("",)),
    "data.leak_free": ("on",),
    "data.max_malformed": (NAN, -0.1, 1.1),
    "data.max_train_records": (-1, 2.5),
    "data.rows": (0,),
    "data.cut": ("midle",),
    "data.channels": (2,),
    "data.randaugment": ((1,), (1, -2)),
    "data.clean.unicode": ("nfkc",),
    "data.clean.characters": ("[",),
    "data.tokenizer.vocabulary": (99_999_999_999, 0),
    "optimizer.learning_rate": (0.0, -1.0, NAN, INF),
    "optimizer.weight_decay": (-0.1, NAN),
    "optimizer.decay_rules": (((1, 2),), ((".*", -1.0),), ((".*", NAN),), (".*", 1.0), ((".*", 1.0, 2.0),)),
    "optimizer.lora_plus": (-1.0, NAN, INF),
    "optimizer.clip_norm": (-1.0, INF),
    "optimizer.accumulate": (-1,),
    "optimizer.trainable": (".*", (3,)),
}


@pytest.mark.parametrize("key", WRONG)
def test_a_value_outside_its_type_or_range_is_named(tiny, key):
    for value in WRONG[key]:
        config = tiny()
        with config.unlocked(), config.ignore_type():
            *section, last = key.split(".")
            (config[".".join(section)] if section else config)[last] = value
        with pytest.raises(errors.ConfigError) as caught:
            run_config.check(config)
        assert str(caught.value).startswith(f"{key}=") and "should be" in str(caught.value), caught.value


def test_right_values_pass(tiny):
    run_config.check(common.base())
    run_config.check(tiny({"epochs": 2, "seed": 2**32 - 1, "profile_steps": (2, 2), "init_checkpoint": "500"}))
    run_config.check(tiny({"data.randaugment": (2, 9), "optimizer.rate_rules": ((".*/b", 16), (".*", 1))}))
    run_config.check(ml_collections.ConfigDict(run_config.as_json(tiny({"sharding": ((".*", ("data", None)),)}))))


def test_training_evaluates_on_so_many_records(tiny, tmp_path, rows):
    figures = {}
    for count in (0, 3):
        run, workdir = {"steps": 1, "data.max_eval_records": count}, tmp_path / str(count)
        train.run(tiny(run), workdir)
        figures[count] = next(row["validation/loss"] for row in rows(workdir) if "validation/loss" in row)
        opened = experiment.load(workdir)
        again = opened.evaluate(opened.config.data.validation, limit=count)[0]["loss"]
        np.testing.assert_allclose(figures[count], again, rtol=1e-6)
    assert figures[0] != figures[3]


def test_a_run_of_an_older_version_is_read_as_it_was(tiny, tmp_path):
    run_config.keep(tiny(), tmp_path)
    path, kept = tmp_path / "config.json", run_config.read(tmp_path)
    older = files.read_json(path)
    for key in run_config.ADDED["data"]:
        del older["data"][key]
    files.write_json(path, older, checked=True)
    assert run_config.read(tmp_path).to_dict() == kept.to_dict()


def test_a_bundle_is_not_overwritten(tiny, tmp_path):
    kept = {"bundle.json": "{}", "config.json": "{}", "tokenizer.model": "theirs"}
    for name, text in kept.items():
        (tmp_path / name).write_text(text)
    for write in (run_config.keep, train.run):
        with pytest.raises(errors.ConfigError, match="is a bundle, which no run may overwrite"):
            write(tiny(), tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.name in kept} == kept
