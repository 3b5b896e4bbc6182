"""Experiment manager that is compatible with NNI, loses no results, never polls, and explains failures."""

__version__ = "0.2.0"
