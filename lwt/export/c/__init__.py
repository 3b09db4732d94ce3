"""From a trained text classifier to C for a microcontroller: weights, tokenizer, engine, tests and a report."""
