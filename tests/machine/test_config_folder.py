"""The configs are found from any folder; `tests/runs/test_config_file.py` opens them."""

import pytest

from lwt import errors
from lwt.machine import config_folder


def test_the_folder_has_the_configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_folder.find("quickstart") == config_folder.folder() / "quickstart.py"
    assert "finetune" in config_folder.names() and "common" not in config_folder.names()
    assert config_folder.defaults() == config_folder.common().base()
    with pytest.raises(errors.ConfigError, match="is not there; did you mean 'finetune'"):
        config_folder.find("fintune")
    (tmp_path / "train.py").write_text("")  # a program beside, as in a clone, is no config
    with pytest.raises(errors.ConfigError, match=f"choose from {', '.join(config_folder.names())}$"):
        config_folder.find("vertical_lora")
