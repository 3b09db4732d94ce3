"""What a model is trained for: its loss, its evaluation, and how it answers."""
