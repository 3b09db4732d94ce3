"""Makes the folder of a data set from its authors' files, and compares folders with those that all figures come from.

    python -m studies.data --name=snips --originals=SlotGated-SLU
    python -m studies.data

The first writes ``$LWT_DATA/snips``, or ``--out``. Without a name, all folders in ``$LWT_DATA`` are compared. The
checksums beside this file are those of what the files hold, since a ``.gz`` also depends on the program that packs it.
docs/datasets.md says where the authors' files are, and what their licences allow.
"""

import gzip
import hashlib
import json
import os
import pathlib

from absl import flags

from lwt import errors
from lwt.export import folders
from lwt.machine import command_line
from studies.data import originals

CHECKSUMS = pathlib.Path(__file__).with_name("checksums.sha256")  # lines "DIGEST  FOLDER/FILE"


def digest(path):
    """The SHA-256 of what a file holds: of a ``.gz``, unpacked."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expected():
    """``{folder: {file: digest}}`` of the data sets as they were used here."""
    found = {}
    for line in CHECKSUMS.read_text(encoding="utf-8").splitlines():
        checksum, path = line.split("  ")
        folder, _, file = path.partition("/")
        found.setdefault(folder, {})[file] = checksum
    return found


def differences(folder, files):
    """What differs in a folder from ``{file: digest}``: a list of texts."""
    found = []
    for file, checksum in files.items():
        path = folder / file
        if not path.is_file():
            found.append(f"{file} is missing")
        elif digest(path) != checksum:
            found.append(f"{file} differs")
    return found


def write(name, source, out):
    """Writes the folder `out` of the data set `name` from its authors' files in the folder `source`."""
    splits, classes = originals.read(name, source), originals.SETS[name].classes
    with folders.new(out) as folder:
        for split, records in splits.items():
            content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(content.encode(), 9, mtime=0))
        if classes:
            (folder / "labels.txt").write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")


def main():
    """The program."""
    given, root = flags.FLAGS, os.environ.get("LWT_DATA", "")
    names = [given.name] if given.name else list(expected())
    if given.name:
        if not given.originals or not (given.out or root):
            missing = "--out, or LWT_DATA" if given.originals else "--originals"
            raise errors.ConfigError(f"--name={given.name} needs {missing}; see --help")
        out = pathlib.Path(given.out or os.path.join(root, given.name))
        write(given.name, given.originals, out)
    else:
        command_line.refuse(["originals", "out"], where="without --name")
        if not os.path.isdir(root):
            raise errors.ConfigError(f"LWT_DATA={root} is not a folder; set it to the folder of the data sets")
    wrong = 0
    for name in names:
        folder = out if given.name else pathlib.Path(root, name)
        found = differences(folder, expected()[name]) if folder.is_dir() else ["not there"]
        wrong += found not in ([], ["not there"])
        print(f"{name}: {', '.join(found) or 'as it was used here'}")
    if wrong:
        raise errors.DataError(f"{wrong} of these data sets differ from those that the figures of the docs come from")


if __name__ == "__main__":
    flags.DEFINE_enum("name", None, sorted(originals.SETS), "Data set to make.")
    flags.DEFINE_string("originals", "", "Folder with the files of its authors.")
    flags.DEFINE_string("out", "", "Folder to write; default: $LWT_DATA/NAME.")
    command_line.run(main, required=[])
