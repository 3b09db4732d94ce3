"""Files of records in the formats that `formats` reads, written record by record."""

import csv
import json
import pathlib

from lwt import errors
from lwt.data import formats

BINARY = (".parquet",)
JSON = (".jsonl", ".ndjson", ".json")  # one object a line


class Writer:
    """Writes records to an open file; close it at the end.

    Args:
        source: the file whose records are written again, with fields added: its format and separator are kept. Text
            is written as UTF-8; a spreadsheet's table begins with a byte-order mark, by which spreadsheets know UTF-8.
        file: an open file: of bytes for a format of `BINARY`, else of text.
        added: ``{name: str, float or bool}``, the types of the fields that are added.
    """

    def __init__(self, source, file, *, added):
        source = pathlib.Path(source)
        self._form, self._file, self._parquet, self._fields = formats.of(source), file, None, None
        if self._form == ".parquet":
            self._start_parquet(source, added)
        elif self._form not in JSON:
            self._separator, self._mark = formats.dialect(source)

    def write(self, records):
        """Writes records (dicts). Of a table, all must have the fields of the first."""
        if self._parquet:
            import pyarrow

            self._parquet.write_table(pyarrow.Table.from_pylist(records, schema=self._fields))
        elif self._form in JSON:
            self._file.writelines(_json(record) + "\n" for record in records)
        else:
            if records and self._fields is None:
                self._fields = list(records[0])
                self._file.write("\ufeff" * self._mark)
                self._row(self._fields)
            for record in records:
                self._row([_cell(record[field]) for field in self._fields])

    def close(self):
        """Ends the file; of a ``.parquet``, writes its last part."""
        if self._parquet:
            self._parquet.close()

    def _row(self, cells):
        if self._form == ".tsv":  # which has no quotes
            self._file.write(self._separator.join(cells) + "\n")
        else:
            csv.writer(self._file, delimiter=self._separator, lineterminator="\n").writerow(cells)

    def _start_parquet(self, source, added):
        import pyarrow  # imported here because it is slow
        import pyarrow.parquet

        types = {str: pyarrow.string(), float: pyarrow.float64(), bool: pyarrow.bool_()}
        self._fields = pyarrow.parquet.read_schema(source)
        for name, kind in added.items():
            self._fields = self._fields.append(pyarrow.field(name, types[kind]))
        self._parquet = pyarrow.parquet.ParquetWriter(self._file, self._fields)


def _json(record):
    """A record as a line of JSON; one that UTF-8 cannot write, with half a surrogate pair, in ASCII."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(record)
    return line


def check_out(source, out):
    """Raises `lwt.errors.ConfigError` unless records of the file `source` can be written to the file `out`."""
    form, other = formats.of(pathlib.Path(source)), pathlib.PurePath(out).suffix.lower()
    fits = other in JSON if form in JSON else other == form
    if not fits:
        raise errors.ConfigError(f"--out={out}: records of a {form} are written as {form}, so the name must end in it")


def free_name(name, taken):
    """`name`, or ``NAME_2``, ``NAME_3``, ... if it is `taken`."""
    names = (f"{name}_{number}" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(one for one in names if one not in taken)


def _cell(value):
    """A value as the text of a cell: nothing for None, and "true" or "false"."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
