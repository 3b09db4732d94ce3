"""Damages: a file that lwt reads again is changed; the next program says so, rebuilds it, or is not affected."""

import pathlib
import random
import shutil

from tests.campaign import artefacts, programs

CONSUMERS = {  # artefact -> what reads it, each with its arguments
    "run": ("evaluate", "predict", "resume", "prune"),
    "adapter": ("evaluate", "resume"),
    "student": ("resume",),
    "classifier": ("evaluate", "resume"),
    "vit": ("evaluate", "resume"),
    "floats": ("evaluate", "predict", "adapt"),
    "integers": ("evaluate", "predict"),
    "pruned": ("evaluate",),
    "images": ("images",),
}
DATA = ("images",)  # without one of its files, a folder of data is another data set, which the log describes
OUTPUTS = ("eval/", "plots/", "metrics.jsonl", ".lock")  # written for people; no program reads them again


def flip(data, draw):
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def cut(data, draw):
    return data[: draw.randrange(len(data))]


def blank(data, draw):
    place = draw.randrange(len(data))
    return data[:place] + bytes(min(512, len(data) - place)) + data[place + 512 :]


def append(data, draw):
    return data + draw.randbytes(16)


def empty(data, draw):
    return b""


CHANGES = (flip, flip, flip, cut, cut, blank, append, empty)


def run(count, *, seed, made, folder):
    """Yields ``(case, fault)`` for each of `count` damages; the fault is empty if the promise held.

    Args:
        made: the `artefacts.Artefacts`.
        folder: an empty folder for the cases.
    """
    draw, wanted = random.Random(seed), {}
    for number in range(count):
        name = draw.choice(list(CONSUMERS))
        consumer = draw.choice(CONSUMERS[name])
        own = pathlib.Path(folder, f"damage-{number}")
        if (name, consumer) not in wanted:
            shutil.copytree(made[name], own / name)
            wanted[name, consumer] = result(consumer, programs.run(*command(consumer, made, own / name)), own)
            shutil.rmtree(own)
        shutil.copytree(made[name], own / name)
        case = f"{damage(own / name, draw)}, then {consumer}"
        outcome = programs.run(*command(consumer, made, own / name))
        yield (
            f"{name}: {case}",
            fault(outcome, result(consumer, outcome, own), wanted=wanted[name, consumer], case=case),
        )
        shutil.rmtree(own)


def damage(folder, draw):
    """Damages one file of `folder`; returns what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    files = [path for path in files if not str(path.relative_to(folder)).startswith(OUTPUTS)]
    path = draw.choice(files)
    name = path.relative_to(folder)
    kind = draw.randrange(len(CHANGES) + 2 * (folder.name not in DATA))
    if kind == len(CHANGES):
        path.unlink()
        return f"{name} deleted"
    if kind == len(CHANGES) + 1:
        path.unlink()
        path.mkdir()
        return f"{name} made a folder"
    change, before = CHANGES[kind], path.read_bytes()
    after = change(before, draw)
    while after == before:
        after = change(before, draw)
    path.write_bytes(after)
    return f"{name} changed by {change.__name__}"


def fault(outcome, found, *, wanted, case):
    """Why a damage was not handled as promised, or an empty text."""
    if outcome.fault or outcome.code == 2 or found == wanted:
        return outcome.fault
    path = pathlib.Path(case.split(" ")[0])
    told = [part for part in (path.name, path.parts[0], "damaged") if part in outcome.out + outcome.err]
    return "" if told else f"silent: {str(found)[:80]} instead of {str(wanted)[:80]}"


def command(consumer, made, folder):
    """Program and arguments that read the artefact in `folder`."""
    own = folder.parent
    small = f"{artefacts.SMALL}:"
    settings = {
        "adapter": f"{small}base={made['run']}",
        "student": f"{small}teacher={made['run']}",
        "classifier": f"{small}kind=labelled,data=folder:{made['texts']}",
        "vit": f"{small}kind=images,data=folder:{made['images']}",
    }
    return {
        "evaluate": ("eval.py", f"--workdir={folder}"),
        "predict": ("eval.py", f"--workdir={folder}", f"--predict={artefacts.prompts(own.parent)}"),
        "resume": ("train.py", settings.get(folder.name, small), f"--workdir={folder}", "--config.steps=8"),
        "prune": (
            *("lwt.compress.structured", f"--workdir={folder}", f"--out={own}/pruned"),
            *("--units=0.5", "--scores=magnitude"),
        ),
        "adapt": ("train.py", f"{small}base={folder}", f"--workdir={own}/adapted"),
        "images": ("train.py", f"{small}kind=images,data=folder:{folder}", f"--workdir={own}/trained"),
    }[consumer]


def result(consumer, outcome, own):
    """What a consumer made of an artefact: its answers or its figures."""
    return outcome.out if consumer == "predict" else artefacts.figures(outcome)
