"""The study of attentions in whole models.

    python -m studies.attention --workdir=runs/attention --out=docs/results/attention_quality
    python -m studies.attention --workdir=runs/attention --only='^translation-(softmax|kv_projection)'

See `study.py` for more.
"""

from lwt.report import searched
from studies.attention import study

if __name__ == "__main__":
    searched.start(study.main)
