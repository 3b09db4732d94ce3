"""A local page for using a trained run and looking into it: ``python -m lwt.demo --workdir=W``."""
