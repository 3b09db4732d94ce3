"""A damaged file of an estimator is named; what is opened is compared in `test_classifier` and `test_regressor`."""

import pytest

from lwt import errors
from lwt.estimators import saved


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
        '{"class": "Other", "params": {}}',
        '{"class": "Regressor", "params": {"what": 1}}',
        '{"class": "Regressor", "params": {}, "mean": 0.5}',
        '{"class": "Classifier", "params": {}}',
    ],
)
def test_damage_is_named(tmp_path, content):
    (tmp_path / "estimator.json").write_text(content)
    with pytest.raises(errors.CheckpointError, match="estimator.json is damaged: "):
        saved.load(tmp_path)
