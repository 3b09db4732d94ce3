"""Measures variants of training, adapting, decoding, pre-training or a ViT in turn, A B A B.

Prints one JSON line per variant. With ``--out=FOLDER`` it also updates that folder's ``results.json`` and page.
"""

import argparse
import datetime
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

from benchmarks import common, harness, parsing, speed_page
from benchmarks.work import image_samples
from lwt import errors
from lwt.machine import command_line, hardware
from lwt.report import results

EXAMPLES = (
    "python -m benchmarks.run --what=train --out=docs/results/speed",
    "python -m benchmarks.run --what=vit --variants='lwt|plain$' --rounds=3 --size=small",
    "python -m benchmarks.run --what=train,adapter,decode,pretrain,vit --device=gpu --variants='bf16|bfloat16'",
    "python -m benchmarks.run --report_only --out=docs/results/speed",
)

# The registry of variants; `harness.module_of` gives the worker module, which takes `--variant=VARIANT`.
DEFAULTS = {
    "train": {
        "torch_translation": ("plain", "plain+compiled", "real_loss", "unpadded", "unpadded+compiled"),
        "lwt_translation": ("float32",),
    },
    "adapter": {
        "torch_peft": ("lora:plain", "lora:real_loss", "lora:unpadded", "full:real_loss"),
        "lwt_adapter": ("lora:float32", "full:float32"),
    },
    "decode": {
        "torch_decode": ("eager", "compiled"),
        "ctranslate2_decode": ("float32", "int8"),
        "lwt_decode": ("float32",),
    },
    "pretrain": {
        "torch_pretrain": tuple(
            f"{model}:{form}"
            for model in ("embbert", "bert_2mb")
            for form in ("published", "gathered", "gathered+compiled", "gathered+bf16")
        ),
        "lwt_pretrain": ("embbert:float32", "embbert:bfloat16", "bert_2mb:float32", "bert_2mb:bfloat16"),
    },
    "vit": {
        "torch_vit": ("vit:timm", "vit:plain", "vit:plain+compiled", "vit:plain+bf16"),
        "lwt_vit": ("vit:float32", "vit:bfloat16", "vlora:float32", "vlora:bfloat16"),
    },
}
JAX = f"JAX {importlib.metadata.version('jax')}"  # lwt's speed differs between versions
NAMES = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")  # of the GPUs
# Measured only when --variants names them.
MORE = {
    "train": {
        "torch_translation": (
            "plain+bf16", "plain+compiled+bf16", "real_loss+compiled", "real_loss+bf16", "real_loss+compiled+bf16",
            "unpadded+bf16", "unpadded+compiled+bf16", "real_loss+graphs+bf16", "unpadded+graphs+bf16",
        ),
        "lwt_translation": ("bfloat16",),
    },
    "adapter": {
        "torch_peft": (
            "lora:plain+compiled", "lora:real_loss+compiled", "lora:unpadded+compiled", "lora:plain+bf16",
            "lora:real_loss+bf16", "lora:real_loss+compiled+bf16", "lora:unpadded+bf16", "lora:unpadded+compiled+bf16",
            "full:plain", "full:unpadded", "full:real_loss+compiled", "full:real_loss+bf16",
            "full:real_loss+compiled+bf16", "full:unpadded+compiled+bf16", "lora:unpadded+graphs+bf16",
            "full:unpadded+graphs+bf16",
        ),
        "lwt_adapter": ("lora:bfloat16", "full:bfloat16"),
    },
    "decode": {"torch_decode": ("eager+bf16", "compiled+bf16", "graphs+bf16"), "lwt_decode": ("bfloat16",)},
    "pretrain": {
        "torch_pretrain": tuple(
            f"{model}:{form}+bf16"
            for model in ("embbert", "bert_2mb")
            for form in ("published", "published+compiled", "gathered+compiled", "published+graphs", "gathered+graphs")
        ),
    },
    "vit": {
        "torch_vit": ("vit:timm+compiled", "vit:timm+bf16", "vit:timm+compiled+bf16", "vit:plain+compiled+bf16",
            "vit:plain+graphs+bf16",
        ),
    },
}  # fmt: skip
# The module that fills the cache with batches ("": nothing to fill), and its default data.
PREPARE = dict.fromkeys(("train", "adapter", "decode"), ("work.samples", "folder:mt_de_en_train")) | {
    "pretrain": ("work.text_samples", "folder:english_novels_lm"),
    "vit": ("", image_samples.DATA),
}


