"""EmbBERT-Q, its baselines and ablations: pre-training, fine-tuning, memory."""
