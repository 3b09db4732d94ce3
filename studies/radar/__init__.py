"""LH-ViT beside a ViT, CNNs and a linear classifier on radar maps."""
