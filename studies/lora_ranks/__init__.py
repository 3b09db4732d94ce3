"""The rank of LoRA: what adapters of several ranks learn on a frozen translator."""
