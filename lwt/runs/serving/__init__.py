"""Several runs that answer together."""
