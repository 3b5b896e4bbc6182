"""Starts one small process for each open experiment, which NNI's programs can signal to stop the experiment.

In NNI, each experiment has a server process of its own. NNI's programs send SIGTERM to the pid of this
process to stop the experiment, and wait until the process has ended. Our server hosts many experiments, so
its own pid would not work: the signal would end the server and not the experiment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Awaitable, Callable

from nnimgr.home import HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.rules.facts import ExperimentStatus

__all__ = ["StandIns"]

logger = logging.getLogger(__name__)

# A shell with this script needs 0.1 MiB. It prints a line at SIGTERM, and exits when the server closes its
# standard input.
_SCRIPT = """
trap 'echo stop; again=1' TERM
trap '' INT HUP
while read -r line || [ "$again" ]; do again=; done
"""
_RETRY_S = (1.0, 60.0)  # first and longest wait before a process that could not be started is tried again


class StandIns:
    """Keeps one process running for each open experiment. SIGTERM to a process stops its experiment.

    ``stop`` stops an experiment by its id, and returns when the experiment's trials have ended. ``index``:
    the file that lists the experiments, with their pids. Unless ``enabled``, no processes are started.
    """

    def __init__(self, index: Index, *, stop: Callable[[str], Awaitable[object]], enabled: bool) -> None:
        self._index, self._stop, self._enabled = index, stop, enabled
        self._pids: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()  # tasks that end by themselves

    def pid(self, experiment_id: str) -> int:
        """Return the pid of the process that represents an experiment, or the server's own pid without
        such a process.
        """
        return self._pids.get(experiment_id, os.getpid())

    def note(self, entry: IndexEntry) -> None:
        """Start or end the process that represents an experiment, depending on the status in its index
        entry.
        """
        if not self._enabled:
            return
        if entry.status != ExperimentStatus.STOPPED and entry.id not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[entry.id] = loop.create_task(self._keep(entry.id), name=f"stand-in:{entry.id}")
        elif entry.status == ExperimentStatus.STOPPED and entry.id in self._tasks:
            task = self._tasks.pop(entry.id)
            task.cancel()
            self._let_end(task)

    async def close(self) -> None:
        """End all processes that represent experiments. The experiments themselves continue."""
        tasks = [*self._tasks.values(), *self._ending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, experiment_id: str) -> None:
        """Keep a process running that represents an experiment, until this task is cancelled."""
        delay, longest = _RETRY_S
        while True:
            try:
                await self._stand(experiment_id)
            except (OSError, KeyError, HomeError) as error:
                logger.warning(
                    "the process by which NNI's programs can stop experiment %s is missing: %s",
                    experiment_id,
                    error,
                )
                await asyncio.sleep(delay)
                delay = min(2 * delay, longest)

    async def _stand(self, experiment_id: str) -> None:
        """Start a process that represents an experiment. Stop the experiment when the process gets SIGTERM.

        Return when the process has ended.
        """
        shell = _start(f"nnimgr-experiment-{experiment_id}")
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        assert shell.stdout is not None
        output = shell.stdout.fileno()

        def read() -> None:
            if os.read(output, 512):
                logger.info("experiment %s is stopped: its process got SIGTERM", experiment_id)
                self._let_end(loop.create_task(self._stopped(experiment_id)))
            else:
                loop.remove_reader(output)
                over.set()

        loop.add_reader(output, read)
        try:
            self._pids[experiment_id] = shell.pid
            await asyncio.to_thread(self._index.update, experiment_id, pid=shell.pid)
            await over.wait()
        finally:
            if self._pids.get(experiment_id) == shell.pid:
                del self._pids[experiment_id]
            loop.remove_reader(output)
            shell.kill()
            with shell:  # waits for the process and closes the pipes
                pass

    def _let_end(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _stopped(self, experiment_id: str) -> None:
        try:
            await self._stop(experiment_id)
        except Exception as error:  # for example, the experiment is stopped already
            logger.warning("experiment %s could not be stopped after the SIGTERM: %s", experiment_id, error)


def _start(name: str) -> subprocess.Popen[bytes]:
    """Start a shell with ``_SCRIPT``, under ``name`` in the list of processes. Raises OSError.

    With ``asyncio.create_subprocess_exec`` and uvloop, the server would stand still for 10 ms.
    """
    return subprocess.Popen(
        ("/bin/sh", "-c", _SCRIPT, name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={},
        cwd="/",
        start_new_session=True,
    )
