"""The work that is measured: the same batches for each worker."""