def commands(what, *, pattern="", extra=(), device="cpu", python=""):
    """``{variant name: command line of its worker}`` of the default variants, or of those that a pattern matches.

    Args:
        what: a key of `DEFAULTS`.
        pattern: a regular expression over all variants; "" selects the defaults.
        extra: flags that every worker gets.
        device: one of `common.DEVICES`; CTranslate2 is measured on the CPU alone, CUDA graphs on a GPU alone.
        python: what runs the workers of the other libraries; "": this Python, which runs those of lwt.

    Raises:
        SystemExit: the pattern matches nothing.
    """
    registered = [DEFAULTS[what], MORE[what]] if pattern else [DEFAULTS[what]]
    pairs = [(module, variant) for part in registered for module, variants in part.items() for variant in variants]
    known = {
        f"{module}/{variant}": (module, variant)
        for module, variant in pairs
        if ("graphs" not in variant if device == "cpu" else not module.startswith("ctranslate2"))
    }
    chosen = {name: entry for name, entry in known.items() if re.search(pattern, name)}
    if not chosen:
        raise SystemExit(f"--variants={pattern} matches none of {', '.join(known)}")
    found = {}
    for name, (module, variant) in chosen.items():
        program = sys.executable if module.startswith("lwt_") or not python else python
        flags = (f"--variant={variant}", f"--device={device}", *extra)
        found[name] = [program, "-m", harness.module_of(module), *flags]
    return found


