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
