"""The study of Vertical LoRA.

    python -m studies.vertical --workdir=runs/vertical                              # the paper's size: a GPU
    python -m studies.vertical --workdir=runs/small --size=small --epochs=10        # two cores

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.vertical import study

if __name__ == "__main__":
    studies.define_flags()
    flags.FLAGS.set_default("seeds", 1)
    flags.DEFINE_enum("size", "paper", ["paper", "small"], "Size of the model of images.")
    flags.DEFINE_float("epochs", 0.0, "Epochs of the training on images; 0: those of the size.", lower_bound=0)
    studies.start(study.main)
