"""How a table of text was written: the separator of its cells and its encoding, found in the file itself.

Spreadsheets write semicolons instead of commas where the comma is the decimal mark, and Windows-1252 instead of UTF-8.
Windows programs, PowerShell among them, also write UTF-16 with a byte-order mark.
"""

import codecs
import io
import re

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}  # of a .csv; the first one wins a tie
UTF_8, WINDOWS = "utf-8", "cp1252"
SNIFFED = 1 << 22  # bytes that decide on the encoding
UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}  # by its byte-order mark
SUSPICIOUS = 3, 100  # lines that make a cell suspicious: the first if they look like records, the second in any case
FOREIGN = 3  # as many lines that are not UTF-8 make a file Windows-1252; fewer are damaged


def as_utf8(file):
    """The open file, a binary one with a buffer; if it begins with a byte-order mark of UTF-16, as UTF-8.

    Reading the latter raises an `OSError` where it is not UTF-16.
    """
    encoding = UTF_16.get(file.peek(2)[:2])
    return io.BufferedReader(_Utf16(file, encoding)) if encoding else file


class _Utf16(io.RawIOBase):
    """A binary file in UTF-16, read as UTF-8."""

    def __init__(self, file, encoding):
        self._file, self._decoder, self._left = file, codecs.getincrementaldecoder(encoding)(), b""

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self._left:
            read = self._file.read(io.DEFAULT_BUFFER_SIZE)
            try:
                self._left = self._decoder.decode(read, final=not read).encode()
            except UnicodeDecodeError as error:
                raise OSError(f"bad UTF-16: {error.reason}") from error
            if not read:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self):
        self._file.close()
        super().close()


def of(content):
    """``(separator, whether a spreadsheet wrote it)`` of a file that begins with the bytes `content`.

    A spreadsheet writes UTF-8 with a byte-order mark, or Windows-1252.
    """
    header = content.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    return separator_of(header), content.startswith(codecs.BOM_UTF8) or encoding_of(content) == WINDOWS


def separator_of(header):
    """What separates the cells of a ``.csv``: the key of `SEPARATORS` that its first line holds most often."""
    unquoted = re.sub(r'"[^"]*"', "", header)
    return max(SEPARATORS, key=unquoted.count)


def encoding_of(content):
    """`UTF_8`, or `WINDOWS` if all characters beyond ASCII are in Windows-1252.

    That takes at least `FOREIGN` lines that are not UTF-8, and none that is: a file of both is UTF-8, and damaged.

    Args:
        content: the first `SNIFFED` bytes of the file, or all of it.
    """
    lines = content.split(b"\n")
    if len(content) >= SNIFFED:
        lines.pop()  # it may end within a character
    lines = [line for line in lines if not line.isascii()]
    if len(lines) < FOREIGN or any(_decodes(line, UTF_8) for line in lines):
        return UTF_8
    return WINDOWS if all(_decodes(line, WINDOWS) for line in lines) else UTF_8


def _decodes(line, encoding):
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def looks_merged(cell, separators, *, separator):
    """Whether the inner lines of a cell look like records that unbalanced quotes have merged."""
    inner = cell.split("\n")[1:-1]
    like_records = separators and sum(line.count(separator) == separators for line in inner) * 2 > len(inner)
    return len(inner) + 2 >= SUSPICIOUS[1] or (like_records and len(inner) + 2 >= SUSPICIOUS[0])


def problem(error):
    """What is wrong with a line that a `csv.Error` refuses."""
    if "new-line" in str(error):
        return "a carriage return inside the line; save the file with the line ends of Windows or Unix"
    return f"a quote is unbalanced: {error}"
