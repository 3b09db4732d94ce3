"""Translators: the report of a run, positions beyond those of training, and headlines."""
