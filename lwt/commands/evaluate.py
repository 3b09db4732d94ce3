"""Evaluates a run, or predicts with it.

    python eval.py --workdir=runs/mt --data=folder:multi30k_de_en@test2016_flickr
    python eval.py --workdir=runs/mt --split=validation --beams=4
    echo "ein mann schläft ." | python eval.py --workdir=runs/mt --predict=-
    python eval.py --workdir=runs/tickets --predict=new.csv --scores --threshold=0.8 --out=answered.csv
    python eval.py --workdir=runs/tickets --calibrate
    python eval.py --workdir=runs/snips --weights=runs/snips/export/int8.safetensors    # see lwt/export/quantize.py

The last line of an evaluation is one JSON object; WORKDIR/eval/ keeps it, with the best and worst outputs beside it.

``--predict=FILE`` (``lwt predict FILE``) prints one answer per line. With ``--scores``, ``--threshold`` or ``--out``,
records come out as a file of the same format with columns added: prediction, score (its probability), abstained (with
``--threshold``) and, with ``--scores``, score_CLASS for each class. For a file of lines, a tab and the score follow
each answer. For images, FILE is an image, a folder of images (each line then begins with the path), or a file of paths.
"""

import logging
import sys

from absl import flags

from lwt import errors
from lwt.machine import command_line

LOG = logging.getLogger(__name__)


def define():
    """Declares the flags."""
    flags.DEFINE_string("workdir", None, "Folder of a run, or of a bundle.")
    flags.DEFINE_string("split", "", "Another split of the run's test set; or validation, or test (the default).")
    flags.DEFINE_string("data", "", "Another data set, KIND:NAME@SPLIT.")
    flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
    flags.DEFINE_string("base", "", "Folder of the run that --workdir adapts; default: as recorded, or beside it.")
    flags.DEFINE_string("weights", "", "A file of lwt.export.quantize that replaces the weights.")
    flags.DEFINE_string(
        "predict",
        "",
        "A file to answer: lines, or records (.jsonl, .csv, .tsv, .parquet); an image or a folder of images; - for "
        "standard input.",
    )
    flags.DEFINE_string("out", "", "With --predict: the file to write; default: standard output.")
    flags.DEFINE_boolean("scores", False, "With --predict: add the probability of each class.")
    flags.DEFINE_float(
        "threshold", None, "With --predict: give no answer below this probability.", lower_bound=0, upper_bound=1
    )
    flags.DEFINE_boolean(
        "calibrate",
        False,
        "First fit the temperature of the probabilities to the validation set, and keep it in the run.",
    )
    flags.DEFINE_integer(
        "beams", None, "Beam size, 1 is greedy; default: the config's.", lower_bound=1, upper_bound=1000
    )
    flags.DEFINE_float("temperature", None, "Sample at this temperature.", lower_bound=0)
    flags.DEFINE_integer("top_k", None, "Sample from the k likeliest tokens only.", lower_bound=0)
    flags.DEFINE_float("top_p", None, "Sample from the likeliest tokens of this total probability.", lower_bound=0)


def main():
    """The program."""
    from lwt.runs import answers  # after jax.distributed has begun
    from lwt.runs import experiment as door

    values = flags.FLAGS
    if values.predict:
        command_line.show_log(sys.stderr)  # standard output holds the answers alone
    for excluded in ("split", "data"):
        command_line.at_most_one("predict", excluded)
    for names in (
        ("split", "data"),
        ("weights", "calibrate"),
        ("beams", "temperature"),
        ("beams", "top_k"),
        ("beams", "top_p"),
    ):
        command_line.at_most_one(*names)
    if not values.predict:
        command_line.refuse(("out", "scores", "threshold"), where="without --predict")
    given = {name: values[name].value for name in ("beams", "temperature", "top_k", "top_p")}
    decoding = {name: value for name, value in given.items() if value is not None}
    experiment = door.load(values.workdir, checkpoint=values.checkpoint, base=values.base, decoding=decoding)
    if (values.top_k or values.top_p) and not experiment.task.temperature:
        raise errors.ConfigError("--top_k and --top_p restrict sampling: give --temperature too")
    if values.weights:
        experiment = experiment.with_file(values.weights)
    if values.calibrate:
        LOG.info("calibrated: %s", experiment.calibrate())
    if values.predict:
        wanted = answers.Wanted(scores=values.scores, threshold=values.threshold)
        experiment.predict_file(values.predict, out=values.out, wanted=wanted)
    else:
        command_line.report(experiment.report(split=values.split, data=values.data))


if __name__ == "__main__":
    define()
    command_line.run(main, required=["workdir"])
