"""Micro-Doppler maps: `body`, `activities` and `maps` simulate people before a radar; `parrad` reads a recording."""
