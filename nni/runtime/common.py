"""NNI 2's switch for multi-phase trials, which get several parameter sets."""

from __future__ import annotations

__all__ = ["enable_multi_phase", "multi_phase_enabled"]

_enabled = False


def enable_multi_phase() -> None:
    """Make ``multi_phase_enabled`` return True in this process.

    This does not affect trials: only the experiment's configuration makes them multi-phase.
    """
    global _enabled
    _enabled = True


def multi_phase_enabled() -> bool:
    return _enabled
