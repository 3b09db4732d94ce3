"""Workers that measure PyTorch, PEFT and CTranslate2, and their models."""
