"""The study of radar models.

    python -m studies.radar --workdir=runs/radar --out=docs/results/radar
    python -m studies.radar --workdir=runs/radar --only='^radar_har-(lh_vit|vit)' --seeds=1

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.radar import study

if __name__ == "__main__":
    studies.define_flags()
    flags.FLAGS.set_default("seeds", 1)
    studies.start(study.main)
