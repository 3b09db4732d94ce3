"""The study of adapters for small models.

    python -m studies.adapters --workdir=runs/adapters --out=docs/results/adapters
    python -m studies.adapters --workdir=runs/adapters --only=snips-ia3

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.adapters import study

if __name__ == "__main__":
    studies.define_flags()
    flags.DEFINE_string("encoder", "pretrained/embbert-tinynlp", "The text encoder: a run, a bundle or hf:FOLDER.")
    flags.DEFINE_string("translator", "pretrained/multi30k", "The translator: a run or a bundle.")
    studies.start(study.main)
