"""Keeps the processes of an experiment's sinks running, and tells them how far the experiment has come.

A sink reads the events from the database itself, so a slow or failing sink delays nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnimgr.child import how_it_ended
from nnimgr.config.references import ReferenceUnresolved
from nnimgr.core.running.notices import Notice
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.terms import ExperimentStatus

__all__ = ["SinkProcesses", "SinkStart", "folder_names"]

logger = logging.getLogger(__name__)

RESTART_S = (1.0, 60.0)  # first and longest wait before a failed sink is started again
CLOSING_S = 10.0  # longest wait until a sink has written the last events
BEHIND_S = 30.0  # time without progress after which a sink is reported
_ENDED = (ExperimentStatus.STOPPED, ExperimentStatus.DONE, ExperimentStatus.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStart:
    """What the process of a sink needs. ``title``: name of the sink for messages. ``directory``: its folder.

    ``target``: its class, as "module:Class". ``code``: folder of a user's module. ``arguments``: arguments of
    the class, with secrets.
    """

    title: str
    target: str
    code: str | None
    arguments: Mapping[str, Any] = field(repr=False)
    directory: Path
    database: Path
    python: str
    environ: Mapping[str, str] = field(repr=False)
    cwd: Path
    log_path: Path


class SinkProcesses:
    """The sinks of one experiment. Call ``turned`` whenever the experiment's state changes."""

    def __init__(self, count: Callable[[], int], start: Callable[[int], SinkStart]) -> None:
        """Create the object. ``count`` returns the number of sinks, and is called at the first change.

        ``start`` returns what the process of a sink needs. It raises ReferenceUnresolved or OSError.
        """
        self._count, self._start = count, start
        self._sinks: list[_Supervised] | None = None

    @property
    def notices(self) -> Mapping[str, Notice]:
        """Return the errors of sinks, and sinks that make no progress, as notices about the experiment."""
        told = {f"sinks[{each.index}]": each.notice for each in self._sinks or ()}
        return {name: notice for name, notice in told.items() if notice is not None}

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the sinks."""
        return [each.pid for each in self._sinks or () if each.pid is not None]

    def turned(self, state: ExperimentState) -> None:
        """Tell the sinks the number of the last fact. The first call starts their processes.

        After the end of the experiment, the processes end when they have written all events.
        """
        if self._sinks is None:
            self._sinks = [_Supervised(state.id, index, self._start) for index in range(self._count())]
        for sink in self._sinks:
            sink.tell(state.number, rest=state.status in _ENDED)

    async def close(self) -> None:
        """Have the sinks write the last events, and end their processes. Give up after some seconds."""
        await asyncio.gather(*(sink.close() for sink in self._sinks or ()))


class _Supervised:
    """One sink, and the task that starts its process again after failures."""

    def __init__(self, experiment_id: str, index: int, start: Callable[[int], SinkStart]) -> None:
        self.index = index
        self.trouble: str | None = None
        self._id, self._start = experiment_id, start
        self._number, self._told, self._written = 0, 0, 0
        self._behind_since: float | None = None  # time of the event loop; None: all events are written
        self._changed = asyncio.Event()
        self._closing = False
        self._resting = False  # True: the process ends when it has written all events
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.create_task(self._keep_running(), name=f"{experiment_id}:sinks[{index}]")

    @property
    def pid(self) -> int | None:
        """Process id of the sink's latest process, or None."""
        return None if self._process is None else self._process.pid

    @property
    def notice(self) -> Notice | None:
        """Return what a user should know about the sink, or None."""
        if self.trouble is not None:
            return Notice(subject=self.trouble)
        if self._behind_since is None:
            return None
        seconds = asyncio.get_running_loop().time() - self._behind_since
        if seconds < BEHIND_S:
            return None
        return Notice(subject=f"sinks[{self.index}] has written none of the latest events", seconds=seconds)

    def tell(self, number: int, *, rest: bool) -> None:
        if number > self._number or rest is not self._resting:
            self._number, self._resting = number, rest
            if self._behind_since is None and number > self._written:
                self._behind_since = asyncio.get_running_loop().time()
            self._changed.set()

    async def close(self) -> None:
        self._closing = True
        self._changed.set()
        _, late = await asyncio.wait({self._task}, timeout=CLOSING_S)
        if late:
            logger.warning(
                "experiment %s: sinks[%d] has not written all events; it continues when the experiment is "
                "opened again",
                *(self._id, self.index),
            )
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _keep_running(self) -> None:
        """Run the sink's process until the experiment is closed, except while it rests. After a failure,
        start it again, with back-off.
        """
        first, longest = RESTART_S
        delay = first
        while True:
            before = self._written
            trouble = await self._run()
            if self._closing:
                return
            if trouble is None:
                await self._rested()
                delay = first
                continue
            if self._written > before:
                delay = first
            self.trouble = trouble
            logger.warning("experiment %s: %s", self._id, trouble)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._until_closing(), delay)
                return
            delay = min(2 * delay, longest)

    async def _rested(self) -> None:
        """Wait until the experiment is resumed, has new events, or is closed."""
        self._process = None
        while self._resting and self._number == self._told and not self._closing:
            self._changed.clear()
            await self._changed.wait()

    async def _until_closing(self) -> None:
        while not self._closing:
            await self._changed.wait()
            self._changed.clear()

    async def _run(self) -> str | None:
        """Run the process once. Return a sentence that says how it failed; None if it has ended in order."""
        try:
            start = self._start(self.index)
            process = self._process = await _spawned(start)
        except (ReferenceUnresolved, OSError) as error:
            return f"sinks[{self.index}] cannot be started: {error}"
        said: dict[str, str] = {}
        feeding = asyncio.create_task(self._feed(process, start), name=f"{self._id}:feed-sink")
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                self._heard(json.loads(line), said)
            await process.wait()
        finally:
            feeding.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode == 0 and self._resting:
            return None
        why = said.get("failed") or f"its process {how_it_ended(process.returncode)}; see {start.log_path}"
        return f"the sink {start.title} has failed and is started again: {why}"

    def _heard(self, message: Mapping[str, Any], said: dict[str, str]) -> None:
        if "number" in message:
            self._written, self.trouble = message["number"], None
            is_behind = self._written < self._number
            self._behind_since = asyncio.get_running_loop().time() if is_behind else None
        elif "waits" in message:
            self.trouble = f"sinks[{self.index}] waits: {message['waits']}"
        else:
            said.update(message)

    async def _feed(self, process: asyncio.subprocess.Process, start: SinkStart) -> None:
        """Write the start to the process, and then each new number. At the end, close its input."""
        pipe = process.stdin
        assert pipe is not None
        first = {
            "target": start.target,
            "code": start.code,
            "arguments": start.arguments,
            "directory": str(start.directory),
            "database": str(start.database),
            "experiment": self._id,
            "server": os.getpid(),
            "closing_s": CLOSING_S,
        }
        self._told = 0
        with contextlib.suppress(ConnectionError):  # the process has ended, which _run notices
            pipe.write(json.dumps(first).encode() + b"\n")
            while True:
                if self._told < self._number:
                    self._told = self._number
                    pipe.write(b"%d\n" % self._told)
                    await pipe.drain()
                if self._closing or self._resting:
                    break
                await self._changed.wait()
                self._changed.clear()
            pipe.close()


async def _spawned(start: SinkStart) -> asyncio.subprocess.Process:
    log = os.open(start.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *(start.python, "-P", "-m", "nnimgr.sinks.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=dict(start.environ),
            cwd=start.cwd,
            start_new_session=True,
        )
    finally:
        os.close(log)


def folder_names(titles: Sequence[str]) -> list[str]:
    """Return a folder name for each sink: its title, with a number if an earlier one has the same title."""
    found: list[str] = []
    for title in titles:
        count = 1 + sum(name.rpartition("-")[0] == title or name == title for name in found)
        found.append(title if count == 1 else f"{title}-{count}")
    return found
