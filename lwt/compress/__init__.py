"""Programs that read a run and write a smaller one: pruning, factorisation, rank allocation, distilled data."""
