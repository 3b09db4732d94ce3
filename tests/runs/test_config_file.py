"""Config files by path, with arguments, as ``--config`` takes them."""

import pathlib

import pytest

from lwt import errors
from lwt.machine import config_folder
from lwt.reparam import lora
from lwt.runs import config_file

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def test_arguments_reach_the_config():
    config = config_file.load(f"{CONFIGS}/lora_ranks.py:rank=4,base=runs/none")
    assert config.reparam.rank == 4 and config.init_from == "runs/none" and config.is_locked


def test_arguments_of_a_part_can_be_set_that_the_file_leaves_out():
    spec = f"{CONFIGS}/translation.py"
    flags = ["--config.task.beams=4", "--config.reparam.name=lora", "-config.reparam.rank=2", "--config.data.rows=3"]
    config = config_file.with_named(config_file.load(spec), [f"--config={spec}", *flags])
    # the defaults, which the flags then replace; all other keys are those of the file
    assert (config.task.beams, config.reparam.rank) == (1, lora.LoRA.rank) and config.is_locked
    with config.unlocked():
        del config.task["beams"], config.reparam["rank"]
    assert config == config_file.load(spec)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--config.task.bems=4"], "--config.task.bems=4: translate has no such argument; did you mean 'beams'"),
        (["--config.reparam.name=dora", "--config.reparam.rnk=4"], "rnk=4: dora has no such .* did you mean 'rank'"),
        (["--config.reparam.name=vertical", "--config.reparam.stop_gradient=true"], "only a config file can set it"),
        (["--config.reparam.rank=4"], "--config.reparam.rank=4: none has no such argument"),
        (["--config.reparam.name=lra", "--config.reparam.rank=4"], "--config.reparam.name='lra': did you mean 'lora'"),
    ],
)
def test_a_part_without_such_an_argument_is_named(flags, message):
    with pytest.raises(errors.ConfigError, match=message):
        config_file.with_named(config_file.load(f"{CONFIGS}/translation.py"), flags)


def test_a_module_offers_what_else_it_has():
    assert callable(config_file.module(CONFIGS / "lora_ranks.py").get_config)


@pytest.mark.parametrize(
    "spec, words",
    [
        ("translatoin.py", "is not there; did you mean .*translation.py"),
        ("nowhere/x.py", "is not there"),
        ("translation.py:dta=pool", "translation.py:dta=pool: config argument 'dta=pool'"),
        ("lora_ranks.py:rank=four", "rank should be of type int"),
    ],
)
def test_what_is_wrong_is_named(spec, words):
    with pytest.raises(errors.ConfigError, match=words):
        config_file.load(f"{CONFIGS}/{spec}")


@pytest.mark.parametrize(
    "text, words",
    [
        ("def get_config():\n    return {}\n", "get_config returns a dict; it should return"),
        ("def get_config():\n    pass\n", "get_config returns nothing; it should return"),
        ("config = {}\n", "has no function get_config"),
    ],
)
def test_a_file_that_gives_no_config_is_named(tmp_path, text, words):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(errors.ConfigError, match=f"own.py.*{words}"):
        config_file.load(str(tmp_path / "own.py"))
    assert config_file.arguments(str(tmp_path / "own.py")) == {}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spec", ["quickstart:stage=adapt,base=runs/b", "configs/quickstart.py:stage=adapt,base=runs/b"]
)
def test_names_are_found_from_any_folder(elsewhere, spec):
    assert config_file.load(spec).reparam.name == "lora"
    assert config_file.arguments(spec.partition(":")[0])["stage"] == "base"
    assert config_folder.defaults().optimizer.name == "adamw" and "quickstart" in config_folder.names()


def test_a_local_file_wins(elsewhere):
    (elsewhere / "configs").mkdir()
    own = "from configs import common\n\ndef get_config(arg=''):\n    config = common.base()\n    config.seed = 7\n"
    (elsewhere / "configs/quickstart.py").write_text(f"{own}    return config\n")
    assert config_file.load("quickstart").seed == config_file.load("configs/quickstart.py").seed == 7
    assert config_folder.find("vit") == CONFIGS / "vit.py"


@pytest.mark.parametrize(
    "name, right", [("quikstart", "'quickstart'"), ("configs/quikstart.py", "'configs/quickstart.py'")]
)
def test_a_wrong_name_is_suggested_from_any_folder(elsewhere, name, right):
    with pytest.raises(errors.ConfigError, match=f"config file {name} is not there; did you mean {right}"):
        config_file.load(name)
