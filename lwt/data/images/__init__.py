"""Images: `decoding` reads a file, `folders` finds files and classes, `cache` keeps what was decoded."""
