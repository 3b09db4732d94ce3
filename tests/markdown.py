"""Reads tables of Markdown, to compare documents with the records that they quote."""


def tables(text):
    """The Markdown tables of a text, each a list of rows of cells, without the marks of bold letters."""
    found, before = [], ""
    for line in text.splitlines():
        if line.startswith("|"):
            found += [] if before.startswith("|") else [[]]
            found[-1].append([cell.strip().strip("*") for cell in line.strip("|").split("|")])
        before = line
    return found
