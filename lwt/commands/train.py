"""Trains the run of a config, or resumes it where it stopped.

    python train.py --config=configs/translation.py:data=multi30k --workdir=runs/mt
    python train.py --config=configs/translation.py --config.optimizer.learning_rate=0.5 --workdir=runs/slower
    python train.py --help --config=configs/translation.py          # its arguments, and all keys of the config

Arguments follow the name of the config. ``--config.KEY=VALUE`` changes a key. Ctrl-C saves the run, and the same
command continues it. The last line is one JSON object, the figures of the last evaluation on the validation set.
"""

import logging
import os

from absl import flags

from lwt.machine import command_line
from lwt.runs import config_file

LOG = logging.getLogger(__name__)


def main():
    """The program."""
    from lwt.training import train  # after jax.distributed has begun

    values = flags.FLAGS
    figures = train.run(values.config, values.workdir, stretch=values.stretch_schedule)
    folder = (
        os.path.join(values.workdir, min(values.config.tasks), "adapter") if values.config.tasks else values.workdir
    )
    LOG.info("finished %s; next: %s", values.workdir, command_line.as_called(f"python eval.py --workdir={folder}"))
    command_line.report(figures)


if __name__ == "__main__":
    config_file.define()
    flags.DEFINE_boolean("stretch_schedule", False, "Let a resumed run of another length stretch its schedule.")
    flags.DEFINE_string("workdir", None, "Folder of the run; resumes an unfinished run there.")
    command_line.run(main, required=["config", "workdir"])
