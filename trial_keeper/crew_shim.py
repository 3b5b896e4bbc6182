"""The shim of an attempt with several processes: it forks their crew, which needs no interpreter of its own.

The spawner imports this module before it forks the first such shim, so that all of them share it.
"""

from __future__ import annotations

import gc
import os
import sys

from trial_keeper import crew, forked, shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class CrewShim(shim.Shim):
    """Shim that forks a crew. The command in its request begins with ``spawner.CREW``."""

    __slots__ = ()

    def _execute(self, environ: dict[bytes, bytes], outputs: list[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(self._command, environ, outputs, parent, set(), crew.shell)
        return pid


def become(
    command: bytes,
    environ: dict[bytes, bytes],
    outputs: list[int],
    parent: int,
    kept: set[int],
    execute: crew.Execute,
) -> NoReturn:
    """Become the crew in this process, which was just forked by the shim, and exit.

    ``execute``: starts the command of one worker. The other arguments are those of ``forked.begin``.
    """
    status = 1
    try:
        forked.begin(environ, outputs, parent, kept)
        gc.enable()
        status = crew.run(execute, *os.fsdecode(command).split("\0")[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)
