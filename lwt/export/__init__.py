"""Writes trained runs for other tools and devices: bundles, integers, C, LiteRT, ONNX, PyTorch."""
