"""The machine a program runs on: devices, hardware, memory, latency, and the command line."""
