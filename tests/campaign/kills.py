"""Kills: a program that is stopped at any moment, and called again, ends where the undisturbed one does."""

import pathlib
import random
import shutil
import signal

from tests.campaign import artefacts, programs

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
COMMANDS = {  # name -> program and arguments; {made}: the folder of the artefacts, {own}: this case's folder
    "train": ("train.py", artefacts.SMALL, "--workdir={own}/out"),
    "adapt": ("train.py", artefacts.SMALL + ":base={made}/run", "--workdir={own}/out"),
    "distil": ("train.py", artefacts.SMALL + ":teacher={made}/run", "--workdir={own}/out"),
    "classify": ("train.py", artefacts.SMALL + ":kind=labelled,data=folder:{made}/texts", "--workdir={own}/out"),
    "images": ("train.py", artefacts.SMALL + ":kind=images,data=folder:{made}/images", "--workdir={own}/out"),
    "bundle": ("lwt.export.bundle", "--workdir={made}/run", "--out={own}/out", "--precision=int8"),
    "prune": (
        "lwt.compress.structured",
        "--workdir={made}/run",
        "--units=0.5",
        "--scores=magnitude",
        "--out={own}/out",
    ),
}
WEIGHTS = (8, 2, 2, 2, 2, 2, 2)  # how often each is drawn


def run(count, *, seed, made, folder):
    """Yields ``(case, fault)`` for each of `count` kills; the fault is empty if the promise held.

    Args:
        made: the `artefacts.Artefacts`.
        folder: an empty folder for the cases.
    """
    draw, wanted = random.Random(seed), {}
    for number in range(count):
        name = draw.choices(list(COMMANDS), WEIGHTS)[0]
        times = [draw.random() for _ in range(draw.choice((1, 1, 2)))]
        number_of = [draw.choice(SIGNALS) for _ in times]
        if name not in wanted:
            own = pathlib.Path(folder, f"whole-{name}")
            whole = programs.run(*command(name, made=made, own=own))
            wanted[name] = (whole.seconds, result(name, own / "out"))
        seconds, expected = wanted[name]
        own = pathlib.Path(folder, f"kill-{number}")
        moments = [time * seconds for time in times]
        case = f"{name}, " + ", ".join(f"{s.name} at {m:.2f} s" for s, m in zip(number_of, moments))
        yield case, _fault(name, list(zip(number_of, moments)), expected=expected, made=made, own=own)
        shutil.rmtree(own, ignore_errors=True)


def _fault(name, stops, *, expected, made, own):
    arguments = command(name, made=made, own=own)
    for stop in stops:
        outcome = programs.run(*arguments, stop=stop)
        if outcome.code == -signal.SIGKILL and not outcome.hung:
            continue
        if outcome.hung or "Traceback" in outcome.out + outcome.err:
            return f"on {stop[0].name}: {outcome.fault or outcome.last_line}"
    outcome = programs.run(*arguments)
    if outcome.fault:
        return outcome.fault
    found = result(name, own / "out")
    if outcome.code and found is None:
        return f"cannot be called again: {outcome.complaint}"
    return "" if found == expected else "silent: another result than the undisturbed call"


def command(name, *, made, own):
    """Program and arguments of a case."""
    return [made.filled(argument).replace("{own}", str(own)) for argument in COMMANDS[name]]


def result(name, out):
    """What a call made: the files of a bundle, or the weights and log of a run; None if there is nothing."""
    if name == "bundle":
        return artefacts.contents(out) or None
    return programs.run("tests/campaign/digest.py", str(out)).out.strip() or None
