"""The studies: each folder trains many runs, or measures, and writes a page of `docs/results/`."""
