"""Measures every attention's cost over the length.

For each length, the shortest first, it starts the variants' processes (`lwt_attention`, `torch_attention`), as many as
fit ``--memory_share`` of the machine's memory, and runs them in turn, A B A B. After each length it adds the rows to
the folder's ``results.json`` and rewrites the page. A pass is skipped if the compiler plans more memory than that
share, or if four times the time at half the length exceeds ``--step_seconds``; the page says so. ``--rounds=0``
measures only memory and operations, which other work on the machine does not disturb.
"""

import os
import re
import statistics
import sys
import time

from benchmarks import attention_page, harness, parsing
from benchmarks.lwt import attention
from benchmarks.work import attention_samples
from lwt.machine import command_line, hardware
from lwt.report import pages

EXAMPLES = (
    "python -m benchmarks.attention --out=docs/results/attention",
    "python -m benchmarks.attention --lengths=1024,2048 --variants='softmax$|sdpa' --rounds=7 --out=attention",
    "python -m benchmarks.attention --report_only --out=docs/results/attention",
)
LENGTHS = tuple(2**i for i in range(7, 15))
SHORT = (16, 32, 64)  # to find the length at which K/V projection pays
SHORT_VARIANTS = r"/(softmax|kv_projection_\w+)$"
MODULES = {"lwt_attention": attention.VARIANTS, "torch_attention": attention_samples.TORCH_VARIANTS}


def variants(pattern, *, length, causal):
    """``{name: module}`` of the variants that the pattern matches; a name is ``MODULE/VARIANT``."""
    found = {f"{module}/{variant}": module for module, some in MODULES.items() for variant in some}
    left_out = {f"lwt_attention/{name}" for name in attention_page.without_causal()} if causal else set()
    patterns = [pattern] if length > max(SHORT) else [pattern, SHORT_VARIANTS]
    return {
        name: module
        for name, module in found.items()
        if name not in left_out and all(re.search(wanted, name) for wanted in patterns)
    }


def measure(length, chosen, flags, known, *, report):
    """Measures one length; returns ``(lines, failures)``.

    Args:
        chosen: from `variants`.
        flags: the program's flags.
        known: ``{(name, pass): {shorter length: seconds}}``.
        report: called with a line of progress.

    Returns:
        A dict of figures for each variant and pass; ``{name: why}`` of workers that failed.
    """
    limit = flags.memory_share * memory_bytes()
    lines, failures, workers, held = {}, {}, {}, 0
    try:
        for name, module in chosen.items():
            passes = [of for of in attention_samples.PASSES if expected(known, name, of, length) <= flags.step_seconds]
            for of in attention_samples.PASSES:
                lines[name, of] = {} if of in passes else {"over_seconds": flags.step_seconds}
            if not passes:
                continue
            try:
                workers[name] = harness.Worker(name, command(name, module, length, passes, limit, flags))
            except harness.WorkerError as error:
                failures[name] = str(error)
                continue
            for of, facts in workers[name].facts["passes"].items():
                lines[name, of] = facts if "seconds" in facts else facts | {"over_bytes": limit}
            ran = [facts for facts in workers[name].facts["passes"].values() if "seconds" in facts]
            held += max((facts["peak_bytes"] for facts in ran), default=0)
            report(f"length {length}: {name}")
            if held > limit:
                failures |= take_turns(workers, lines, flags)
                held = 0
        failures |= take_turns(workers, lines, flags)
    finally:
        stop(workers)
    return {key: line for key, line in lines.items() if line}, failures


def take_turns(workers, lines, flags):
    """Times the passes of the workers, A B A B, adds the seconds to their lines and stops the workers.

    Returns:
        ``{name: why}`` of workers that failed.
    """
    runs, failures = {key: [] for key, line in lines.items() if key[0] in workers and "seconds" in line}, {}
    for _ in range(flags.rounds):
        for name, worker in workers.items():
            time.sleep(flags.pause)  # the last worker's idle threads stop spinning
            for of in [of for other, of in runs if other == name and name not in failures]:
                steps = max(1, round(flags.seconds / lines[name, of]["seconds"]))
                try:
                    runs[name, of].append(worker.ask(run=steps, of=of)["seconds"] / steps)
                except harness.WorkerError as error:  # such as a worker that the system killed for its memory
                    failures[name] = str(error)
                    break
    for key, seconds in runs.items():
        del lines[key]["seconds"]
        if seconds and key[0] not in failures:
            lines[key] |= {"seconds": statistics.median(seconds), "lowest": min(seconds), "highest": max(seconds)}
    stop(workers)
    return failures


