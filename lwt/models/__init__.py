"""The architectures, one file each; the class bears the name of its file."""
