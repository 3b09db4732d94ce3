"""Reparametrizations that store a model in less space: pruning, quantization, factors, layers that share weights."""
