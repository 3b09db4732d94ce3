"""Pages on single runs: attention heads, feed-forward memories, spectra; and the table of parameter counts."""
