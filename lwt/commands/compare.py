"""Compares runs: the keys in which their configs differ, their sizes, their best figures on the validation set, times.

    lwt compare runs/a runs/b
    lwt compare runs/a runs/b runs/c --figure=bleu --plot=bleu.png

prints a table, and draws the figure over the steps of training. The figures are those of metrics.jsonl; a run that was
made from another one, by pruning or by `lwt classify`, has no such file and is evaluated. The last line is one JSON
object.
"""

import logging
import os

from absl import flags

from lwt import errors
from lwt.commands import positional
from lwt.machine import command_line

LOG = logging.getLogger(__name__)


def main():
    """The program."""
    from lwt.inspect import comparison  # after jax.distributed has begun

    values = flags.FLAGS
    names = [os.path.normpath(folder) for folder in values.run or ()]
    if len({*names}) < 2:
        raise errors.ConfigError("give two runs or more: lwt compare runs/a runs/b")
    first = comparison.facts(names[0], values.figure)
    found = {names[0]: first} | {name: comparison.facts(name, first.figure) for name in names[1:]}
    LOG.info("%s", comparison.table(found))
    if comparison.draw({name: (name, one) for name, one in found.items()}, values.plot):
        LOG.info("wrote %s", values.plot)
    figures = ("figure", "best", "step", "parameters", "trained", "seconds")
    command_line.report({name: {key: getattr(one, key) for key in figures} for name, one in found.items()})


if __name__ == "__main__":
    flags.DEFINE_multi_string("run", None, "Folder of a run; the arguments without a flag are runs.")
    flags.DEFINE_string("figure", "", "The evaluation figure to compare; default: the one the first run selects by.")
    flags.DEFINE_string("plot", "comparison.png", "The file of the plot.")
    positional.name("run")
    command_line.run(main, required=[])
