"""Labels: classes by name or number, numbers to predict, and values that are refused."""

import numpy as np
import pytest

from lwt import errors
from lwt.data import labels


@pytest.mark.parametrize(
    "values, names",
    [
        (["b", "a", "b"], ("a", "b")),
        ([10, 2, 2], ("2", "10")),
        (["10", "2"], ("2", "10")),
        (["10", "x"], ("10", "x")),
        ([True, False], ("False", "True")),
        ([0.5, 2, 2.0], ()),
        (["0.5", "2"], ()),
    ],
)
def test_classes_come_from_the_data(values, names):
    made = labels.Labels.of(values)
    assert made.names == names and made.outputs == max(1, len(names)) and made.regression == (not names)
    found, unknown = made.encode(values)
    assert not unknown and found.dtype == (np.int32 if names else np.float32)
    assert found.tolist() == [names.index(str(v)) if names else float(v) for v in values]


def test_a_label_is_a_name_or_a_place():
    found, unknown = labels.Labels(("no", "yes")).encode([1, "no", "0", "yes", 2, -1, "oui"])
    assert found.tolist() == [1, 0, 0, 1, -1, -1, -1] and unknown == {"2": 1, "-1": 1, "oui": 1}
    found, unknown = labels.Labels(("1", "2", "3")).encode([1, "3", 0])
    assert found.tolist() == [0, 2, -1] and unknown == {"0": 1}


def test_labels_that_mean_nothing():
    with pytest.raises(errors.DataError, match="all labels are 'x'; there is nothing to learn"):
        labels.Labels.of(["x", "x"])
    with pytest.raises(errors.DataError, match=r"a label should be text or a number, not \['x'\]"):
        labels.Labels.of(["x", ["x"]])
    for wrong in ("much", float("nan")):
        with pytest.raises(errors.DataError, match="here: the label of record 1 is not a number"):
            labels.Labels(()).encode([1.5, wrong], where="here")
