"""timm's Vision Transformers.

timm imports torchvision, whose compiled operators work with one build of PyTorch only. A ViT needs none of them; where
they are missing, two are declared so that the import succeeds.
"""

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:  # "operator torchvision::nms does not exist": a CPU build of PyTorch, and the other torchvision
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from timm.layers import resample_abs_pos_embed
from timm.models import vision_transformer

__all__ = ("resample_abs_pos_embed", "vision_transformer")
