"""The programs train.py, eval.py and export.py, and others of the console command ``lwt``."""
