"""Records the CPU, memory and GPU use of the machine and its trials in files. The server reads the files.

Each line of a file is one measurement: unix seconds, CPUs in use since the previous line, MiB of memory in
use, and each GPU as ``index:percent busy:MiB``, where "-" is unknown. The machine's file is ``usage`` in the
keeper's folder; a trial's file is ``.nni/usage`` in the trial's folder. Nothing is measured while no trial
runs. The longer the newest trial has been running, the longer are the pauses between measurements.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time

from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import usage

if TYPE_CHECKING:
    from typing import Callable, Iterable

    from trial_keeper.actions.files import Paths
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.machine.gpus import Load

NAME = "usage"
PAUSE_S = 10.0  # seconds between two measurements while the newest trial is young
LONGEST = 6  # greatest factor by which the pause grows while the newest trial gets older
SHARE = 1 / 400  # greatest share of one CPU that measurements may use
MOST_BYTES = 1 << 16  # most bytes of a file; from a longer file every second line is removed
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
SLACK_S = 1.0  # an ordinary shim starts its attempt within this time
_AT_ONCE = 4  # trials that are measured before the keeper continues with other work


class _Meter:
    """Conversion of a growing number of CPU seconds into CPUs in use."""

    def __init__(self, at: float, seconds: float) -> None:
        self._at = at
        self._seconds = seconds

    def cpus(self, at: float, seconds: float) -> float:
        """Return the number of CPUs in use since the last call."""
        used, passed = seconds - self._seconds, at - self._at
        self._at, self._seconds = at, seconds
        return max(0.0, used / passed) if passed > 0 else 0.0


class UsageLog:
    """Measures the resource use of the machine and of all running attempts, and appends it to their files.

    ``attempts``: all attempts of the keeper. ``loads`` returns the last reading of the GPUs.

    The pause between two measurements equals the age of the newest attempt, but is at least ``pause_s`` and
    at most ``LONGEST`` times ``pause_s``. Therefore many experiments with long trials cost little. With
    many trials the pause is longer, so that measurements use at most the share ``SHARE`` of one CPU.
    """

    def __init__(
        self,
        directory: str,
        attempts: dict[str, Attempt],
        paths: Paths,
        loads: Callable[[], Iterable[Load]],
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._path = f"{directory}/{NAME}"
        self._attempts = attempts
        self._paths = paths
        self._loads = loads
        self._pause_s = pause_s
        self._last_at: float | None = None
        self._cost = 0.0  # CPU seconds of the last measurement of all trials
        self._left: collections.deque[str] = collections.deque()  # attempts to measure in this round
        self._read_machine = usage.MachineUsage().read
        self._machine: _Meter | None = None
        self._meters: dict[str, _Meter] = {}

    def due_at(self) -> float | None:
        """Return when to call ``measure`` next, in seconds since the boot; None while no trial runs."""
        if self._left:
            return 0.0
        if any(attempt.live for attempt in self._attempts.values()):
            return self._next_at()
        self._machine = None
        return None

    def _next_at(self) -> float:
        last = self._last_at
        if last is None:
            return 0.0
        newest = next(reversed(self._attempts.values()))
        age = last - (newest.started_up or last)
        usual = min(max(age, self._pause_s), LONGEST * self._pause_s)
        return last + max(usual, self._cost / SHARE)

    def measure(self, now: float) -> None:
        """Measure the machine at the beginning of a round, then the next few trials of the round.

        A value that cannot be read or written is skipped.
        """
        began = time.process_time()
        if not self._left:
            self._last_at, self._cost = now, 0.0
            self._left.extend(job for job, attempt in self._attempts.items() if attempt.shim is not None)
            self._meters = {job: meter for job, meter in self._meters.items() if job in self._attempts}
            with contextlib.suppress(OSError, ValueError):
                self._measure_machine(now)
        for _ in range(min(_AT_ONCE, len(self._left))):
            attempt = self._attempts.get(self._left.popleft())
            if attempt is not None and attempt.live and attempt.shim is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._measure_trial(now, attempt, attempt.shim[0])
        self._cost += time.process_time() - began

    def _measure_machine(self, now: float) -> None:
        seconds, memory = self._read_machine()
        if self._machine is None:
            self._machine = _Meter(now, seconds)
            return
        gpus = [
            f"{load.gpu}:{'-' if load.busy is None else load.busy}:{load.memory}" for load in self._loads()
        ]
        append(self._path, self._machine.cpus(now, seconds), memory, gpus)

    def _measure_trial(self, now: float, attempt: Attempt, shim: int) -> None:
        seconds, memory = usage.of_trial(shim)
        meter = self._meters.get(attempt.job)
        if meter is None:
            age = now - (attempt.started_up or now)
            # If an earlier keeper has started the attempt, the time of its last measurement is unknown. If
            # the shim has run another attempt before, what that attempt has used is unknown.
            new = age < 2 * self._pause_s and usage.age_of(shim) < age + SLACK_S
            meter = self._meters[attempt.job] = _Meter(now - age, 0.0) if new else _Meter(now, seconds)
            if not new:
                return
        folder = self._paths.folder(attempt.directory)
        append(f"{folder}/.nni/{NAME}", meter.cpus(now, seconds), memory, [])


def append(path: str, cpus: float, memory: int, gpus: list[str]) -> None:
    """Append a measurement to a file. Never follow a link that a trial has put there. Raises OSError."""
    line = " ".join([f"{time.time():.1f}", f"{cpus:.2f}", str(memory), *gpus])
    fd = os.open(
        path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
    )
    try:
        os.write(fd, f"{line}\n".encode())
        if os.fstat(fd).st_size > MOST_BYTES:
            lines = os.pread(fd, 2 * MOST_BYTES, 0).splitlines(keepends=True)
            os.ftruncate(fd, 0)
            os.write(fd, b"".join(lines[::2]))
    finally:
        os.close(fd)
