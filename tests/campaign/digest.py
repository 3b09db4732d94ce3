"""Prints a checksum of all arrays of the last checkpoint of a run, and of its log without times: digest.py WORKDIR"""

import hashlib
import json
import pathlib
import sys

from lwt.runs import experiment


def main(workdir):
    weights = experiment.load(workdir, checkpoint="last").weights
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode() + str(weights[name]).encode() + bytes(memoryview(weights[name]).cast("B")))
    log = pathlib.Path(workdir, "metrics.jsonl")  # training alone writes one
    for line in log.read_text().splitlines() if log.exists() else ():
        row = {name: value for name, value in json.loads(line).items() if "second" not in name and name != "time"}
        digest.update(json.dumps(row).encode())
    print(digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1])
