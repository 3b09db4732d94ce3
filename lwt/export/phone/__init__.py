"""Writes trained models as files that LiteRT and ONNX Runtime run on phones and desktops."""
