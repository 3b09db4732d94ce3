"""What the export in C writes of each network: constants, shape and cost."""
