"""Losses over a large vocabulary, computed chunk by chunk so that the array of all logits never exists."""
