"""LoRA of a pretrained text encoder, here and in PEFT with transformers.

    python -m studies.pretrained --base=hf:all-MiniLM-L6-v2 --workdir=runs/pretrained --out=docs/results/pretrained
    python -m studies.pretrained --base=hf:all-MiniLM-L6-v2 --workdir=runs/pretrained --only='^snips'

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.pretrained import study

if __name__ == "__main__":
    studies.define_flags()
    flags.DEFINE_string("base", None, "The encoder, hf:FOLDER: config.json, model.safetensors and tokenizer.json.")
    studies.start(study.main, required=["base"])
