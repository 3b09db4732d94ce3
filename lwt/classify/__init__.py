"""From a table of texts and labels to a classifier and its figures: ``python -m lwt.classify TABLE``."""
