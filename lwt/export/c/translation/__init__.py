"""Translators in C: what is written, and the same arithmetic in NumPy."""
