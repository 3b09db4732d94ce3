"""Light methods, one file each: pure maps from what is stored and trained to the weights of the model."""
