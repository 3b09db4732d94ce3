"""Evaluates a run, or predicts with it.

    python eval.py --workdir=runs/mt --data=folder:multi30k_de_en@test2016_flickr
    python eval.py --workdir=runs/mt --split=validation --beams=4
    echo "ein mann schläft ." | python eval.py --workdir=runs/mt --predict=-

The last line of an evaluation is one JSON object, also written to WORKDIR/eval/, with the best and worst outputs beside it.
"""

from absl import flags

from lwt.training import command

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run.")
_SPLIT = flags.DEFINE_string("split", "", "Another split of the run's test set; or validation, or test (the default).")
_DATA = flags.DEFINE_string("data", "", "Another data set, KIND:NAME@SPLIT.")
_CHECKPOINT = flags.DEFINE_string("checkpoint", "best", "best, last or a step.")
_PREDICT = flags.DEFINE_string("predict", "", "A file to answer line by line, or - for standard input.")
_BEAMS = flags.DEFINE_integer("beams", 0, "Beam size; 1 is greedy decoding, 0 is what the config says.")


def main():
    from lwt.training import experiment

    found = experiment.load(_WORKDIR.value, checkpoint=_CHECKPOINT.value, beams=_BEAMS.value)
    if _PREDICT.value:
        found.predict_file(_PREDICT.value)
    else:
        command.report(found.report(split=_SPLIT.value, data=_DATA.value))


if __name__ == "__main__":
    command.run(main, required=["workdir"])
