"""Builds a run from its config and trains it: data, model, weights, optimizer, step, loop, log."""
