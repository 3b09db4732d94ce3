"""Reparametrizations, one file each: pure maps from the stored and trained arrays to the model's weights."""
