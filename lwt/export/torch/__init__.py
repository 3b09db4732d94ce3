"""Models and adapters to and from PyTorch's libraries.

`hf` writes and reads folders of Hugging Face's transformers, with `names`, `layouts` and `configs`; `peft` adapters of
PEFT, with `peft_configs`; `timm` Vision Transformers of timm and of the original release, with `timm_layouts`.
"""