def machine(device="cpu"):
    """The GPU's name, or the processor with the threads used and any preloaded library; then JAX's version.

    Raises:
        errors.DataError: there is no NVIDIA GPU.
    """
    if device == "gpu":
        try:
            answer = subprocess.run(NAMES, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise errors.DataError(f"--device=gpu: {' '.join(NAMES)} finds no NVIDIA GPU") from error
        return f"{answer.splitlines()[0]}, {JAX}"
    preloaded = os.environ.get("LD_PRELOAD", "")
    suffix = f", with {os.path.basename(preloaded)} preloaded" if preloaded else ""
    return f"{hardware.processor()}, {common.THREADS} threads of {os.cpu_count()} cores, {JAX}{suffix}"


def rows(what, lines, *, flags):
    """Rows for ``results.json``, one per variant and figure.

    Args:
        what: a key of `DEFAULTS`.
        lines: from `harness.interleave`.
        flags: of the work, from `prepare`.
    """
    figures = ("tokens_per_second", "positions_per_second", "examples_per_second", "step_seconds")
    figures += ("peak_bytes", "second_peak_bytes")
    return [
        {
            "config": f"benchmarks/{what}",
            "overrides": {"variant": line["variant"]} | ({} if finite(line) else {"finite": False}),
            "seed": 0,
            "split": flags.data,
            "metric": metric,
            "value": line[metric],
            "range": line.get(f"{metric}_range"),
            "paper": None,
            "hardware": machine(flags.device),
            "seconds": line["step_seconds"] * flags.steps * line["rounds"],
            "command": f"python -m benchmarks.run {shlex.join(sys.argv[1:])}",
            "date": datetime.date.today().isoformat(),
        }
        for line in lines
        for metric in figures
        if metric in line
    ]


def finite(line):
    """Whether the loss of a line of `harness.interleave` is a number; also if it has none, as in decoding."""
    return math.isfinite(line.get("loss", 0.0))


def write(folder, new):
    """Adds rows to a folder's ``results.json`` and writes its ``README.md``.

    New rows replace all older ones of the same work, hardware and version of JAX: a machine's speed changes from day
    to day, so a table holds what one command measured.
    """
    folder = pathlib.Path(folder)
    path = folder / "results.json"
    replaced = {(row["config"], row["hardware"]) for row in new}
    old = results.load(path) if path.exists() else []
    rows = [row for row in old if (row["config"], row["hardware"]) not in replaced] + new
    results.write(path, rows)
    (folder / "README.md").write_text(speed_page.page(rows), encoding="utf-8")


def main():
    parser = parsing.Parser(f"{__doc__}\nFlags not listed here go to the workers.", examples=EXAMPLES)
    text = f"the workloads to measure, of {', '.join(DEFAULTS)}, with commas; required without --report_only"
    parser.add_argument("--what", type=parsing.names(DEFAULTS), help=text)
    text = "regular expression; default: the usual variants"
    parser.add_argument("--variants", type=parsing.pattern, default="", help=text)
    parser.add_argument("--list", action="store_true", help="print the names of all variants and exit")
    text = "turns of each process; on a CPU, a variant has two, one after the other"
    parser.add_argument("--rounds", type=parsing.whole(1), default=5, help=text)
    text = "steps per turn; default: 16 (decode: 1), on a GPU twice as many"
    parser.add_argument("--steps", type=parsing.whole(0), default=0, help=text)
    parser.add_argument(
        "--data", default="", help="folder:NAME under LWT_DATA; default: sentence pairs or running text (vit: none)"
    )
    parser.add_argument("--cache", default=common.CACHE, help="folder of tokenizers and batches")
    parser.add_argument("--batches", type=parsing.whole(1), default=16, help="number of different batches")
    text = "what all variants run on; gpu: one NVIDIA GPU, with builds of JAX and PyTorch for CUDA"
    parser.add_argument("--device", choices=common.DEVICES, default="cpu", help=text)
    text = "Python of another environment, for the workers of PyTorch and CTranslate2; default: this one"
    parser.add_argument("--torch_python", default="", help=text)
    parser.add_argument("--out", default="", help="folder of results.json and its page")
    parser.add_argument(
        "--report_only", action="store_true", help="only rewrite the page of --out from its results.json"
    )
    flags, more = parser.parse_known_args()
    if flags.report_only:
        if not flags.out:
            parser.error("--report_only needs --out, the folder of the page")
        write(flags.out, results.load(pathlib.Path(flags.out, "results.json")))
        return
    if not flags.what:
        parser.error("the following arguments are required: --what")
    if flags.list:
        print("\n".join(name for what in flags.what for name in commands(what, pattern=".")))
        return
    machine(flags.device)  # which fails before any work is done
    chosen, failures = {what: prepare(what, flags, more) for what in flags.what}, {}
    report = functools.partial(print, file=sys.stderr, flush=True)
    # On a GPU the variants of all workloads compile beside each other.
    for together in [flags.what] if flags.device == "gpu" else [[what] for what in flags.what]:
        every = {name: command for what in together for name, command in chosen[what][1].items()}
        with harness.started(every, failures=failures, device=flags.device, report=report) as workers:
            for what in together:
                own = {name: workers[name] for name in chosen[what][1] if name in workers}
                measure(what, own, failures=failures, flags=chosen[what][0], report=report)
    if failures:
        raise harness.WorkerError(f"not measured: {'; '.join(failures.values())}")


def prepare(what, flags, more):
    """``(flags, commands)`` of a work, whose batches are then in the cache.

    Args:
        what: a key of `DEFAULTS`.
        flags: of the program, for any work.
        more: flags of the workers.

    Raises:
        SystemExit: the batches cannot be made, or see `commands`.
    """
    module, data = PREPARE[what]
    flags = argparse.Namespace(**vars(flags) | {"data": flags.data or data, "steps": flags.steps or steps(what, flags)})
    work = (f"--data={flags.data}", f"--cache={flags.cache}", f"--batches={flags.batches}")
    given = dict(pattern=flags.variants, device=flags.device, python=flags.torch_python)
    chosen = commands(what, extra=(*work, *more), **given)
    if module and subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *work]).returncode:
        raise SystemExit("making the batches failed; see above")
    return flags, chosen


def steps(what, flags):
    """The usual number of steps per turn, more where they are short."""
    return (1 if what == "decode" else 16) * (2 if flags.device == "gpu" else 1)


def measure(what, workers, *, failures, flags, report):
    """Measures the workers of a work, prints a line for each, and updates the folder ``--out``.

    Workers that fail are left out and added to `failures`, as in `harness.started`.
    """
    given = dict(rounds=flags.rounds, steps=flags.steps)
    given |= dict(pause=harness.PAUSE, again=True) if flags.device == "cpu" else dict(pause=0)
    lines = harness.interleave(workers, failures=failures, report=report, **given)
    for line in sorted(lines, key=lambda line: -line[f"{speed_page.UNITS[what]}_per_second"]):
        print(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()}), flush=True)
    if flags.out and lines:
        write(flags.out, rows(what, lines, flags=flags))


if __name__ == "__main__":
    with command_line.guarded():
        main()
