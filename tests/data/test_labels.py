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
        ([0.0, 1.0, 2.0], ("0", "1", "2")),  # what pandas makes of whole numbers with a gap
        (["1.0", 1, 0, "0"], ("0", "1")),
        ([" Billing ", "Billing", "other\tclass\n"], ("Billing", "other class")),
        ([0.5, 2, 2.0], ()),
        (["0.5", "2"], ()),
        ([1.0, float("nan")], ()),
    ],
)
def test_classes_come_from_the_data(values, names):
    made = labels.Labels.of(values)
    assert made.names == names and made.outputs == max(1, len(names)) and made.regression == (not names)
    if not any(value != value for value in values):
        found, unknown = made.encode(values)
        assert not unknown and found.dtype == (np.int32 if names else np.float32)
        assert found.tolist() == [names.index(labels.text_of(v)) if names else float(v) for v in values]


def test_a_label_is_a_name_or_a_place():
    found, unknown = labels.Labels(("no", "yes")).encode([1, "no", "0", "yes", 2, -1, "oui"])
    assert found.tolist() == [1, 0, 0, 1, -1, -1, -1] and unknown == {"2": 1, "-1": 1, "oui": 1}
    found, unknown = labels.Labels(("1", "2", "3")).encode([1, "3", 0])
    assert found.tolist() == [0, 2, -1] and unknown == {"0": 1}


def test_labels_that_mean_nothing():
    with pytest.raises(errors.DataError, match="all labels are 'x'; there is nothing to learn"):
        labels.Labels.of(["x", "x"])
    with pytest.raises(errors.DataError, match=r"a label must be text or a number, not \['x'\]"):
        labels.Labels.of(["x", ["x"]])
    for wrong in ("much", float("nan")):
        with pytest.raises(errors.DataError, match="line 1: the label is not a number"):
            labels.Labels(()).encode([1.5, wrong], where="line {}".format)


def test_hidden_numbers_are_refused():
    with pytest.raises(errors.DataError, match="record 0: all 3 labels are -1, so they are hidden"):
        labels.Labels(()).encode([-1, -1.0, "-1"])
    assert labels.Labels(()).encode([-1.0, 0.5])[0].tolist() == [-1, 0.5]


def test_labels_that_count_named_classes_from_one():
    named = labels.Labels(("ant", "bee", "cow"))
    for values in ([1, 2, 3, 1], ["1.0", "3"], [3]):
        with pytest.raises(errors.DataError, match="the label 3 is there and 0 is not; the 3 classes .*subtract 1"):
            named.encode(values)
    assert named.encode([0, 1, 2])[0].tolist() == [0, 1, 2] == named.encode(["ant", " bee", "cow"])[0].tolist()
    assert named.encode([1, 2])[0].tolist() == [1, 2]  # a class may be absent


@pytest.mark.parametrize(
    "alike", [("Billing", "billing"), ("re-open", "re open"), ("caf\u00e9", "cafe\u0301"), ("1", "01")]
)
def test_names_that_are_nearly_equal_are_warned_of(alike, caplog):
    made = labels.Labels.of([*alike, "other"])
    assert {*made.names} == {*alike, "other"} and all(repr(name) in caplog.text for name in alike)
    caplog.clear()
    labels.Labels.of([], names=("ant", *alike))
    assert "nearly equal" in caplog.text and "'ant'" not in caplog.text
    caplog.clear()
    labels.Labels.of(["c++", "C#", "ant", "aunt", "1", "10"])
    assert not caplog.text


def test_names_of_older_runs_with_white_space_still_work():
    old = labels.Labels((" Billing", "Billing", "two  spaces"))
    assert old.encode([" Billing", "Billing", "two  spaces", "two spaces"])[0].tolist() == [0, 1, 2, 2]
    assert old.is_of(labels.Labels(("Billing", "two spaces"))) and not old.is_of(
        labels.Labels(("two spaces", "Billing"))
    )


def test_several_labels_of_a_record():
    """As a text with a separator, or as a list; or none."""
    values = ["urgent| billing ", ["sales"], "", "billing|billing", 7]
    found = labels.Labels.of(values, separator="|")
    assert found == labels.Labels(("7", "billing", "sales", "urgent"), "|") and found.outputs == 4
    encoded, unknown = found.encode(values)
    wanted = [[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert encoded.dtype == np.float32 and encoded.tolist() == wanted and not unknown
    assert found.decode(encoded) == ["billing|urgent", "sales", "", "billing", "7"]
    encoded, unknown = found.encode(["sales", "sales|spam"])
    assert encoded[1].tolist() == [-1] * 4 and unknown == {"spam": 1} and found.known(encoded).tolist() == [True, False]
    assert found.decode(encoded) == ["sales", "?"] and found.counts(encoded).tolist() == [0, 0, 1, 0]
    for wrong in (None, [None], {"a": 1}):
        with pytest.raises(errors.DataError, match="record 0: the labels of a record must be texts with '|' between"):
            found.encode([wrong])
