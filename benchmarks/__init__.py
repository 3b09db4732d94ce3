"""Speed and memory compared with PyTorch: see README.md. Scripts, not a part of the package."""
