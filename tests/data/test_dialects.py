"""What a spreadsheet may write instead of commas and UTF-8."""

import pytest

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
