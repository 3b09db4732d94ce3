"""lwt: lightweight transformers in JAX.

One alphabet names the axes everywhere, in annotations, einsums and prose:

    b batch   t target (query) position   s source (key) position   d model width
    h head    k head width                f hidden width            v vocabulary
    c classes r rank                      l layer                   n patches

The one idea behind the package: a model is ``f(weights, batch)``, and a light method is a pure map
``weights = expand(params, step)`` from what is stored and trained to what the model multiplies with.
See ``docs/design/``.
"""

import importlib
import os
import re
import signal
import sys

__version__ = "0.1.0"

# `python -m lwt...`: until the program handles Ctrl-C itself, it ends without a traceback. Others stay as they are.
if sys.argv[:1] == ["-m"] and re.search(r" -m ?(lwt|studies|benchmarks)\b", " ".join(sys.orig_argv)):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lwt.machine import memory

    memory.tune()  # it may restart the program, which costs least before the program's imports


Classifier: type  # see lwt/estimators/; `__getattr__` imports them when they are used
Regressor: type


def __getattr__(name):
    """`Classifier` and `Regressor`, imported late."""
    if name not in ("Classifier", "Regressor"):
        raise AttributeError(f"module 'lwt' has no attribute {name!r}")
    return importlib.import_module("lwt.estimators.saved").KINDS[name]


def load(workdir, *, checkpoint="best", base="", adapters=None, capacity=0):
    """Opens a run, a bundle or an adapter as an `lwt.runs.experiment.Experiment`, ready to predict and evaluate.

    It has ``.model``, ``.weights``, ``.tokenizer``, ``.predict([...])`` and ``.evaluate()``. What a `Classifier` or a
    `Regressor` saved is opened as such; its ``experiment_`` is the experiment.

    Args:
        workdir: the folder given to ``train.py --workdir``, or one that a method or ``lwt.export.bundle`` wrote.
        checkpoint: ``"best"``, ``"last"`` or a step; a bundle and an adapter have only one.
        base: the run that an adapter run started from, if it is neither where it was nor beside it: its folder, or the
            experiment that `load` returned for it, which many adapters can share.
        adapters: ``{name: folder}`` of adapters on `workdir`, so that ``.predict(texts, adapters=names)`` answers each
            text with its own, all in one batch; ``.adapters.add(name, folder)`` adds more.
        capacity: the number of adapters to reserve room for; 0: those of `adapters`.

    Raises:
        lwt.errors.ConfigError: the adapters do not fit into one stack; says what differs.
        lwt.errors.CheckpointError: nothing can be loaded from ``workdir``; the message says what is there.
    """
    from lwt.runs import experiment  # imported late: `import lwt` alone must not cost two seconds of jax

    options = {"checkpoint": checkpoint, "base": base, "adapters": adapters, "capacity": capacity}
    if os.path.exists(os.path.join(workdir, "estimator.json")) and not adapters:
        return importlib.import_module("lwt.estimators.saved").load(workdir, **options)
    return experiment.load(workdir, **options)
