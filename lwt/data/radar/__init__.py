"""Micro-Doppler maps: a simulator of people in front of a radar, and the reader of a recorded data set."""
