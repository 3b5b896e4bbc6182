"""Readings of the machine: processes, control groups, GPUs, changes of files, and capacity."""
