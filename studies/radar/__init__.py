"""LH-ViT compared with a ViT, CNNs and a linear classifier on radar maps."""
