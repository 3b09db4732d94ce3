"""A teacher far larger than EmbBERT: a sentence encoder of 22.7 M weights that is fine-tuned on a task and then labels
variants of its training texts (`lwt/compress/label_set.py`)."""

import os
import pathlib

from lwt import files
from lwt.compress import label_set
from lwt.runs import config_file, experiment

MODEL = "minilm"  # all-MiniLM-L6-v2, in the names of the runs
ENCODER = "hf:sentence-transformers/all-MiniLM-L6-v2"
TUNING = "configs/finetune.py"
RECORDS = 30_000  # variants to draw for a task
# How a model learns from the teacher's outputs. Validation MCC on nlu with share 0.9, four epochs: 89.2, eight: 89.7;
# share 0.5, four epochs: 88.9; temperature 1: 88.5; from its labels alone: 88.5
LEARNING = {"reads": "whole", "share": 0.9}
FIRST = {"rte": "mnli"}  # a task -> the larger one of the same kind on which its teacher is trained before


def teachers_of(task):
    """The arguments of the fine-tunings that lead to the teacher of a task, in order."""
    tasks = [FIRST[task], task] if task in FIRST else [task]
    return [{"model": MODEL, "start": "pretrained", "task": one, "seed": 0} for one in tasks]


def tuning_of(arguments, *, encoder, first=""):
    """``key: value`` of `TUNING` for a teacher.

    Args:
        arguments: of the run.
        encoder: the model that it starts from.
        first: the finished run that it starts from instead, for the tasks of `FIRST`.
    """
    task, known = arguments["task"], config_file.module("configs/embbert_finetune.py")
    epochs = config_file.module(TUNING).BERT_EPOCHS["full"]
    return {
        "base": first or encoder,
        "data": known.embbert_pretrain.data_of(task),
        "task": "regress" if task == "stsb" else "classify",
        "epochs": epochs / (2 if task in known.LARGE else 1),
        "leak_free": "true",
        "precision": "bfloat16",
        "seed": arguments["seed"],
    }


def folder_of(task, workdir):
    """The folder of the labelled set of a task."""
    return os.path.join(workdir, f"{task}-{MODEL}-labelled")


def make(task, teacher, workdir):
    """Writes the labelled set of a task unless it is there; `teacher` is the folder of the finished run."""
    label_set.write(experiment.load(teacher), folder_of(task, workdir), records=RECORDS)


def share_outputs(folder, others):
    """Copies tables of the teacher's outputs (`training/teaching.py`) to a run from the `others`, its other seeds."""
    for other in others:
        for table in pathlib.Path(other).glob("teacher_*.npy"):
            if not pathlib.Path(folder, table.name).exists():
                files.copy(table, pathlib.Path(folder, table.name))
