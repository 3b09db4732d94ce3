"""The study of EmbBERT-Q, its baselines and ablations.

    python -m studies.embbert --workdir=runs/embbert
    python -m studies.embbert --workdir=runs/embbert --suite=tinynlp --models=embbert,bert_2mb

See `study.py` for more.
"""

from absl import flags

from lwt.report import study as studies
from studies.embbert import labelled, starts, study

if __name__ == "__main__":
    studies.define_flags(smoke=False)
    flags.DEFINE_string("suite", "all", "tinynlp, glue or all.")
    flags.DEFINE_list("models", [], "Models, separated by commas; none: all of configs/embbert_pretrain.py.")
    flags.DEFINE_list(
        "starts",
        ["pretrained"],
        f"How models that the paper pre-trains start: {', '.join(starts.STARTS)}.",
    )
    flags.DEFINE_list("splits", ["own"], "Splits of TinyNLP: own, those of the data; code, those of the authors' code.")
    flags.DEFINE_string("encoder", labelled.ENCODER, "The larger model of small_labelled: hf:NAME or hf:FOLDER.")
    flags.DEFINE_string("more", "", "More arguments of every fine-tuning: 'rate=0.001,precision=bfloat16'.")
    studies.start(study.main)
