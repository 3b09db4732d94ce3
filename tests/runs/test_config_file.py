"""Config files by path, with arguments, as ``--config`` takes them."""

import pathlib

import pytest

from lwt import errors
from lwt.runs import config_file

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def test_arguments_reach_the_config():
    config = config_file.load(f"{CONFIGS}/lora_ranks.py:rank=4,base=runs/none")
    assert config.reparam.rank == 4 and config.init_from == "runs/none" and config.is_locked


def test_a_module_offers_what_else_it_has():
    assert callable(config_file.module(CONFIGS / "lora_ranks.py").sweep)


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
