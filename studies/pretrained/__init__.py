"""LoRA of a pretrained text encoder: lwt beside PEFT with transformers."""
