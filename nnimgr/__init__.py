"""The service: an NNI-style experiment manager that loses nothing, waits for nothing and says why."""

__version__ = "0.1.0"
