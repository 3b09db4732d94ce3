"""Where the time of a step of lwt goes, by XLA's profiler.

    python -m benchmarks.budget --what=train
    python -m benchmarks.budget --what=decode --variants=bfloat16 --steps=2
    python -m benchmarks.budget --what=vit --variants=vit:bfloat16 --device=gpu

Prints a Markdown table with one row for each variant. Each instant of the traced steps belongs to the kinds of
operations that run then, in equal parts. "cores" is the processor time of a step that is not traced, divided by its
duration. On a GPU, operations are its kernels. Other flags go to the workers: ``--what=vit --size=small``.
"""

import collections
import contextlib
import pathlib
import re
import sys
import tempfile

from benchmarks import common, harness, parsing, run
from lwt.machine import command_line

EXAMPLES = (
    "python -m benchmarks.budget --what=train",
    "python -m benchmarks.budget --what=pretrain --variants=embbert:float32 --steps=4",
)
NESTED = re.compile(r"while|call|cond|conditional")  # they last as long as the operations in them
KERNEL = "kernel "  # begins the name of an operation on a GPU
KINDS = {
    "products and sums": re.compile(
        rf"ynn_fusion|dot|convolution|custom-call|{KERNEL}.*(nvjet|gemm|cublas|cutlass|cudnn)"
    ),
    "copies": re.compile(rf".*(copy|transpose)|{KERNEL}.*(pad|slice|concatenate)"),
    "other passes": re.compile(r""),
}
IDLE = "between operations"


def kind_of(operation):
    """The kind of an operation of a compiled program, by its name: ``"ynn_fusion.12"`` -> ``"products and sums"``."""
    return next(kind for kind, pattern in KINDS.items() if pattern.match(operation))


def shares(spans):
    """``{kind: share of the time}`` from the first to the last instant; the shares add up to 1.

    Args:
        spans: ``(start, end, operation)`` of all threads, nested ones left out.
    """
    borders = sorted(
        border for start, end, name in spans for border in ((start, 1, kind_of(name)), (end, -1, kind_of(name)))
    )
    times, running, last = collections.Counter(), collections.Counter(), borders[0][0]
    for now, change, kind in borders:
        active = running.total()
        for each, count in running.items() if active else ((IDLE, 1),):
            times[each] += (now - last) * count / (active or 1)
        running[kind] += change
        last = now
    total = borders[-1][0] - borders[0][0]
    return {kind: times[kind] / total for kind in (*KINDS, IDLE)}


def spans_of(folder):
    """The `shares` spans of a trace of JAX's profiler, written to `folder`."""
    from jax.profiler import ProfileData

    found = []
    for path in pathlib.Path(folder).rglob("*.xplane.pb"):
        for plane in ProfileData.from_file(str(path)).planes:
            on_gpu = plane.name.startswith("/device:GPU")
            for line in plane.lines:
                if on_gpu and not line.name.startswith("Stream"):  # a summary of the streams
                    continue
                for event in line.events:
                    name = KERNEL + event.name if on_gpu else dict(event.stats).get("hlo_op")
                    if name and not NESTED.match(name):
                        found.append((event.start_ns, event.start_ns + event.duration_ns, name))
    return found


def measure(name, arguments, *, steps, device):
    """A row of the table: name, milliseconds of a step, cores, operations of a step, and the share of each kind."""
    with (
        contextlib.closing(harness.Worker(name, arguments, device=device)) as worker,
        tempfile.TemporaryDirectory() as folder,
    ):
        plain = worker.ask(run=steps)
        worker.ask(run=steps, trace=folder)
        spans = spans_of(folder)
    step, cores = plain["seconds"] / steps * 1e3, plain["cpu_seconds"] / plain["seconds"]
    operations = round(len(spans) / steps, -1)
    return [
        name,
        f"{step:,.3g}" if step < 100 else f"{step:,.0f}",
        f"{cores:.1f}",
        f"{operations:,.0f}",
        *(f"{s:.0%}" for s in shares(spans).values()),
    ]


def main():
    parser = parsing.Parser(__doc__, examples=EXAMPLES)
    parser.add_argument("--what", choices=sorted(run.DEFAULTS), required=True, help="the work to look into")
    parser.add_argument("--variants", type=parsing.pattern, default=".", help="regular expression over lwt's variants")
    parser.add_argument("--steps", type=parsing.whole(1), default=4, help="traced steps")
    parser.add_argument("--device", choices=common.DEVICES, default="cpu", help="what it runs on; gpu: an NVIDIA GPU")
    flags, more = parser.parse_known_args()
    known = run.commands(flags.what, pattern=flags.variants, extra=more, device=flags.device)
    chosen = {name: arguments for name, arguments in known.items() if name.startswith("lwt_")}
    if not chosen:
        raise SystemExit(f"--variants={flags.variants} matches no variant of lwt among {', '.join(known)}")
    print("| " + " | ".join(["variant", "ms a step", "cores", "operations", *KINDS, IDLE]) + " |")
    print("|---|" + "---:|" * (4 + len(KINDS)))
    for name, arguments in chosen.items():
        print("| " + " | ".join(measure(name, arguments, steps=flags.steps, device=flags.device)) + " |")
        sys.stdout.flush()


if __name__ == "__main__":
    with command_line.guarded():
        main()
