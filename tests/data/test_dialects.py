"""What a spreadsheet may write instead of commas and UTF-8."""

import gzip
import json

import pytest

from lwt import errors
from lwt.data import dialects, formats

ROWS = [["text", "label"], ["Zurück, bitte", "Rücksendung"], ['Über "alles"', "Lob"], ["schön", "Lob"], ["ok", "Lob"]]


def written(separator):
    """The rows as a file with quotes where they are needed."""
    cells = ([f'"{cell.replace(chr(34), chr(34) * 2)}"' if cell[:1] in "ZÜ" else cell for cell in row] for row in ROWS)
    return "\r\n".join(separator.join(row) for row in cells) + "\r\n"


@pytest.mark.parametrize("separator", dialects.SEPARATORS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_separators_and_encodings_are_found_and_told(tmp_path, caplog, separator, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(written(separator).encode(encoding))
    with caplog.at_level("INFO", "lwt"):
        found = [record for *_, record in formats.read((path,))]
    assert found == [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    assert ("read as Windows-1252" in caplog.text) == (encoding == "cp1252")
    assert (f"separated by {dialects.SEPARATORS[separator]}" in caplog.text) == (separator != ",")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.txt", "a.csv.gz"])
def test_utf_16_is_read_by_its_byte_order_mark(tmp_path, name, encoding):
    rows, path = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]] * 1000, tmp_path / name
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    forms = {".csv": written("\t").replace("\r\n", "\n"), ".jsonl": "\n".join(lines), ".json": f"[{','.join(lines)}]"}
    text = forms.get(formats.of(path), "\n".join(row["text"] for row in rows))
    if formats.of(path) == ".csv":
        header, body = text.split("\n", 1)
        text = f"{header}\n{body * 1000}"
    content = f"\ufeff{text}".encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = [record for *_, record in formats.read((path,))]
    assert [record["text"] for record in found] == [row["text"] for row in rows]
    if formats.of(path) == ".csv":
        assert found == rows and formats.dialect(path) == ("\t", True)


def test_damaged_utf_16_is_refused_at_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufefftext\nschön\n".encode("utf-16-le") + b"\0")
    with pytest.raises(errors.DataError, match="a.csv is damaged after .*bad UTF-16: truncated data"):
        list(formats.read((path,)))


def test_a_comma_wins_a_tie_and_quotes_hide_separators():
    for header, found in {"a,b;c": ",", "a;b,c;d": ";", '"a;b;c",d': ",", "text": ",", "a\tb": "\t"}.items():
        assert dialects.separator_of(header) == found, header


def test_damaged_lines_of_utf8_are_not_windows_1252():
    line = "schön\n"
    assert dialects.encoding_of(line.encode("cp1252") * 3) == "cp1252"
    assert dialects.encoding_of(line.encode("cp1252") * 2) == "utf-8"  # too few
    assert dialects.encoding_of(line.encode("cp1252") * 9 + line.encode()) == "utf-8"  # mixed
    assert dialects.encoding_of(b"\x81\n" * 9) == "utf-8"  # no character of Windows-1252
    long = line.encode() * (dialects.SNIFFED // len(line.encode()) + 1)
    assert dialects.encoding_of(long[: dialects.SNIFFED]) == "utf-8"  # cut within a line
