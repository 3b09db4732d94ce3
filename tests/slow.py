"""Finds the tests that `make test` leaves out: the functions whose tests take more than `LIMIT` seconds each.

pytest --durations=0 --durations-min=0.05 -q > durations.log
python tests/slow.py durations.log > tests/slow.txt
"""

import collections
import re
import sys

LIMIT = 1.5  # seconds, on average over the parameters of a function
LINE = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(\S+?\.py::\w+)(.*)")


def slow(lines):
    """The names ``FILE::FUNCTION`` of slow tests, sorted, from the lines of a report of pytest's durations."""
    seconds, tests = collections.Counter(), collections.defaultdict(set)
    for line in lines:
        if found := LINE.match(line):
            took, name, parameters = found.groups()
            seconds[name] += float(took)
            tests[name].add(parameters)
    return sorted(name for name in seconds if seconds[name] > LIMIT * len(tests[name]))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(slow(file)))
