"""The study of Vertical LoRA: see `study.py`, which lists the commands."""

from absl import flags

from lwt.report import study as studies
from studies.vertical import study

if __name__ == "__main__":
    studies.define_flags()
    flags.FLAGS.set_default("seeds", 1)
    flags.DEFINE_enum("size", "paper", ["paper", "small"], "Of the images' model.")
    flags.DEFINE_float("epochs", 0.0, "Of the images' training; 0: the size's own.", lower_bound=0)
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each: to see that all runs.")
    studies.start(study.main)
