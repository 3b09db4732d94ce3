"""Image files, their cache on disk, and RandAugment."""
