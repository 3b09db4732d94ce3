"""From named sources to batches: sources, cleaning, tokenizer, packing. Numpy only; nothing here imports jax."""
