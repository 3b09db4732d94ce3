"""A worker of the benchmarks that does nothing, for tests of those that ask it."""

PROGRAM = """
import json, sys
print(json.dumps({"parameters": 1, "start_bytes": 0, "warmup_seconds": 0}), flush=True)
for line in sys.stdin:
    answer = {"peak_bytes": 5} if "quit" in line else {"seconds": 1.0, "cpu_seconds": 1.0, "examples": 2}
    print(json.dumps(answer), flush=True)
"""
