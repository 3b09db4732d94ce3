"""A campaign of kills, damages and bad calls against the programs.

Every case is drawn from a seed. A case fails if its program prints a traceback, hangs, or gives another result than the
undisturbed run without a word. ``python -m tests.campaign --help`` lists the flags.
"""
