"""The fields of a record that hold its texts: found by their names, and joined where two fields are one text."""

from lwt import errors

# Names of the text fields of a record. The first entry whose fields are all there counts; a '+' joins fields.
FIELDS = (
    ("text", "text_pair"),
    ("text",),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("sentence",),
    ("title+description",),
)


def choose(name, there):
    """The text fields of records with the fields `there`; `lwt.errors.DataError` if no entry of `FIELDS` is there."""
    for fields in FIELDS:
        if all(field in there for field in names_in(fields)):
            return fields
    raise errors.DataError(f"{name}: data.fields should name one or two text fields; choose from {', '.join(there)}")


def names_in(fields):
    """``("title+description", "text")`` -> ``["title", "description", "text"]``."""
    return [name for field in fields for name in field.split("+")]


def required(fields):
    """The fields that must not be empty in any record. (A part of a joined text may be empty.)"""
    return tuple(field for field in fields if "+" not in field)


def key(texts):
    """What equal texts share: the texts, lower-cased and with single spaces, as a tuple."""
    return tuple(" ".join(text.lower().split()) for text in texts)


def texts_of(record, fields):
    """The texts of a record, one for each of `fields`; ``a+b`` joins two fields.

    Raises:
        lwt.errors.DataError: a field holds something other than text.
    """
    for name in names_in(fields):
        if not isinstance(record[name], str):
            raise errors.DataError(f"field {name!r} of a record is not text: {record[name]!r:.60}")
    return tuple(" ".join(record[name] for name in field.split("+")).strip() for field in fields)
