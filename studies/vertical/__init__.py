"""Vertical LoRA beside whole models: images, texts and translation."""
