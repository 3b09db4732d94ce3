"""Speed and memory beside PyTorch: see README.md. Scripts, not a part of the package."""
