"""The bundles that come with lwt are found from any folder."""

import pytest

from lwt import errors
from lwt.runs import bundle, pretrained


def test_bundles_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "embbert-tinynlp" in pretrained.names()
    for name in pretrained.names():
        assert bundle.read_info(pretrained.folder(name))["kind"]
    with pytest.raises(errors.ConfigError, match="did you mean 'embbert-tinynlp'"):
        pretrained.folder("embbert-tinynpl")
