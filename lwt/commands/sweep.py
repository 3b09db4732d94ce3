"""Trains a grid of settings, one run after the other, and ranks them by the selected figure of the validation set.

    lwt sweep --config=finetune:data=folder:tickets,base=pretrained/embbert --workdir=runs/rates rate=1e-4,3e-4,1e-3
    lwt sweep --config=quickstart:stage=base --workdir=runs/grid optimizer.learning_rate=1e-3,3e-3 seed=0,1

``KEY=VALUE,VALUE`` names an argument of the config file, or a key of the config; the last part of a key is enough if
no other key ends with it. Every combination is a run, WORKDIR/KEY=VALUE,...: the same command resumes what was stopped,
and leaves finished runs alone. The table, sorted, and the learning curves are in WORKDIR/README.md. The test set is
never read. The last line is one JSON object.
"""

import ast
import dataclasses
import itertools
import logging
import math
import os
import sys

from absl import flags

from lwt import errors, trees
from lwt.commands import positional
from lwt.inspect import comparison
from lwt.machine import command_line
from lwt.report import pages, results, study, style
from lwt.runs import config_file

LOG = logging.getLogger(__name__)
RECORD = "sweep.json"
LIMIT = 1000  # runs of a sweep


@dataclasses.dataclass(frozen=True)
class Setting:
    """One dimension of the grid: a config file's argument, or a key of the config, and its values as texts."""

    key: str
    values: tuple
    is_argument: bool


def parse(texts, *, arguments, keys):
    """The `Setting` objects of ``["learning_rate=1e-4,3e-4", ...]``.

    Args:
        arguments: names of the config file's arguments.
        keys: of the config, with dots.

    Raises:
        lwt.errors.ConfigError: there is no text; or one has another form, or names nothing, several keys, or a key or
            value twice.
    """
    if not texts:
        raise errors.ConfigError("name the settings to try: lwt sweep --config=... --workdir=... rate=1e-4,3e-4")
    found = []
    for text in texts:
        name, equals, values = text.partition("=")
        values = tuple(values.split(","))
        if not (name and equals and all(values)) or len({*values}) < len(values):
            raise errors.ConfigError(f"{text!r} should be KEY=VALUE,VALUE with different values")
        matching = [key for key in keys if key == name or key.endswith(f".{name}")]
        if name not in arguments and len(matching) != 1:
            known = {*arguments, *keys, *(key.rpartition(".")[2] for key in keys)}
            hint = f"choose from {', '.join(matching)}" if matching else errors.suggest(name, known)
            raise errors.ConfigError(f"{text!r}: {name!r} names {'several keys' if matching else 'no key'}; {hint}")
        key = name if name in arguments else matching[0]
        if key in [setting.key for setting in found]:
            raise errors.ConfigError(f"{text!r}: {key} is given twice")
        found.append(Setting(key, values, name in arguments))
    if (count := math.prod(len(setting.values) for setting in found)) > LIMIT:
        raise errors.ConfigError(f"{count} runs; a sweep has at most {LIMIT}")
    return found


def grid(settings):
    """All combinations, as dicts ``{key: text}``."""
    keys = [setting.key for setting in settings]
    return [dict(zip(keys, values)) for values in itertools.product(*(setting.values for setting in settings))]


def config_of(spec, chosen, *, settings, overrides):
    """The config of one combination.

    Args:
        spec: ``FILE.py:arguments`` of the sweep.
        chosen: ``{key: text}``.
        settings: the `Setting` objects.
        overrides: ``{key: value}`` of the flags ``--config.KEY``.

    Raises:
        lwt.errors.ConfigError: the config file refuses an argument, or a text is not a value of its key.
    """
    path, _, first = spec.partition(":")
    given = [f"{one.key}={chosen[one.key]}" for one in settings if one.is_argument]
    config = config_file.load(":".join(filter(None, [path, ",".join(filter(None, [first, *given]))])))
    with config.unlocked():
        config.update_from_flattened_dict(overrides)
        for key in [one.key for one in settings if not one.is_argument]:
            config.update_from_flattened_dict({key: _value(key, chosen[key], old=keys_of(config)[key])})
    return config


def keys_of(config):
    """The keys of a config with their values: ``{"optimizer.learning_rate": 0.1, ...}``."""
    return {key.replace("/", "."): value for key, value in trees.flatten(config.to_dict()).items()}


