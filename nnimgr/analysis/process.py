"""Server's side of the analysis process: it starts the process, sends questions and returns the answers.

The analysis is a separate process, because a question about 100,000 trials takes memory and processor time
that the server needs. The first question starts the process. The process exits when it has been idle for a
while, and the next question starts it again, also after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnimgr.analysis.errors import AnalysisFailed
from nnimgr.analysis.wire import LENGTH, frame, raise_failure
from nnimgr.child import how_it_ended, is_stopped
from nnimgr.libraries import fault_of

__all__ = ["Analyst"]

IDLE_S = 60.0
ANSWER_S = 120.0
LOOK_S = 1.0  # seconds between checks of a process that has not answered yet
STOPPED_LOOKS = 2  # consecutive checks that see a stopped process before it is replaced
_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "TZ")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_TAIL_BYTES = 4096
_READ_BYTES = 1 << 20
_LEAVES = "The server is shutting down."

logger = logging.getLogger(__name__)


class Analyst:
    """Client of the analysis process. It sends one question at a time, in the order of arrival."""

    def __init__(self, *, idle_s: float = IDLE_S, answer_s: float = ANSWER_S) -> None:
        self._idle_s, self._answer_s = idle_s, answer_s
        self._child: _Child | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the analysis process, or None if it does not run."""
        return None if self._child is None or self._child.gone else self._child.process.pid

    async def ask(
        self, database: Path, experiment_id: str, question: str, arguments: Mapping[str, Any]
    ) -> bytes:
        """Send a question about an experiment to the analysis process, and return the answer's bytes.

        If the caller is cancelled while it waits for its turn, the question is not sent. If it is cancelled
        later, the answer is dropped. Raise BadQuestion, StoreError, FileNotFoundError, AnalysisFailed.
        """
        if (lacks := fault_of(("numpy",))) is not None:
            raise AnalysisFailed(f"This question {lacks}.")
        asked = _Asked(
            frame(
                {
                    "database": str(database),
                    "experiment_id": experiment_id,
                    "question": question,
                    "arguments": arguments,
                }
            )
        )
        # A separate task, which continues if the caller is cancelled: an answer must be read to its end.
        exchange = asyncio.create_task(self._in_turn(asked), name=f"analysis:{question}")
        exchange.add_done_callback(_take_failure)
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            asked.dropped = True
            raise

    async def close(self) -> None:
        """End the analysis process. Callers that wait for an answer get AnalysisFailed."""
        self._closed = True
        if self._child is not None:
            self._child.kill()
            await self._child.ended()

    async def _in_turn(self, asked: _Asked) -> bytes:
        async with self._turn:
            answer = None if asked.dropped else await self._exchange(asked.frame)
            if answer is None and not asked.dropped:
                # The idle process had exited before it read the question: ask again, in a new process.
                answer = await self._exchange(asked.frame)
        if answer is None:
            raise AnalysisFailed("The analysis process exits right after its start.")
        return answer

    async def _exchange(self, asked: bytes) -> bytes | None:
        """Send a question and return its answer. Return None if the idle process had exited before it read
        the question.
        """
        if self._closed:
            raise AnalysisFailed(_LEAVES)
        if self._child is None or self._child.gone:
            self._child = await _start(self._idle_s)
        child = self._child
        try:
            async with asyncio.timeout(self._answer_s):
                return await _answer(child, asked)
        except _Stopped:
            child.kill()
            await child.ended()
            raise AnalysisFailed(
                "The analysis process was stopped from outside (SIGSTOP); it is replaced. Ask again."
            ) from None
        except TimeoutError:
            child.kill()
            await child.ended()
            raise AnalysisFailed(f"The analysis took longer than {self._answer_s:g} s.") from None
        except _Broken:
            sentence = await child.ended()
            if self._closed:
                raise AnalysisFailed(_LEAVES) from None
            if child.process.returncode == 0:
                return None
            logger.error("%s", sentence)
            raise AnalysisFailed(sentence) from None


@dataclass(slots=True)
class _Asked:
    frame: bytes
    dropped: bool = False  # True when no caller waits for the answer


class _Broken(Exception):
    """Error: the analysis process has ended, or is about to end, and cannot answer."""


class _Stopped(Exception):
    """Error: the analysis process is suspended (SIGSTOP) and cannot answer."""


class _Child:
    """A running analysis process, and the last part of its standard error."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._tail = b""
        self._listening = asyncio.create_task(self._listen(), name="analysis:stderr")

    @property
    def gone(self) -> bool:
        return self.process.returncode is not None

    async def exchange(self, asked: bytes) -> bytes:
        """Send a question to the process and return the bytes of its answer.

        Raise the error that the answer reports, or _Broken if the process ends.
        """
        into, out = self.process.stdin, self.process.stdout
        assert into is not None and out is not None
        try:
            into.write(asked)
            await into.drain()
            (size,) = LENGTH.unpack(await out.readexactly(LENGTH.size))
            head = json.loads(await out.readexactly(size))
            body = await out.readexactly(head.get("length", 0))
        except (EOFError, OSError) as error:
            raise _Broken from error
        raise_failure(head)
        return body

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def ended(self) -> str:
        """Wait for the process to end. Return a sentence that says how it ended."""
        await self.process.wait()
        await self._listening
        last = next((line for line in reversed(self._tail.decode(errors="replace").splitlines()) if line), "")
        sentence = f"The analysis process {how_it_ended(self.process.returncode)}"
        return f"{sentence}; its last output: {last[:300]}" if last else f"{sentence}."

    async def _listen(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        while text := await stream.read(_TAIL_BYTES):
            logger.error("output of the analysis process: %s", text.decode(errors="replace").rstrip())
            self._tail = (self._tail + text)[-_TAIL_BYTES:]


async def _answer(child: _Child, asked: bytes) -> bytes:
    """Send a question to the analysis process and return its answer. Raise _Stopped if the process is
    suspended.
    """
    exchange = asyncio.create_task(child.exchange(asked), name="analysis:exchange")
    looks = 0
    try:
        while looks < STOPPED_LOOKS:
            answered, _ = await asyncio.wait({exchange}, timeout=LOOK_S)
            if answered:
                return exchange.result()
            looks = looks + 1 if is_stopped(child.process.pid) else 0
        raise _Stopped
    finally:
        exchange.cancel()


async def _start(idle_s: float) -> _Child:
    """Start an analysis process, which exits after ``idle_s`` seconds without a question.

    Raise AnalysisFailed if the process cannot be started.
    """
    environ = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "nnimgr.analysis.worker", str(idle_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ | _ONE_THREAD,
            start_new_session=True,
            limit=_READ_BYTES,
        )
    except OSError as error:
        raise AnalysisFailed(f"The analysis process could not be started: {error}.") from error
    return _Child(process)


def _take_failure(exchange: asyncio.Task[bytes]) -> None:
    """Mark the task's exception as handled. Otherwise asyncio would log it if the caller was cancelled."""
    if not exchange.cancelled():
        exchange.exception()
