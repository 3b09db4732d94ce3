"""Trains the run of a config, or resumes it where it stopped.

python train.py --config=configs/translation.py:data=multi30k --workdir=runs/mt
python train.py --config=configs/translation.py --config.optimizer.learning_rate=0.5 --workdir=runs/slower
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the program handles Ctrl-C itself, it ends without a traceback

from absl import flags

from lwt.machine import command_line
from lwt.runs import config_file

_CONFIG = config_file.define()
_STRETCH = flags.DEFINE_boolean("stretch_schedule", False, "Let a resumed run of another length stretch its schedule.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; resumes an unfinished run there.")


def main():
    from lwt.training import train

    command_line.report(train.run(_CONFIG.value, _WORKDIR.value, stretch=_STRETCH.value))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"])
