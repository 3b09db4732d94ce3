"""Metrics as sums and counts, which add up over batches and devices and are divided once."""
