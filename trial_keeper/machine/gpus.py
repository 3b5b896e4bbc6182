"""What ``nvidia-smi`` says of this machine's GPUs: asked again and again by a thread of its own.

A reading is the ``gpu`` of ``trial_keeper.wire``. A tool that is missing, fails or hangs is a reading too: it
says what the trouble is, and nobody else waits for it.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine import procs

if TYPE_CHECKING:
    import subprocess
    from typing import Any, Callable

    from trial_keeper.wire import GpuReading

    Ask = Callable[[str], str]
else:
    Ask = object

PAUSE_S = 5.0  # between two readings
LONGEST_PAUSE_S = 60.0
SHARE = 10  # a slow tool is asked less often: it may take a tenth of the time
LIMIT_S = 15.0  # for an answer
DEATH_S = 5.0  # for one that was killed; in the driver it may hang for ever
STEP_MIB = 256  # memory is told in whole steps, so that little changes are no news


_GPUS = "--query-gpu=index,uuid,memory.used"
_PROCESSES = "--query-compute-apps=gpu_uuid,pid,used_memory"
_FORMAT = "--format=csv,noheader,nounits"


class Trouble(Exception):
    """The GPUs cannot be read; one sentence."""


class Owner(NamedTuple):
    """Of a process: ``job`` is the attempt that it belongs to, None if it is no trial's."""

    job: str | None


def read(ask: Ask, owner_of: Callable[[int], Owner | None]) -> GpuReading:
    """One reading. ``ask`` answers a query; ``owner_of`` is None for a process that cannot be seen."""
    gpus: dict[str, dict[str, Any]] = {}
    try:
        for index, uuid, memory in _rows(ask(_GPUS)):
            if _is_number(index):
                gpus[uuid] = {"index": int(index), "memory": _mib(memory), "processes": []}
        for uuid, pid, memory in _rows(ask(_PROCESSES)) if gpus else []:
            owner = owner_of(int(pid)) if _is_number(pid) else None
            if uuid in gpus and owner is not None:
                gpus[uuid]["memory"] -= _mib(memory)
                gpus[uuid]["processes"].append([int(pid), owner.job])
    except Trouble as trouble:
        return {"trouble": str(trouble), "gpus": []}
    for gpu in gpus.values():
        gpu["memory"] = max(0, gpu["memory"]) // STEP_MIB * STEP_MIB
        gpu["processes"].sort(key=lambda process: process[0])
    return {"trouble": None, "gpus": sorted(gpus.values(), key=lambda gpu: gpu["index"])}


def _rows(text: str) -> list[list[str]]:
    """The lines of three fields, which all queries have: the tool also prints sentences."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == 3]


def _mib(text: str) -> int:
    """An amount that may be "[N/A]"."""
    return int(text) if _is_number(text) else 0


def _is_number(text: str) -> bool:
    """Whether it can be what it should be: other digits than ours, and too many, are the tool's nonsense."""
    return text.isascii() and text.isdigit() and len(text) < 10


def owner_of(mark: str) -> Callable[[int], Owner | None]:
    """How to find the owner of a process: by ``mark`` in its environment, or in that of who started it."""
    prefix = f"{mark}="

    def find(pid: int) -> Owner | None:
        if procs.start_time(pid) is None:  # it has ended, or is in another container
            return None
        for each in (pid, *procs.ancestors(pid)):
            for text in procs.strings(each, "environ"):
                if text.startswith(prefix):
                    return Owner(text[len(prefix) :])
        return Owner(None)

    return find


class Tool:
    """``nvidia-smi`` on the PATH. One that hangs is killed, and not asked again before it is gone."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._asked: subprocess.Popen[bytes] | None = None
        self._stuck: subprocess.Popen[bytes] | None = None

    def __call__(self, query: str, over: threading.Event | None = None) -> str:
        """What it prints; it is killed where ``over`` is set. Raises Trouble."""
        import shutil  # only experiments with GPUs pay for these
        import subprocess

        hanging = f"nvidia-smi has not answered for {self.limit_s:g} s"
        if self._stuck is not None and self._stuck.poll() is None:
            raise Trouble(f"{hanging} and cannot be killed")
        self._stuck = None
        path = shutil.which("nvidia-smi")
        if path is None:
            raise Trouble("there is no nvidia-smi on the PATH")
        try:
            process = subprocess.Popen(
                [path, query, _FORMAT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise Trouble(f"{path} cannot be started: {error.strerror}") from error
        self._asked = process
        if over is not None and over.is_set():  # said before there was anything to abandon
            self.abandon()
        try:
            output, _ = process.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            self.abandon()
            assert process.stdout is not None
            process.stdout.close()
            try:
                process.wait(DEATH_S)
            except subprocess.TimeoutExpired:
                self._stuck = process
            raise Trouble(hanging) from None
        text = output.decode(errors="replace").strip()
        if process.returncode != 0 and not _rows(text):  # one GPU that is lost makes it fail for all
            said = text.splitlines()[0][:200] if text else "it says nothing"
            raise Trouble(f"nvidia-smi fails with code {process.returncode}: {said}")
        return text

    def abandon(self) -> None:
        """Kill the one that was asked last, if it still runs; from any thread."""
        asked = self._asked
        if asked is not None and asked.returncode is None:
            try:
                os.killpg(asked.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


class Survey:
    """Reads while it is switched on; ``told`` is called from its thread with each change."""

    def __init__(
        self,
        told: Callable[[GpuReading], None],
        *,
        mark: str,
        pause_s: float = PAUSE_S,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._told = told
        self._ask = Tool(limit_s)
        self._owner_of = owner_of(mark)
        self._pause_s = pause_s
        self._over: threading.Event | None = None  # ends the thread that reads

    def switch(self, on: bool) -> None:
        """Begin, with a reading that is told in any case, or end."""
        if self._over is not None:
            self._over.set()
            self._over = None
            self._ask.abandon()
        if on:
            self._over = threading.Event()
            threading.Thread(target=self._run, args=(self._over,), name="gpus", daemon=True).start()

    def _run(self, over: threading.Event) -> None:
        last: GpuReading | None = None
        pause = 0.0
        while not over.wait(pause):
            began = time.monotonic()
            reading = read(lambda query: self._ask(query, over), self._owner_of)
            if reading != last and not over.is_set():
                last = reading
                self._told(reading)
            spent = time.monotonic() - began
            pause = min(max(self._pause_s, SHARE * spent), LONGEST_PAUSE_S)
