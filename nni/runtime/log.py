"""NNI's functions for logging under their import path in NNI."""

from __future__ import annotations

from nni._log import enable_global_logging, silence_stdout

__all__ = ["enable_global_logging", "silence_stdout"]
