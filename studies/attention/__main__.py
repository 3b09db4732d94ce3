"""The study of attentions in whole models: see `study.py`, which lists the commands."""

from absl import flags

from lwt.report import study as studies
from studies.attention import study

if __name__ == "__main__":
    studies.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each: to see that all runs.")
    studies.start(study.main)
