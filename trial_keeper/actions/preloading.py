"""The keeper's side of warm spawners: starts them, and waits until they have imported their modules."""

from __future__ import annotations

import fcntl
import os
import shlex

from trial_keeper import warm
from trial_keeper.actions.request_pipe import RequestPipe
from trial_keeper.machine.interpreter import program
from trial_keeper.streams import Lines
from trial_keeper.wire import needs_crew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping

    from trial_keeper.actions.loop import Loop
    from trial_keeper.wire import Start

_HIGH = 64  # descriptors for a new process are copied above this number, away from its own 3, 4 and 5
# variables that differ between the trials of an experiment
_OWN = ("NNI_", "NNIMGR_", "CUDA_", "MULTI_PHASE")


class WarmSpawner:
    """Process that has imported modules and forks the shims of attempts (see ``trial_keeper.warm``).

    ``requests``: the pipe for requests. ``ready``: the imports are complete. ``trouble``: why the modules
    cannot be used, or None.
    """

    def __init__(self, requests: RequestPipe, failures: int, trouble: str | None) -> None:
        self.requests = requests
        self.failures = Lines(failures)
        self.ready = False
        self.trouble = trouble

    def close(self) -> None:
        """Close the pipes, because the process has ended, or could not be started."""
        self.requests.close()
        os.close(self.failures.fd)

    def refusal(self) -> str:
        """Return the shell command of an attempt whose modules cannot be used: it says so and fails."""
        return f"echo {shlex.quote(f'preload: {self.trouble}')} >&2; exit 1"


class Preloading:
    """The warm spawners of one keeper: one for each interpreter with a list of modules.

    ``wake``: the pipe for the notices of shims. ``changed`` is called when a spawner is ready or has refused.
    ``failed``: called with each line about a failed shim. ``ended``: called when a spawner that was ready has
    ended.
    """

    def __init__(
        self,
        directory: str,
        loop: Loop,
        wake: int,
        *,
        changed: Callable[[], None],
        failed: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._wake = wake
        self._changed = changed
        self._failed = failed
        self._ended = ended
        self._spawners: dict[tuple[str, ...], WarmSpawner] = {}

    def spawner(self, interpreter: str, start: Start, environment: Mapping[str, str | None]) -> WarmSpawner:
        """Return the warm spawner of the modules of an order to start. Start it if there is none.

        ``environment``: changes of the environment for the first attempt. What belongs to the attempt itself
        is left out.
        """
        preload, gang = start["preload"], start.get("gang")
        kind = "resident" if preload.get("resident") else "warm"
        if gang is not None and needs_crew(gang):
            kind = "warm_crew"
            if gang.get("processes", "") not in ("", "1"):  # libraries read it when they are imported
                environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), **environment}
        key = (interpreter, kind, *preload["modules"])
        found = self._spawners.get(key)
        if found is None:
            found = started = self._start(interpreter, kind, preload["modules"], environment)
            if found.trouble is None:
                self._spawners[key] = found
                self._loop.on_readable(found.failures.fd, lambda: self._read(key, started))
            else:
                found.close()
        return found

    def _start(
        self, interpreter: str, kind: str, modules: list[str], environment: Mapping[str, str | None]
    ) -> WarmSpawner:
        environ = dict(os.environ)
        for name, value in environment.items():
            if name.startswith(_OWN):
                continue
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
        environ[warm.ROOM] = "." * warm.ROOM_BYTES
        requests, ask = os.pipe2(os.O_CLOEXEC)
        failures, report = os.pipe2(os.O_CLOEXEC)
        given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in (requests, report, self._wake)]
        arguments = [interpreter, program(), kind, "3", "4", "5", ",".join(modules), self._directory]
        trouble = None
        pid = 0
        try:
            pid = os.posix_spawn(
                interpreter,
                arguments,
                environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(given, 3)],
            )
        except OSError as error:
            trouble = f"{interpreter} cannot be run: {error.strerror}"
        for fd in (requests, report, *given):
            os.close(fd)
        return WarmSpawner(RequestPipe(ask, pid, self._loop), failures, trouble)

    def _read(self, key: tuple[str, ...], spawner: WarmSpawner) -> None:
        for line in spawner.failures.lines():
            kind, _, rest = line.partition(" ")
            if kind == warm.READY:
                spawner.ready = True
                self._changed()
            elif kind == warm.REFUSED:
                spawner.trouble = rest
                self._changed()
            else:
                self._failed(line)
        if spawner.failures.ended:
            self._loop.forget(spawner.failures.fd)
            _, status = os.waitpid(spawner.requests.pid, 0)
            if spawner.ready:
                self._ended()
                return
            if spawner.trouble is None:
                spawner.trouble = f"the interpreter {_end(status)} during the imports (see the keeper's log)"
                self._changed()
            del self._spawners[key]  # the attempts that waited have failed; the next one tries again
            spawner.close()


def _end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"has ended with exit code {os.WEXITSTATUS(status)}"
