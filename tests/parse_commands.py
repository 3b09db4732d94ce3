"""Parses command lines as their programs would, without running any of them.

Standard input holds a JSON list of ``[program, arguments, strict]``: a module or a file, what follows it, and whether
its required flags must be given. Standard output gets a JSON list: "" for a command that parses, else what is wrong.
Each command is parsed in its own fork, because programs define flags of the same names. A flag without a value,
or with a placeholder as its value, comes as ``placeholder:flag``, and only its name is checked.
"""

import argparse
import importlib
import json
import os
import pathlib
import runpy
import sys
import traceback
import warnings

ROOT = pathlib.Path(__file__).parents[1]
BASES = ("configs/translation.py:data=multi30k", "configs/embbert_finetune.py:task=snips", "configs/vit.py")
PLACEHOLDER = "placeholder:"
PARSED = 77  # exit code of a program that stopped after it parsed its flags


def main():
    commands, answers = json.load(sys.stdin), []
    warnings.simplefilter("ignore")  # jax warns about forks; these compute nothing
    preload()
    for program, arguments, strict in commands:
        # A config may start from a run, which does not exist here: one of BASES stands for it.
        found = (attempt(program, arguments, strict=strict, base=base) for base in BASES)
        first = next(found)
        answers.append(first if first and all(found) else "")
    print(json.dumps(answers))


def preload():
    """Imports lwt once, so that forks have it; but not the demo's page, which needs an extra."""
    for path in sorted((ROOT / "lwt").rglob("*.py")):
        if path.stem != "__main__" and "import gradio" not in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))


def attempt(program, arguments, *, strict, base):
    """What is wrong with a command, or ""; missing runs are taken for runs of the config `base`."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        os._exit(code_of(program, arguments, strict=strict, base=base))
    os.close(write_end)
    with open(read_end, encoding="utf-8") as file:
        said = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "" if code == PARSED else said.strip()[-500:] or f"{program} parses no flags (exit code {code})"


def code_of(program, arguments, *, strict, base):
    """Exit code of a program that stops once its flags are parsed."""
    try:
        named = [part.removeprefix(PLACEHOLDER) for part in arguments if part.startswith(PLACEHOLDER)]
        patch(named, strict=strict, base=base)
        sys.argv = [program, *(part for part in arguments if not part.startswith(PLACEHOLDER))]
        run = runpy.run_path if program.endswith(".py") else runpy.run_module
        run(program, run_name="__main__", **({} if program.endswith(".py") else {"alter_sys": True}))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def patch(named, *, strict, base):
    """Ends programs after their flags are parsed, `named` among them, and lets configs start from missing runs."""
    from absl import flags

    from configs import common
    from lwt.machine import command_line, memory
    from lwt.runs import config_file, hub

    def stop(has=lambda name: name in flags.FLAGS):
        unknown = [name for name in named if name != "help" and not has(name)]
        print(f"there is no flag {unknown}" if unknown else "", flush=True)
        os._exit(1 if unknown else PARSED)

    def parse_known_args(parser, *args, **kwargs):
        found, rest = known(parser, *args, **kwargs)
        if parser.prog in ("run.py", "budget.py"):  # they hand what they do not know to workers of the benchmarks
            unknown = [flag for flag in rest if not known_to_workers(flag)]
            if unknown:
                parser.error(f"no worker has {unknown}")
            stop(lambda name: known_to_workers(f"--{name}"))
        return found, rest

    def parse_args(parser, *args, **kwargs):
        parse(parser, *args, **kwargs)
        stop(lambda name: f"--{name}" in parser._option_string_actions)

    def kept_by(workdir, argument="base"):
        if pathlib.Path(workdir, "config.json").exists():
            return kept(workdir, argument)
        return json.loads(json.dumps(config_file.load(base).to_dict()))

    def add_argument(container, *args, required=False, **options):
        return add(container, *args, **options)

    mark, add = flags.mark_flags_as_required, argparse._ActionsContainer.add_argument
    known, parse, kept = argparse.ArgumentParser.parse_known_args, argparse.ArgumentParser.parse_args, common.kept_by
    argparse.ArgumentParser.parse_known_args = parse_known_args
    argparse.ArgumentParser.parse_args = parse_args
    memory.tune = lambda: None  # it would start the process anew
    command_line.show_log, common.kept_by = stop, kept_by
    hub.folder = str  # of a model hf:NAME, which is not here either
    flags.mark_flags_as_required = lambda names: mark([name for name in names if strict and name not in named])
    if not strict:
        argparse._ActionsContainer.add_argument = add_argument


def known_to_workers(flag):
    """Whether a worker of the benchmarks defines a flag."""
    quoted = f'"{flag.partition("=")[0]}"'
    return any(quoted in path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").rglob("*.py"))


if __name__ == "__main__":
    main()
