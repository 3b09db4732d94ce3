"""The parts of models; `linear` is the only place where an activation meets a weight."""
