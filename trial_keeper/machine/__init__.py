"""Readings of the machine: its processes, control groups, GPUs, file changes, and resources."""