def _value(key, text, *, old):
    """The value that `text` stands for, of the type of the value `old`."""
    try:
        if isinstance(old, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(old, str):
            return text
        value = ast.literal_eval(text)
        if isinstance(old, int) and value != int(value):
            raise ValueError(f"{value} is no whole number")
        return type(old)(value)
    except (KeyError, ValueError, TypeError, SyntaxError) as error:
        raise errors.ConfigError(f"{key}={text}: it should be of type {type(old).__name__}, as {old!r} is") from error


def name_of(chosen):
    """The folder of a combination: ``learning_rate=1e-4,seed=0``."""
    return ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in chosen.items()).replace(os.sep, "_")


def ranked(records, *, mode):
    """The records ``{run: record}``, the one with the best figure first; a figure that is not finite is last."""
    sign = -1 if mode == "max" else 1
    return dict(sorted(records.items(), key=lambda item: (not math.isfinite(item[1]["best"]), sign * item[1]["best"])))


def table(records):
    """The Markdown table of a sweep: a line for each run, in the order of `records`."""
    first = next(iter(records.values()))
    header = [*first["arguments"], f"best {first['figure']}", "at step", "parameters", "trained", "minutes"]
    body = [
        [*one["arguments"].values(), f"{one['best']:.4g}", f"{one['step']:,}"]
        + [f"{one['parameters']:,}", f"{one['trained']:,}", f"{one['seconds'] / 60:.1f}"]
        for one in records.values()
    ]
    return results.markdown(header, body)


def write(workdir, spec, *, records):
    """Writes WORKDIR/README.md: the table, and the learning curves of the best runs."""
    page = pages.Page(workdir, f"Sweep of {spec}")
    page.add(table(records))
    figure, runs = next(iter(records.values()))["figure"], {name: os.path.join(workdir, name) for name in records}
    best = dict(itertools.islice(runs.items(), len(style.COLORS)))
    page.curves("curves.png", f"{figure} over the steps", runs=best, figure=figure, label=figure)
    return [os.path.join(workdir, name) for name in page.write()]


def recorded(workdir, *, names):
    """``{run: record}`` of the runs `names` in WORKDIR that have a record.

    Raises:
        lwt.errors.DataError: none has one.
    """
    kept = {name: study.read_record(os.path.join(workdir, name), RECORD) for name in names}
    found = {name: record for name, record in kept.items() if record}
    if not found:
        raise errors.DataError(f"{workdir}: each of the {len(kept)} runs failed, as said above")
    return found


def measure(entry, folder):
    """The record of a run: its `comparison.Facts`, without the config."""
    del entry
    return {key: value for key, value in vars(comparison.facts(folder)).items() if key != "config"}


def main():
    """The program."""
    values, flag = flags.FLAGS, flags.FLAGS["config"]
    path = flag.config_filename.partition(":")[0]
    settings = parse(values.set or (), arguments=config_file.arguments(path), keys=[*keys_of(values.config)])
    chosen = {name_of(one): one for one in grid(settings)}
    configs = {
        name: config_of(flag.config_filename, one, settings=settings, overrides=flag.override_values)
        for name, one in chosen.items()
    }
    entries = [study.Entry(name, one, flag.config_filename) for name, one in chosen.items()]
    pages.make_folder(values.workdir)

    def run(entry):
        return study.run(entry, values.workdir, measure=measure, record=RECORD, config=configs[entry.name])

    failures = study.run_all(entries, run)
    for name, why in failures.items():
        print(f"failed: {name}: {' '.join(why.split())}", file=sys.stderr)
    found = recorded(values.workdir, names=chosen)
    found = ranked(found, mode=values.config.select_mode)
    written = write(values.workdir, flag.config_filename, records=found)
    LOG.info("%s\nwrote %s", table(found), ", ".join(written))
    best = next(iter(found))
    command_line.report({"run": os.path.join(values.workdir, best), **found[best]})
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    config_file.define()
    flags.DEFINE_multi_string("set", None, "KEY=VALUE,VALUE; the arguments without a flag are such settings.")
    flags.DEFINE_string("workdir", None, "Folder of the runs; the same command continues there.")
    positional.name("set")
    command_line.run(main, required=["config", "workdir"])
