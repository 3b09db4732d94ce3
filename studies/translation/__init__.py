"""The report of a trained translator."""
