"""The text fields of a record: which are chosen, and how a joined one is read."""

import pytest

from lwt import errors
from lwt.data import text_fields


def test_the_first_entry_whose_fields_are_all_there_is_chosen():
    assert text_fields.choose("a", ("label", "text")) == ("text",)
    assert text_fields.choose("a", ("sentence", "question", "label")) == ("question", "sentence")
    assert text_fields.choose("a", ("title", "description")) == ("title+description",)
    with pytest.raises(errors.DataError, match="a: data.fields should name one or two text fields; choose from story"):
        text_fields.choose("a", ("story",))


def test_a_joined_field_is_one_text():
    fields = ("title+description", "text")
    assert text_fields.names_in(fields) == ["title", "description", "text"]
    assert text_fields.required(fields) == ("text",)
    record = {"title": "", "description": "from rome", "text": "b"}
    assert text_fields.texts_of(record, fields) == ("from rome", "b")
    with pytest.raises(errors.DataError, match="field 'text' of a record is not text: 7"):
        text_fields.texts_of(record | {"text": 7}, fields)
