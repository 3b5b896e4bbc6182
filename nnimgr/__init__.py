"""An experiment manager compatible with NNI that loses no results, never polls, and explains failures."""

__version__ = "0.2.0"
