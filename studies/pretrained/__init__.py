"""LoRA of a pretrained text encoder: lwt compared with PEFT and transformers."""
