"""The study of LoRA ranks on a trained translator.

    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --out=docs/results/lora_ranks
    python -m studies.lora_ranks --base=pretrained/multi30k --workdir=runs/ranks --report_only

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.lora_ranks import study

if __name__ == "__main__":
    studies.define_flags(smoke=False)
    flags.DEFINE_string("base", None, "Workdir or bundle of the trained base.")
    flags.DEFINE_string("arguments", "", "More arguments of every run: 'steps=500,rate=0.002'.")
    studies.start(study.main, required=["base"])
