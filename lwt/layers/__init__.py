"""What models are built from; `linear` is the only place where an activation meets a weight."""
