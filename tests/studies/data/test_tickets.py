"""The made-up table has the rows and the faults that it counts, and comes from its seed alone."""

import csv
import subprocess
import sys

from studies.data import tickets


def test_the_faults_are_those_that_are_counted():
    records, counts = tickets.table(400)
    assert counts["rows"] == len(records) == 400
    found = {
        "no text": sum(not record[0].strip() or record[0].startswith("https:") for record in records),
        "no label": sum(not record[1].strip() for record in records),
        "malformed": sum(len(record) == 3 for record in records),
    }
    assert found == {kind: counts[kind] for kind in found}
    labels = {record[1].strip() for record in records}
    assert {"Quantum", "Legal", *tickets.TOPICS} <= labels
    assert tickets.table(400) == (records, counts) and tickets.table(400, seed=1)[0] != records


def test_the_program_writes_both_tables(tmp_path):
    table, new = tmp_path / "tickets.csv", tmp_path / "new.csv"
    command = ["--rows=100", f"--out={table}", f"--new={new}"]
    done = subprocess.run(
        [sys.executable, "-m", "studies.data.tickets", *command], check=True, capture_output=True, text=True
    )
    assert "malformed 2, mislabelled 2" in done.stdout
    with open(table, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", "text", "category"] and len(rows) == 101
    with open(new, encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["id", "text"]
