"""The architectures, one file each; each class has the name of its file."""
