"""Evaluates a run, or predicts with it.

    python eval.py --workdir=runs/mt --data=folder:multi30k_de_en@test2016_flickr
    python eval.py --workdir=runs/mt --split=validation --beams=4
    echo "ein mann schläft ." | python eval.py --workdir=runs/mt --predict=-
    python eval.py --workdir=runs/tickets --predict=new.csv --scores --threshold=0.8 --out=answered.csv
    python eval.py --workdir=runs/tickets --calibrate
    python eval.py --workdir=runs/snips --weights=runs/snips/export/int8.safetensors    # see lwt/export/quantize.py

The last line of an evaluation is one JSON object; WORKDIR/eval/ keeps it, with the best and worst outputs beside it.

``--predict`` prints one answer a line. With ``--scores``, ``--threshold`` or ``--out``, records come out as a file of
the same format with columns added: prediction, score (its probability), abstained (with ``--threshold``) and, with
``--scores``, score_CLASS for each class. Of lines, each answer is followed by a tab and its score.
"""

import logging
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the program handles Ctrl-C itself, it ends without a traceback


from absl import flags

from lwt import errors
from lwt.machine import command_line

LOG = logging.getLogger(__name__)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run, or of a bundle.")
_SPLIT = flags.DEFINE_string("split", "", "Another split of the run's test set; or validation, or test (the default).")
_DATA = flags.DEFINE_string("data", "", "Another data set, KIND:NAME@SPLIT.")
_CHECKPOINT = flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
_BASE = flags.DEFINE_string("base", "", "Folder of the run that --workdir adapts; default: as recorded, or beside it.")
_WEIGHTS = flags.DEFINE_string("weights", "", "A file of lwt.export.quantize that replaces the weights.")
_PREDICT = flags.DEFINE_string(
    "predict", "", "A file to answer: lines, or records (.jsonl, .csv, .tsv, .parquet); - for standard input."
)
_OUT = flags.DEFINE_string("out", "", "With --predict: the file to write; default: standard output.")
_SCORES = flags.DEFINE_boolean("scores", False, "With --predict: add the probability of each class.")
_THRESHOLD = flags.DEFINE_float(
    "threshold", None, "With --predict: give no answer below this probability.", lower_bound=0, upper_bound=1
)
_CALIBRATE = flags.DEFINE_boolean(
    "calibrate", False, "First fit the temperature of the probabilities to the validation set, and keep it in the run."
)
_BEAMS = flags.DEFINE_integer(
    "beams", None, "Beam size, 1 is greedy; default: the config's.", lower_bound=1, upper_bound=1000
)
_TEMPERATURE = flags.DEFINE_float("temperature", None, "Sample at this temperature.", lower_bound=0)
_TOP_K = flags.DEFINE_integer("top_k", None, "Sample from the k likeliest tokens only.", lower_bound=0)
_TOP_P = flags.DEFINE_float("top_p", None, "Sample from the likeliest tokens of this total probability.", lower_bound=0)


def main():
    from lwt.runs import answers  # after jax.distributed has begun
    from lwt.runs import experiment as door

    if _PREDICT.value:
        command_line.show_log(sys.stderr)  # standard output holds the answers alone
    for excluded in ("split", "data"):
        command_line.at_most_one("predict", excluded)
    for names in (("split", "data"), ("beams", "temperature"), ("beams", "top_k"), ("beams", "top_p")):
        command_line.at_most_one(*names)
    if not _PREDICT.value:
        command_line.refuse(("out", "scores", "threshold"), where="without --predict")
    flags_given = {
        "beams": _BEAMS.value,
        "temperature": _TEMPERATURE.value,
        "top_k": _TOP_K.value,
        "top_p": _TOP_P.value,
    }
    decoding = {name: value for name, value in flags_given.items() if value is not None}
    experiment = door.load(_WORKDIR.value, checkpoint=_CHECKPOINT.value, base=_BASE.value, decoding=decoding)
    if (_TOP_K.value or _TOP_P.value) and not experiment.task.temperature:
        raise errors.ConfigError("--top_k and --top_p restrict sampling: give --temperature too")
    if _WEIGHTS.value:
        experiment = experiment.with_file(_WEIGHTS.value)
    if _CALIBRATE.value:
        LOG.info("calibrated: %s", experiment.calibrate())
    if _PREDICT.value:
        wanted = answers.Wanted(scores=_SCORES.value, threshold=_THRESHOLD.value)
        experiment.predict_file(_PREDICT.value, out=_OUT.value, wanted=wanted)
    else:
        command_line.report(experiment.report(split=_SPLIT.value, data=_DATA.value))


if __name__ == "__main__":
    command_line.run(main, required=["workdir"])
