"""Writes a trained text classifier as C for a microcontroller: weights, tokenizer, engine, tests and a report."""
