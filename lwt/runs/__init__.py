"""Everything about a run that lies on disk: config, checkpoints, bundles, integer files, and how to open them."""
