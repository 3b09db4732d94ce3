"""What the campaign kills, damages and calls: data folders, runs of every form, and what each program makes of them."""

import csv
import functools
import hashlib
import json
import pathlib
import random
import re
import tarfile

from PIL import Image

from tests.campaign import programs

WORDS = {"sun": "warm bright clear dry".split(), "rain": "wet grey cold dark".split()}
SMALL = "--config=tests/campaign/small.py"
NOT_COMPARED = ("data", "time", "workdir", "folder", "file", "out")  # figures that name a path or a time


COMMANDS = {  # artefact -> the program that makes it, and its arguments before --workdir or --out
    "run": ("train.py", SMALL),
    "adapter": ("train.py", f"{SMALL}:base={{made}}/run"),
    "student": ("train.py", f"{SMALL}:teacher={{made}}/run"),
    "classifier": ("train.py", f"{SMALL}:kind=labelled,data=folder:{{made}}/texts"),
    "vit": ("train.py", f"{SMALL}:kind=images,data=folder:{{made}}/images"),
    "floats": ("lwt.export.bundle", "--workdir={made}/run"),
    "integers": ("lwt.export.bundle", "--workdir={made}/run", "--precision=int8"),
    "pruned": ("lwt.compress.structured", "--workdir={made}/run", "--units=0.5", "--scores=magnitude"),
}


class Artefacts:
    """The artefacts in a `folder`; each is made when it is first asked for."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        write_texts(self.folder / "texts")
        write_images(self.folder / "images")

    def __getitem__(self, name):
        """The path of an artefact; raises RuntimeError if the program that makes it fails."""
        path = self.folder / name
        if not path.exists():
            program, *arguments = COMMANDS[name]
            where = "workdir" if program == "train.py" else "out"
            outcome = programs.run(program, *map(self.filled, arguments), f"--{where}={path}")
            if outcome.code:
                raise RuntimeError(f"{program} {' '.join(arguments)}: {outcome.last_line}")
        return path

    def filled(self, argument):
        """An argument with the folder in place of ``{made}``; what it names there is made."""
        for name in COMMANDS.keys() & re.findall(r"\{made\}/(\w+)", argument):
            self[name]
        return argument.replace("{made}", str(self.folder))


def write_texts(folder):
    """Writes a folder of labelled texts: train.csv of 64, test.csv of 16."""
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for name, count in (("train", 64), ("test", 16)):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["text", "label"])
            for i in range(count):
                label = sorted(WORDS)[i % 2]
                table.writerow([" ".join(draw.choices(WORDS[label], k=6)) + f" {name} {i}", label])


def write_images(folder):
    """Writes archives of images, a folder a class: train.tar of 32, test.tar of 8."""
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for name, count in (("train", 32), ("test", 8)):
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            for i in range(count):
                label = sorted(WORDS)[i % 2]
                path = folder / "image.png"
                shade = [tuple(draw.randrange(128) + 100 * (label == "sun") for _ in range(3)) for _ in range(64)]
                image = Image.new("RGB", (8, 8))
                image.putdata(shade)
                image.save(path)
                archive.add(path, f"{label}/{i}.png")
                path.unlink()


@functools.cache
def prompts(folder):
    """Path of a file of prompts in `folder`."""
    path = pathlib.Path(folder, "prompts.txt")
    path.write_text("copy: zqxjkvwyzqxjkvwyp\nadd 2: xqzjkvwyxqzjkvwyxj\n")
    return str(path)


def figures(outcome):
    """The figures that a program reports in its last line, without paths and times; None if there are none."""
    try:
        found = json.loads(outcome.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    return {key: value for key, value in found.items() if key not in NOT_COMPARED and "second" not in key}


def contents(folder):
    """``{path: sha256}`` of the files of a folder, without what holds times: logs, evaluations, hidden files."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part.startswith(".") for part in path.parts[-3:]) and "eval/" not in name:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
