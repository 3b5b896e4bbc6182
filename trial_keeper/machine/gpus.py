"""Reads the state of this machine's GPUs by running ``nvidia-smi`` repeatedly, in a separate thread.

A reading has the form of the field ``gpu`` of ``trial_keeper.wire``. If ``nvidia-smi`` is missing, fails or
hangs, the reading has the error, and no other work of the keeper waits.
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

PAUSE_S = 5.0  # seconds between two readings
LONGEST_PAUSE_S = 60.0
SHARE = 10  # a slow tool is run less often, so that it uses at most 1/SHARE of the time
LIMIT_S = 15.0  # limit in seconds for an answer of the tool
DEATH_S = 5.0  # limit in seconds for the end of a killed tool, which may hang in the driver for ever
STEP_MIB = 256  # MiB; memory is rounded to multiples of this, so that small changes are not reported


GPUS = "--query-gpu=index,uuid,memory.used,utilization.gpu"
PROCESSES = "--query-compute-apps=gpu_uuid,pid,used_memory"
_FORMAT = "--format=csv,noheader,nounits"


class Trouble(Exception):
    """Error: the GPUs cannot be read. The message is one sentence."""


class NoTool(Trouble):
    """Error: this machine has no ``nvidia-smi``."""


class Owner(NamedTuple):
    """Owner of a process. ``job``: attempt that the process belongs to, or None if no trial started it."""

    job: str | None


class Load(NamedTuple):
    """Load of one GPU.

    ``busy``: percentage of the last sample period (at most 1 s) in which the GPU computed; None: unknown.
    """

    gpu: int  # index of the GPU in nvidia-smi
    busy: int | None
    memory: int  # MiB in use


class Measured(NamedTuple):
    """Result of one reading of the GPUs. ``loads`` is empty if the GPUs cannot be read."""

    reading: GpuReading
    loads: list[Load]


def read(ask: Ask, owner_of: Callable[[int], Owner | None]) -> Measured:
    """Read the state of all GPUs, and the processes that use them.

    ``ask`` runs ``nvidia-smi`` with a query. ``owner_of`` returns the owner of a process, or None if the
    process cannot be seen here. Without ``nvidia-smi``, the GPUs are those that a batch system has given.
    """
    gpus: dict[str, dict[str, Any]] = {}
    loads: list[Load] = []
    try:
        for index, uuid, memory, busy in _rows(ask(GPUS), 4):
            if _is_number(index):
                gpus[uuid] = {**_unused(int(index)), "memory": _mib(memory)}
                loads.append(Load(int(index), int(busy) if _is_number(busy) else None, _mib(memory)))
        for uuid, pid, memory in _rows(ask(PROCESSES), 3) if gpus else []:
            owner = owner_of(int(pid)) if _is_number(pid) else None
            if uuid in gpus and owner is not None:
                gpus[uuid]["memory"] -= _mib(memory)
                gpus[uuid]["processes"].append([int(pid), owner.job])
    except Trouble as trouble:
        given = _given() if isinstance(trouble, NoTool) else None
        if given is not None:
            return Measured({"trouble": None, "gpus": [_unused(index) for index in sorted(given)]}, [])
        return Measured({"trouble": str(trouble), "gpus": []}, [])
    for gpu in gpus.values():
        gpu["memory"] = max(0, gpu["memory"]) // STEP_MIB * STEP_MIB
        gpu["processes"].sort(key=lambda process: process[0])
    reading: GpuReading = {"trouble": None, "gpus": sorted(gpus.values(), key=lambda gpu: gpu["index"])}
    return Measured(reading, sorted(loads, key=lambda load: load.gpu))


def _rows(text: str, fields: int) -> list[list[str]]:
    """Split the output of ``nvidia-smi`` into lines and fields.

    Lines that do not have the number ``fields`` of fields are skipped.
    """
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == fields]


def _mib(text: str) -> int:
    """Return the amount of memory in a field of ``nvidia-smi``, in MiB; 0 if the field is not a number."""
    return int(text) if _is_number(text) else 0


def _is_number(text: str) -> bool:
    """Return whether this text is a plain number of ASCII digits and of bounded length."""
    return text.isascii() and text.isdigit() and len(text) < 10


def granted(reading: GpuReading) -> GpuReading:
    """Return the reading without the GPUs that a batch system has not given to its job."""
    given = _given()
    if given is None:
        return reading
    found: GpuReading = {**reading, "gpus": [gpu for gpu in reading["gpus"] if gpu["index"] in given]}
    return found


def _given() -> set[int] | None:
    """Return the indices of the GPUs that a batch system has given to its job, from NNIMGR_HOST_GPUS.

    Return None if the variable is missing, or has no indices.
    """
    indices = (os.environ.get("NNIMGR_HOST_GPUS") or "all").split(",")
    return set(map(int, indices)) if all(map(_is_number, indices)) else None


def _unused(index: int) -> dict[str, Any]:
    """Return the GPU with this index, as if nothing used it."""
    return {"index": index, "memory": 0, "processes": []}


def owner_of(mark: str) -> Callable[[int], Owner | None]:
    """Build the function that finds the owner of a process, given its pid.

    The owner is the value of the variable ``mark`` in the environment of the process or of an ancestor.
    """
    prefix = f"{mark}="

    def find(pid: int) -> Owner | None:
        if procs.start_time(pid) is None:  # the process has ended, or runs in another container
            return None
        for each in (pid, *procs.ancestors(pid)):
            for text in procs.strings(each, "environ"):
                if text.startswith(prefix):
                    return Owner(text[len(prefix) :])
        return Owner(None)

    return find


class Tool:
    """Runner of ``nvidia-smi``. If it hangs, it is killed, and is not run again before it has ended."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._asked: subprocess.Popen[bytes] | None = None
        self._stuck: subprocess.Popen[bytes] | None = None

    def __call__(self, query: str, over: threading.Event | None = None) -> str:
        """Run ``nvidia-smi`` with this query and return its output. Raises Trouble.

        If the event ``over`` is set before ``nvidia-smi`` has started, it is killed at once.
        """
        import shutil  # imported here, because only experiments with GPUs need these modules
        import subprocess

        hanging = f"nvidia-smi has not answered for {self.limit_s:g} s"
        if self._stuck is not None and self._stuck.poll() is None:
            raise Trouble(f"{hanging} and cannot be killed")
        self._stuck = None
        path = shutil.which("nvidia-smi")
        if path is None:
            raise NoTool("there is no nvidia-smi on the PATH")
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
        if over is not None and over.is_set():  # the reading was cancelled before the tool was started
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
        # one lost GPU makes the tool fail although it lists the other GPUs
        if process.returncode != 0 and text.count(",") < 2:
            said = text.splitlines()[0][:200] if text else "no output"
            raise Trouble(f"nvidia-smi fails with code {process.returncode}: {said}")
        return text

    def abandon(self) -> None:
        """Kill ``nvidia-smi`` if it runs. May be called from any thread."""
        asked = self._asked
        if asked is not None and asked.returncode is None:
            try:
                os.killpg(asked.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


class Survey:
    """Reads the state of the GPUs at intervals while it is switched on.

    The reading thread calls ``told`` after each change.
    """

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
        self._over: threading.Event | None = None  # event that ends the reading thread
        self.loads: list[Load] = []  # loads of the GPUs at the last reading

    def switch(self, on: bool) -> None:
        """Start the readings, or end them. The first reading is always reported."""
        if self._over is not None:
            self._over.set()
            self._over = None
            self._ask.abandon()
            self.loads = []
        if on:
            self._over = threading.Event()
            threading.Thread(target=self._run, args=(self._over,), name="gpus", daemon=True).start()

    def _run(self, over: threading.Event) -> None:
        last: GpuReading | None = None
        pause = 0.0
        while not over.wait(pause):
            began = time.monotonic()
            reading, loads = read(lambda query: self._ask(query, over), self._owner_of)
            if over.is_set():
                return
            self.loads = loads
            if reading != last:
                last = reading
                self._told(reading)
            spent = time.monotonic() - began
            pause = min(max(self._pause_s, SHARE * spent), LONGEST_PAUSE_S)
