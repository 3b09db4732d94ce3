"""Vertical LoRA compared with whole models: images and translation."""
