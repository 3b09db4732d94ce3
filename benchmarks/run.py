"""Measures variants in turn, A B A B: ``python -m benchmarks.run --what=train|adapter|decode|pretrain|vit``.

Prints one JSON line a variant. With ``--out=FOLDER`` the rows join its ``results.json``, and its page is made anew.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys

from benchmarks import common
from benchmarks.work import image_samples

# The registry: variants by what they do; `common.module_of` names the worker of each, which takes `--variant=VARIANT`.
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
# Measured only when --variants names them.
MORE = {
    "train": {
        "torch_translation": (
            "plain+bf16", "plain+compiled+bf16", "real_loss+compiled", "real_loss+bf16", "real_loss+compiled+bf16",
            "unpadded+bf16", "unpadded+compiled+bf16",
        ),
        "lwt_translation": ("bfloat16",),
    },
    "adapter": {
        "torch_peft": (
            "lora:plain+compiled", "lora:real_loss+compiled", "lora:unpadded+compiled", "lora:plain+bf16",
            "lora:real_loss+bf16", "lora:unpadded+bf16", "lora:unpadded+compiled+bf16", "full:plain", "full:unpadded",
        ),
        "lwt_adapter": ("lora:bfloat16", "full:bfloat16"),
    },
    "decode": {"torch_decode": ("eager+bf16", "compiled+bf16"), "lwt_decode": ("bfloat16",)},
    "pretrain": {
        "torch_pretrain": tuple(
            f"{model}:{form}+bf16" for model in ("embbert", "bert_2mb") for form in ("published", "gathered+compiled")
        ),
    },
    "vit": {
        "torch_vit": ("vit:timm+compiled", "vit:timm+bf16", "vit:timm+compiled+bf16", "vit:plain+compiled+bf16"),
    },
}  # fmt: skip
UNITS = {"train": "tokens"} | dict.fromkeys(("adapter", "decode", "pretrain", "vit"), "examples")
# What fills the cache with batches (if it has to be filled), and with which data.
PREPARE = dict.fromkeys(("train", "adapter", "decode"), ("work.samples", "folder:mt_de_en_train")) | {
    "pretrain": ("work.text_samples", "folder:english_novels_lm"),
    "vit": ("", image_samples.DATA),
}


def commands(what, pattern, extra):
    """``{variant name: (command, environment)}``: the defaults, or what the regular expression finds among all.

    Raises:
        SystemExit: the pattern finds nothing.
    """
    registered = [DEFAULTS[what], MORE[what]] if pattern else [DEFAULTS[what]]
    names = [(module, variant) for part in registered for module, variants in part.items() for variant in variants]
    found = {f"{module}/{variant}": (module, variant) for module, variant in names}
    chosen = {name: entry for name, entry in found.items() if re.search(pattern, name)}
    if not chosen:
        raise SystemExit(f"--variants={pattern} finds none of {', '.join(found)}")
    return {
        name: ([sys.executable, "-m", common.module_of(module), f"--variant={variant}", *extra], {})
        for name, (module, variant) in chosen.items()
    }


def hardware():
    """The processor's name, the cores that we may use, and what the environment puts in the place of library calls."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    preloaded = os.environ.get("LD_PRELOAD", "")
    instead = f", with {os.path.basename(preloaded)} preloaded" if preloaded else ""
    return f"{model}, {common.THREADS} threads of {os.cpu_count()} cores{instead}"


def rows(what, lines, flags):
    """Result rows, one for each figure of each variant."""
    figures = ("tokens_per_second", "positions_per_second", "examples_per_second", "step_seconds", "peak_bytes")
    return [
        {
            "config": f"benchmarks/{what}",
            "overrides": {"variant": line["variant"]},
            "seed": 0,
            "split": flags.data,
            "metric": metric,
            "value": line[metric],
            "range": line.get(f"{metric}_range"),
            "paper": None,
            "hardware": hardware(),
            "seconds": line["step_seconds"] * flags.steps * flags.rounds,
            "command": f"python -m benchmarks.run {shlex.join(sys.argv[1:])}",
            "date": datetime.date.today().isoformat(),
        }
        for line in lines
        for metric in figures
        if metric in line
    ]


