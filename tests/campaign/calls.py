"""Bad calls: a flag, a config key or a path with a value that means nothing; each ends with one line, exit code 2."""

import pathlib
import random

from tests.campaign import artefacts, programs, small

NUMBERS = ("foo", "nan", "inf", "-1", "")
INTEGERS = (*NUMBERS, "1.5")
PATHS = ("{own}/nowhere", "{made}/prompts.txt", "{made}", "/dev/null", "x" * 300)
DATA = ("foo", "folder:foo", "folder:", "generated:foo", "generated:arithmetic@foo", "foo:bar", "folder:{made}/run")
REGEXES = ("(", "foo", "[")
UNKNOWN = ("--foo=1", "foo", "--workdir")
RUN = "--workdir={made}/run"
OUT = "--out={own}/out"
PROGRAMS = {  # program -> arguments of a good call, {flag: bad values}
    ("eval.py", RUN): {
        "workdir": PATHS,
        "beams": (*INTEGERS, "0", "100000"),
        "temperature": NUMBERS,
        "top_k": INTEGERS,
        "top_p": (*NUMBERS, "1.5"),
        "checkpoint": ("foo", "-1", "99", "1.5"),
        "split": ("foo",),
        "data": DATA,
        "weights": PATHS,
        "predict": (*PATHS[:1], "{made}"),
    },
    ("lwt.export.bundle", RUN, OUT): {
        "workdir": PATHS,
        "out": ("/dev/null", "{made}/prompts.txt", "{made}/run"),
        "precision": ("foo", "int7", ""),
        "checkpoint": ("foo", "-1", "99"),
    },
    ("lwt.export.quantize", RUN, "--out={own}/out"): {
        "workdir": PATHS,
        "out": ("/dev/null/x", "{made}"),
        "format": ("foo", "int7"),
        "block": INTEGERS,
        "outliers": (*NUMBERS, "2"),
        "rest": ("foo", ""),
        "activations": ("foo",),
    },
    ("lwt.export.quantize", RUN, "--out={own}/out", "--activations=static", "--block=0"): {
        "calibrate": (*INTEGERS, "0"),
        "data": DATA,
    },
    ("lwt.export.c", RUN, OUT): {"workdir": ("{made}/run", *PATHS), "budget": (*INTEGERS, "0")},
    ("lwt.compress.structured", RUN, OUT, "--units=0.5", "--scores=magnitude"): {
        "workdir": PATHS,
        "heads": (*NUMBERS, "1.5"),
        "units": (*NUMBERS, "1", "1.5"),
        "layers": ("foo", "encoder/layer_9"),
        "modules": REGEXES,
        "scores": ("foo", ""),
        "examples": INTEGERS,
        "seed": INTEGERS,
    },
    ("lwt.compress.structured", RUN, OUT, "--units=0.5"): {"data": DATA},
    ("lwt.compress.factorise", RUN, OUT, "--rank=2"): {
        "workdir": PATHS,
        "rank": (*INTEGERS, "0", "100000"),
        "targets": REGEXES,
        "calibrate": INTEGERS,
    },
    ("lwt.compress.factorise", RUN, OUT): {"energy": (*NUMBERS, "0", "1.5"), "budget": (*NUMBERS, "0")},
    ("lwt.compress.sparsify", RUN, OUT, "--sparsity=0.5"): {
        "workdir": PATHS,
        "sparsity": (*NUMBERS, "1.5"),
        "scope": ("foo", ""),
        "targets": REGEXES,
    },
    ("lwt.compress.sparsify", RUN, OUT): {"pattern": ("foo", "3:2", "0:4", "2:0", "-1:4", "2:4:8", "nan:4")},
    ("lwt.compress.allocate_ranks", RUN, OUT, "--budget=0.5"): {
        "budget": (*NUMBERS, "0"),
        "max_rank": (*INTEGERS, "0"),
        "targets": REGEXES,
        "examples": INTEGERS,
        "data": DATA,
        "scores": ("foo",),
    },
    ("studies.inspection.spectra", RUN, OUT): {"workdir": PATHS, "weights": REGEXES},
    ("lwt.inspect.cost", artefacts.SMALL): {"rows": INTEGERS, "row_length": INTEGERS},
    ("lwt.export.torch.peft", "--workdir={made}/adapter", OUT): {"workdir": PATHS, "which": ("foo", "99")},
    ("lwt.export.torch.hf", "--workdir={made}/classifier", OUT): {"workdir": PATHS, "which": ("foo", "99")},
}
TRAIN = ("train.py", artefacts.SMALL, "--config.steps=2", "--workdir={own}/run")
BY_TYPE = {  # type of a config's value -> bad values
    bool: ("maybe", "2", "on off"),
    int: ("foo", "nan", "1.5", "-1", "1e3"),
    float: ("foo", "nan", "inf", "-1"),
    str: ("foo",),
    tuple: ("foo", "(1,2)", "('foo',)", "(", "((1,2),)"),
}
GOOD = {  # values of `BY_TYPE` that mean something, or of keys that this run does not read
    "data.clean.characters=foo",
    "data.label=foo",
    "data.masking=foo",
    "mesh.data=-1",
    "profile_steps=(1,2)",
}
ARGUMENTS = (  # of --config
    *("kind=foo", "foo=1", "kind", "=", "kind=pairs,kind=pairs", "base={made}/nowhere", "base={made}", "teacher=foo"),
    *("kind=labelled", "kind=labelled,data=foo", "kind=images,data=folder:{made}/texts"),
    *("kind=labelled,data=folder:{made}/images", "kind=labelled,data=folder:{made}/nowhere"),
)
KEYS = {  # further bad values of single keys
    "seed": ("99999999999999999999",),
    "steps": ("0",),
    "epochs": ("1e400",),
    "data.rows": ("0", "7x"),
    "data.row_length": ("0", "1"),
    "data.eval_batch": ("0",),
    "data.tokenizer.vocabulary": ("0", "99999999999"),
    "data.max_malformed": ("2",),
    "data.min_tokens": ("100",),
    "data.cut": ("middel",),
    "optimizer.learning_rate": ("0",),
    "optimizer.accumulate": ("0", "3"),
    "precision": ("float16",),
    "select_mode": ("mean",),
    "data.tokenizer.path": PATHS,
    "init_from": PATHS,
    "data.train": DATA,
    "data.validation": DATA,
    "data.test": DATA,
    "model.width": ("0", "33"),
    "model.heads": ("0", "3"),
    "workdir": ("x" * 300, "/dev/null", "{made}/prompts.txt"),
}