def stop(workers):
    """Ends the processes and clears the dict."""
    for worker in workers.values():
        worker.process.kill()
        worker.process.wait()
    workers.clear()


def command(name, module, length, passes, limit, flags):
    """The command line of a worker."""
    values = dict(variant=name.partition("/")[2], length=length, passes=",".join(passes), memory_limit=limit)
    values |= {key: getattr(flags, key) for key in ("width", "heads", "batch", "reach")}
    given = [f"--{key}={value}" for key, value in values.items()]
    return [sys.executable, "-m", harness.module_of(module), *given, *(["--causal"] if flags.causal else [])]


def expected(known, name, of, length):
    """An upper bound of a step's seconds: quadratic in the length, from the longest measured one; 0 without any."""
    shorter = {n: seconds for n, seconds in known.get((name, of), {}).items() if n < length}
    return shorter[max(shorter)] * (length / max(shorter)) ** 2 if shorter else 0.0


def memory_bytes():
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def rows(length, lines, flags, *, spent):
    """Rows for ``results.json``, one per figure of a length."""
    size = {key: getattr(flags, key) for key in attention_page.SIZES}
    return [
        {
            "config": attention_page.CONFIG,
            "overrides": {"variant": name, "length": length, "pass": of, **size},
            "seed": None,
            "split": "random",
            "metric": metric,
            "value": value,
            "paper": None,
            "hardware": hardware.describe(),
            "seconds": spent,
            "command": pages.command_line(),
        }
        for (name, of), line in lines.items()
        for metric, value in line.items()
    ]


def main():
    parser = parsing.Parser(__doc__, examples=EXAMPLES)
    text = "regular expression over MODULE/VARIANT; default: all"
    parser.add_argument("--variants", type=parsing.pattern, default="", help=text)
    parser.add_argument("--list", action="store_true", help="print the names of the variants and exit")
    parser.add_argument(
        "--lengths",
        type=parsing.several(parsing.whole(1)),
        default=",".join(map(str, SHORT + LENGTHS)),
        help="numbers of positions; up to 64: K/V projection only",
    )
    text = "length of a turn; a turn has at least one step"
    parser.add_argument("--rounds", type=parsing.whole(0), default=5, help="number of turns; 0: measure no times")
    parser.add_argument("--seconds", type=parsing.real(0), default=0.5, help=text)
    parser.add_argument("--pause", type=parsing.real(0), default=0.3, help="seconds of rest before a turn")
    text = "of the machine's memory, for one step"
    parser.add_argument("--memory_share", type=parsing.real(0, 1), default=0.4, help=text)
    parser.add_argument("--step_seconds", type=parsing.real(0), default=60.0, help="longest expected step to run")
    parser.add_argument("--out", default="docs/results/attention", help="folder of the page")
    parser.add_argument("--report_only", action="store_true", help="only rewrite the page from its results.json")
    attention_samples.add_sizes(parser)
    flags = parser.parse_args()
    attention_samples.check_sizes(parser, flags)
    lengths = sorted(flags.lengths)
    chosen = {n: variants(flags.variants, length=n, causal=flags.causal) for n in lengths}
    names = list(dict.fromkeys(name for some in chosen.values() for name in some))
    if not names:
        raise SystemExit(f"--variants={flags.variants} matches no variant; --list prints them")
    if flags.list:
        print("\n".join(names))
        return

    def report(text):
        return print(text, file=sys.stderr, flush=True)

    known, failed = {}, False
    for length in () if flags.report_only else lengths:
        start = time.perf_counter()
        lines, failures = measure(length, chosen[length], flags, known, report=report)
        for key, line in lines.items():
            if "seconds" in line:
                known.setdefault(key, {})[length] = line["seconds"]
        for name, why in failures.items():
            failed = True
            report(f"failed: {name} at length {length}: {why}")
        attention_page.write(flags.out, rows(length, lines, flags, spent=time.perf_counter() - start))
    if flags.report_only:
        attention_page.write(flags.out, [])
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    with command_line.guarded():
        main()