def page(results):
    """The rows as Markdown: tables for each kind of work and machine; variants ``MODULE/GROUP:REST`` have one for each
    group."""
    parts = [
        "# Speed and memory beside PyTorch and CTranslate2\n",
        "Made by `python -m benchmarks.run`; see `benchmarks/README.md`.",
    ]
    for what, unit in UNITS.items():
        own = [row for row in results if row["config"] == f"benchmarks/{what}"]
        if not own:
            continue
        parts += [f"\n## {what}"]
        for machine in sorted({row["hardware"] for row in own}):
            parts += _machine([row for row in own if row["hardware"] == machine], unit)
    return "\n".join(parts) + "\n"


def _machine(own, unit):
    """Lines on what one command measured: a heading, the command, a table for each group of variants."""
    parts = [f"\n### {own[0]['hardware']}\n", f"`{own[0]['command']}`, {own[0]['date']}."]
    groups = {}
    for row in own:
        name = row["overrides"]["variant"]
        group = name.partition("/")[2].rpartition(":")[0] or "variant"
        groups.setdefault(group, {}).setdefault(name, {})[row["metric"]] = row
    for group, cells in groups.items():
        parts += ["", *_table(group, cells, unit)]
    return parts


def _table(title, cells, unit):
    """Lines of a table, the fastest variant first; `cells` is ``{variant: {metric: row}}``."""
    lines = [f"| {title} | {unit}/s (lowest and highest round) | ms a step | peak MB |", "|---|---|---|---|"]
    for name, row in sorted(cells.items(), key=lambda item: -item[1][f"{unit}_per_second"]["value"]):
        rate = row[f"{unit}_per_second"]
        low, high = rate["range"]
        step, peak = row["step_seconds"]["value"] * 1e3, row["peak_bytes"]["value"] / 1e6
        lines.append(f"| {name} | {rate['value']:,.0f} ({low:,.0f}–{high:,.0f}) | {step:,.0f} | {peak:,.0f} |")
    return lines


def write(folder, new):
    """Puts the rows into ``results.json`` and makes ``README.md``.

    They take the place of all older ones of their work on the same hardware: the speed of a machine changes from day to
    day, so a table holds what one command measured.
    """
    replaced = {(row["config"], row["hardware"]) for row in new}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    old = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in old if (row["config"], row["hardware"]) not in replaced]
    path.write_text(json.dumps(kept + new, indent=1) + "\n")
    (folder / "README.md").write_text(page(kept + new))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=sorted(DEFAULTS), required=True)
    parser.add_argument("--variants", default="", help="regular expression over all variants; default: the usual ones")
    parser.add_argument("--list", action="store_true", help="print the names of all variants, and measure nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="steps of a turn; default: 16 (decode: 1)")
    parser.add_argument(
        "--data", default="", help="folder:NAME under LWT_DATA; default: sentence pairs, or running text (vit: none)"
    )
    parser.add_argument("--cache", default=common.CACHE)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--out", default="", help="folder for results.json and its page")
    flags, more = parser.parse_known_args()
    if flags.list:
        print("\n".join(commands(flags.what, ".", ())))
        return
    flags.steps = flags.steps or (1 if flags.what == "decode" else 16)
    module, data = PREPARE[flags.what]
    flags.data = flags.data or data
    work = (f"--data={flags.data}", f"--cache={flags.cache}", f"--batches={flags.batches}")
    if module and subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *work]).returncode:
        raise SystemExit("the batches could not be made; see above")
    report = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    lines = common.interleave(
        commands(flags.what, flags.variants, (*work, *more)), rounds=flags.rounds, steps=flags.steps, report=report
    )
    for line in sorted(lines, key=lambda line: -line[f"{UNITS[flags.what]}_per_second"]):
        print(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()}))
    if flags.out:
        write(flags.out, rows(flags.what, lines, flags))


if __name__ == "__main__":
    main()
