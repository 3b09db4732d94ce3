"""Configs in their smoke mode, on data that lie here: what the files of tests beside this one have in common.

A smoke run builds, takes two steps, evaluates, saves and resumes. Model, task and optimizer are the config's own; the
data are a few records, the batch and the vocabulary tiny (`common.smoke`).
"""

import json
import pathlib

from lwt.runs import checkpoint, config_file
from lwt.training import train

ROOT = pathlib.Path(__file__).parents[2]
PAIRS = f"folder:{ROOT}/tests/fixtures/de_en"
TRANSLATION = dict(train=PAIRS, validation=f"{PAIRS}@validation", test=f"{PAIRS}@test")


def small(spec):
    """A config in its smoke mode, on data that lie here; ten or so examples to evaluate on."""
    config = config_file.load(f"{ROOT}/configs/{spec},smoke=true")
    if config.data.train.startswith("generated:"):
        made = config.data.train.replace(",size=60000", "")
        config.data.update(validation=f"{made},size=8@validation", test=f"{made},size=12@test")
    else:
        config.data.update(TRANSLATION)
    return config


def encoder(spec, *, rows=8):
    """A config of a text encoder in its smoke mode, with short rows."""
    config = config_file.load(f"{ROOT}/configs/{spec},vocabulary=200,smoke=true")
    config.data.tokenizer.vocabulary, config.data.rows, config.data.eval_batch = 200, rows, 8
    config.data.row_length = 16  # one length, so that little is compiled
    return config


def steps_of(workdir):
    """Steps with training figures and with validation figures in metrics.jsonl, and those of the checkpoints."""
    rows = [json.loads(line) for line in (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()]
    train, validation = ([r["step"] for r in rows if f"{kind}/loss" in r] for kind in ("train", "validation"))
    return train, validation, checkpoint.Checkpoints(f"{workdir}/checkpoints").steps()


def cycle(config, workdir):
    """Two steps, and a third one after starting again."""
    figures = train.run(config, str(workdir))
    assert figures["loss"] > 0 and steps_of(workdir) == ([1, 2], [1, 2], [1, 2])
    config.steps, config.keep_last = 3, 3
    train.run(config, str(workdir), stretch=True)
    assert steps_of(workdir) == ([1, 2, 3], [1, 2, 3], [1, 2, 3])
