"""Vertical LoRA compared with whole models: images, texts and translation."""
