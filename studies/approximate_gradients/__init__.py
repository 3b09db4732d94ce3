"""Attention gradients by polynomials: their error and cost, and LoRA trained with them."""
