"""The cost of every attention over the length: ``python -m benchmarks.attention --out=docs/results/attention``.

Length by length, the shortest first: the variants' processes (`lwt_attention`, `torch_attention`) are started, and take
turns, A B A B; as many of them together as fit ``--memory_share`` of the machine's memory. The rows join
``results.json`` of the folder after every length, and its page is made anew, so that what was measured is kept. A pass
is not run if it would need more than that share itself (by the compiler's word) or, at four times the time of half the
length, more than ``--step_seconds``; the page says so. With ``--rounds=0`` only memory and operations are measured,
which other work on the machine does not disturb.
"""

import argparse
import os
import re
import statistics
import sys
import time

from benchmarks import attention_page, common
from benchmarks.lwt import attention
from benchmarks.torch import attention as torch_attention
from benchmarks.work import attention_samples
from lwt.machine import hardware
from lwt.report import pages

LENGTHS = tuple(2**i for i in range(7, 15))
SHORT = (16, 32, 64)  # for the length at which K/V projection pays
SHORT_VARIANTS = r"/(softmax|kv_projection_\w+)$"
MODULES = {"lwt_attention": attention.VARIANTS, "torch_attention": torch_attention.VARIANTS}


def variants(pattern, *, length, causal):
    """``{name: module}`` of the variants whose name the regular expression finds; name is ``MODULE/VARIANT``."""
    found = {f"{module}/{variant}": module for module, some in MODULES.items() for variant in some}
    left_out = {f"lwt_attention/{name}" for name in attention_page.without_causal()} if causal else set()
    patterns = [pattern] if length > max(SHORT) else [pattern, SHORT_VARIANTS]
    return {
        name: module
        for name, module in found.items()
        if name not in left_out and all(re.search(wanted, name) for wanted in patterns)
    }


def measure(length, chosen, flags, known, *, report):
    """``(lines, failures)`` of one length.

    Args:
        length: n.
        chosen: from `variants`.
        flags: of the program.
        known: ``{(name, pass): {shorter length: seconds}}``.
        report: called with a line of progress.

    Returns:
        A dict for each variant and pass, with what could be measured of it; ``{name: why}`` of workers that failed.
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
                workers[name] = common.Worker(name, command(name, module, length, passes, limit, flags))
            except RuntimeError as error:
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
    """Times the passes of the workers, A B A B, puts the seconds into their lines, and stops them; ``{name: why}`` of
    those that failed."""
    runs, failures = {key: [] for key, line in lines.items() if key[0] in workers and "seconds" in line}, {}
    for _ in range(flags.rounds):
        for name, worker in workers.items():
            time.sleep(flags.pause)  # idle threads of the last one stop spinning
            for of in [of for other, of in runs if other == name and name not in failures]:
                steps = max(1, round(flags.seconds / lines[name, of]["seconds"]))
                try:
                    runs[name, of].append(worker.ask(run=steps, of=of)["seconds"] / steps)
                except (RuntimeError, OSError) as error:  # such as one that the system ended for its memory
                    failures[name] = str(error)
                    break
    for key, seconds in runs.items():
        del lines[key]["seconds"]
        if seconds and key[0] not in failures:
            lines[key] |= {"seconds": statistics.median(seconds), "lowest": min(seconds), "highest": max(seconds)}
    stop(workers)
    return failures


def stop(workers):
    """Ends the processes, and forgets them."""
    for worker in workers.values():
        worker.process.kill()
        worker.process.wait()
    workers.clear()


def command(name, module, length, passes, limit, flags):
    """The command line of a worker."""
    values = dict(variant=name.partition("/")[2], length=length, passes=",".join(passes), memory_limit=limit)
    values |= {key: getattr(flags, key) for key in ("width", "heads", "batch", "reach")}
    given = [f"--{key}={value}" for key, value in values.items()]
    return [sys.executable, "-m", common.module_of(module), *given, *(["--causal"] if flags.causal else [])]


def expected(known, name, of, length):
    """Seconds of a step at most: the square of the length times what the longest one that was measured took."""
    shorter = {n: seconds for n, seconds in known.get((name, of), {}).items() if n < length}
    return shorter[max(shorter)] * (length / max(shorter)) ** 2 if shorter else 0.0


def memory_bytes():
    """Of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def rows(length, lines, flags, *, spent):
    """Result rows of the lines of a length, one for each figure."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default="", help="regular expression over MODULE/VARIANT; default: all")
    parser.add_argument("--list", action="store_true", help="print the names of the variants, and measure nothing")
    parser.add_argument("--lengths", default=",".join(map(str, SHORT + LENGTHS)), help="the short ones: for K/V alone")
    parser.add_argument("--rounds", type=int, default=5, help="0: no times")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn; at least one step is made")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds of rest before a turn")
    parser.add_argument("--memory_share", type=float, default=0.4, help="of the machine's memory, for one step")
    parser.add_argument("--step_seconds", type=float, default=60.0, help="a step that may take longer is not made")
    parser.add_argument("--out", default="docs/results/attention", help="folder of the rows, the page and the pictures")
    parser.add_argument("--report_only", action="store_true", help="measure nothing: the page of what is there")
    attention_samples.add_sizes(parser)
    flags = parser.parse_args()
    lengths = sorted(int(n) for n in flags.lengths.split(","))
    chosen = {n: variants(flags.variants, length=n, causal=flags.causal) for n in lengths}
    names = list(dict.fromkeys(name for some in chosen.values() for name in some))
    if not names:
        raise SystemExit(f"--variants={flags.variants} finds none that it may; --list names them")
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
    main()
