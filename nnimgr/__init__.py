"""Experiment manager for hyper-parameter tuning, compatible with NNI. It loses no results, never polls, and
explains failures.
"""

__version__ = "0.2.0"
