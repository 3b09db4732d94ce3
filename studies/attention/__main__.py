"""The study of attentions in whole models.

    python -m studies.attention --workdir=runs/attention --out=docs/results/attention_quality
    python -m studies.attention --workdir=runs/attention --only='^translation-(softmax|kv_projection)'

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.attention import study

if __name__ == "__main__":
    studies.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")
    studies.start(study.main)
