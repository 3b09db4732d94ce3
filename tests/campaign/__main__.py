"""Runs a campaign of kills, damages and bad calls, and counts the promises that were broken.

    python -m tests.campaign                                             # the share that the tests run
    python -m tests.campaign --kills=100 --damages=300 --calls=500       # a whole campaign, about half an hour
    python -m tests.campaign --calls=10000 --kills=0 --damages=0         # every bad call there is

The last line is one JSON object; the exit code is 1 if a promise was broken.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from tests.campaign import artefacts, calls, damages, kills, programs

KINDS = {"kills": kills, "damages": damages, "calls": calls}
DEFAULTS = {"kills": 1, "damages": 5, "calls": 12}


def campaign(options, folder):
    """Runs all cases in an empty folder and prints each that is at fault; returns the counts."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    programs.preload()
    begin = time.monotonic()
    made, counts = artefacts.Artefacts(folder / "made"), {}
    for kind, cases in KINDS.items():
        number, faults = 0, 0
        for case, fault in cases.run(getattr(options, kind), seed=options.seed, made=made, folder=folder / kind):
            number += 1
            if fault:
                faults += 1
                print(f"{kind}: {case}: {fault}", flush=True)
        counts |= {kind: number, f"{kind}_at_fault": faults}
    return {**counts, "seconds": round(time.monotonic() - begin)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, count in DEFAULTS.items():
        parser.add_argument(f"--{kind}", type=int, default=count, help=f"number of {kind}; default: {count}")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is drawn; default: 0")
    options = parser.parse_args()
    folder = tempfile.mkdtemp()  # a TemporaryDirectory would be removed at the end of every forked process
    try:
        counts = campaign(options, pathlib.Path(folder))
    finally:
        shutil.rmtree(folder)
    print(json.dumps({"seed": options.seed, **counts}))
    sys.exit(any(counts[f"{kind}_at_fault"] for kind in KINDS))


if __name__ == "__main__":
    main()
