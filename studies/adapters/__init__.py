"""Which adapter is worth its bytes: every method on small models, with the same search of its rate."""
