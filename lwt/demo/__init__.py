"""A local page to use and to look into a trained run: ``python -m lwt.demo --workdir=W``."""
