"""The warm spawner of gangs: workers are forked where the modules are imported already.

The command in a request is that of a crew (see ``spawner``), with FILE:NAME in place of the shell command.
"""

from __future__ import annotations

import os

from trial_keeper import crew_shim, spawner, warm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def run(requests: int, failures: int, wake: int, modules: list[str]) -> NoReturn:
    """Import the modules, then fork a shim for each request. The arguments are those of ``spawner.run``."""
    warm.prepare(requests, failures, wake, modules)
    spawner.run(requests, failures, wake, None, WarmCrewShim)
    os._exit(0)


class WarmCrewShim(warm.WarmShim):
    """Shim that forks a crew, which forks workers."""

    __slots__ = ()

    def _execute(self, environ: dict[bytes, bytes], outputs: list[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            warm.label(environ, self.room)
            crew_shim.become(self._command, environ, outputs, parent, self.kept, self._fork_worker)
        return pid

    def _fork_worker(self, target: str, environ: dict[str, str], outputs: tuple[int, int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            plain = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
            warm.run_trial(target, plain, list(outputs), parent, self.kept, self.room, None)
        return pid