def everything():
    """All bad calls, each once: tuples of arguments with {made} and {own} to fill in."""
    found = []
    for (program, *arguments), flags in PROGRAMS.items():
        found += [[program, *arguments, f"--{flag}={value}"] for flag, values in flags.items() for value in values]
        found += [[program, *arguments, wrong] for wrong in UNKNOWN]
        found += [[program, *arguments[1:]]]
    found += [[TRAIN[0], f"{TRAIN[1]}:{argument}", *TRAIN[2:]] for argument in ARGUMENTS]
    for key, value in leaves(small.get_config()):
        for bad in (*BY_TYPE.get(type(value), ()), *KEYS.get(key, ())):
            if f"{key}={bad}" not in GOOD:
                found.append([*TRAIN, f"--config.{key}={bad}"])
    found += [[*TRAIN, f"--workdir={path}"] for path in KEYS["workdir"]]
    found += [[*TRAIN, wrong] for wrong in ("--config.foo=1", "--config.data.foo=1", "--config.steps", *UNKNOWN)]
    return list(dict.fromkeys(map(tuple, found)))


def leaves(config, prefix=""):
    """``(dotted key, value)`` of all values of a config."""
    for key, value in config.items():
        if hasattr(value, "items"):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def run(count, *, seed, made, folder):
    """Yields ``(case, fault)`` for each of `count` bad calls; the fault is empty if the promise held.

    Args:
        made: the `artefacts.Artefacts`.
        folder: an empty folder for the cases.
    """
    artefacts.prompts(made.folder)
    cases = everything()
    random.Random(seed).shuffle(cases)
    for number, case in enumerate(cases[:count]):
        own = pathlib.Path(folder, f"call-{number}")
        own.mkdir(parents=True)
        arguments = [made.filled(argument).replace("{own}", str(own)) for argument in case]
        outcome = programs.run(*arguments)
        accepted = "silent: accepted" if outcome.code == 0 else ""
        yield " ".join(case), outcome.fault or accepted
