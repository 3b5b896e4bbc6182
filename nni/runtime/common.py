"""Switch of NNI 2 for trials with several parameter sets."""

from __future__ import annotations

__all__ = ["enable_multi_phase", "multi_phase_enabled"]

_enabled = False


def enable_multi_phase() -> None:
    """Make ``multi_phase_enabled`` return True in this process.

    What trials get depends on the configuration only.
    """
    global _enabled
    _enabled = True


def multi_phase_enabled() -> bool:
    return _enabled
