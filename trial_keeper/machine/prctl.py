"""The system call ``prctl``, by the C module of ``ctypes`` alone: all of it would cost each shim 80 KiB."""

from __future__ import annotations

import _ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG: the signal that this process gets when its parent ends
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: this process becomes the parent of its orphaned descendants


def loaded() -> Callable[[int, int], int]:
    """Return ``prctl``, as a function of an option and its value that returns 0 if it has worked."""
    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    call = _ctypes.call_cdeclfunction

    def prctl(option: int, value: int) -> int:
        return int(call(address, (option, value, 0, 0, 0)))

    return prctl
