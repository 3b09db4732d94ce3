"""The study of radar models.

    python -m studies.radar --workdir=runs/radar --out=docs/results/radar
    python -m studies.radar --workdir=runs/radar --only='radar_har-(lh_vit|vit)' --seeds=1

See `study.py` for more.
"""

from lwt.report import searched
from studies.radar import study

if __name__ == "__main__":
    searched.start(study.main)
