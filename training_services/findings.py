"""Checks of a machine for ``nnictl doctor``, from facts that the machine has reported.

The checks make no connection to the machine.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from training_services.base import shown_bytes

__all__ = ["Check", "Finding", "Level", "Needs", "judge"]

# Free bytes on a disk: below the first, trials cannot run; below the second, a warning is shown.
LEAST_BYTES, FEW_BYTES = 100 << 20, 2 << 30
LEAST_FILES = 1000
CLOCK_S = 5.0


class Check(StrEnum):
    """Property of a machine that ``nnictl doctor`` checks."""

    CONFIG = "config"
    CONNECTION = "connection"
    PYTHON = "Python"
    WRITING = "writing"
    DISK = "disk"
    GPUS = "GPUs"
    CLOCK = "clock"
    CODE = "code"
    TRIAL = "trial"
    PAIRS = "other machines"


class Level(StrEnum):
    """Severity of a finding. Only a FAULT prevents trials from running."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "FAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check of ``machine``: a sentence.

    Unless the level is OK, the sentence says what to do.
    """

    machine: str
    check: Check
    level: Level
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Requirements of a trial for its machine. ``gpu_indices``: GPUs that trials may use; None: all GPUs.

    ``python_path``: directory that must contain Python on the machine; None: any Python is accepted.
    """

    gpus: float | None = None
    gpu_indices: Collection[int] | None = None
    python_path: str | None = None


def judge(machine: str, facts: Mapping[str, Any], *, needs: Needs, ahead_s: float) -> Iterator[Finding]:
    """Yield findings from ``facts``, which ``trial_keeper.attendant`` has reported about a machine.

    ``ahead_s``: number of seconds by which the machine's clock is ahead of this server's clock.
    """

    def found(check: Check, level: Level, sentence: str) -> Finding:
        return Finding(machine=machine, check=check, level=level, sentence=sentence)

    yield found(Check.PYTHON, *_python(facts, needs.python_path))
    if facts["trouble"] is not None:
        sentence = f"cannot write to {facts['top']}: {facts['trouble']}; give this user write permission"
        yield found(Check.WRITING, Level.FAULT, sentence)
    else:
        yield found(Check.WRITING, Level.OK, f"{facts['top']} is writable")
    yield found(Check.DISK, *_disk(facts))
    yield found(Check.GPUS, *_gpus(facts["gpus"], needs))
    if abs(ahead_s) > CLOCK_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        sentence = (
            f"the clock is {_span(abs(ahead_s))} {way} this server's clock: set it (timedatectl set-ntp "
            "true), or the times in trials' logs and files are wrong"
        )
        yield found(Check.CLOCK, Level.WARNING, sentence)
    else:
        yield found(Check.CLOCK, Level.OK, f"the clock differs from this server's by less than {CLOCK_S:g} s")


def _python(facts: Mapping[str, Any], folder: str | None) -> tuple[Level, str]:
    said = f"Python {facts['python']} ({facts['executable']})"
    wanted = posixpath.normpath((folder or "").removeprefix("~"))
    there = posixpath.dirname(posixpath.normpath(facts["executable"]))
    if folder is None or there == wanted or (folder.startswith("~/") and there.endswith(wanted)):
        return Level.OK, f"{said}, {facts['cpus']} CPUs"
    return Level.WARNING, (
        f"pythonPath {folder} is not a directory with a python3 of version 3.8 or newer: {said} is used "
        "instead; give the directory that contains python3, not python3 itself"
    )


def _disk(facts: Mapping[str, Any]) -> tuple[Level, str]:
    free, files, top = int(facts["free_bytes"]), int(facts["free_files"]), facts["top"]
    if files and free and files < LEAST_FILES:  # some file systems report 0 because they do not count files
        return Level.FAULT, f"only {files} more files can be created below {top}: remove some"
    said = f"{shown_bytes(free)} free below {top}"
    if free < LEAST_BYTES:
        return Level.FAULT, f"only {said}: free some disk space"
    if free < FEW_BYTES:
        return Level.WARNING, f"only {said}: the trials' files may not fit"
    return Level.OK, said


def _gpus(reading: Mapping[str, Any], needs: Needs) -> tuple[Level, str]:
    there = [gpu["index"] for gpu in reading["gpus"]]
    wanted = math.ceil(needs.gpus or 0)
    if not wanted:
        return Level.OK, f"{_count(len(there))}, none is needed"
    if reading["trouble"] is not None:
        return Level.FAULT, (
            f"a trial needs {_count(wanted)}, but the GPUs cannot be read: {reading['trouble']}; "
            "install the driver with its tools, or let the trials run without a GPU or on another machine"
        )
    if missing := sorted(set(needs.gpu_indices or ()) - set(there)):
        return Level.FAULT, f"the machine has no GPU {', '.join(map(str, missing))}: correct gpuIndices"
    usable = there if needs.gpu_indices is None else [index for index in there if index in needs.gpu_indices]
    if len(usable) < wanted:
        return Level.FAULT, (
            f"a trial needs {_count(wanted)} and may use {_count(len(usable))} here: lower "
            "trialGpuNumber, or let the trials run on another machine"
        )
    busy = sum(1 for gpu in reading["gpus"] if gpu["index"] in usable and gpu["processes"])
    return Level.OK, f"{_count(len(usable))}" + (f", {busy} of them in use" if busy else "")


def _count(number: int) -> str:
    return "no GPU" if number == 0 else "1 GPU" if number == 1 else f"{number} GPUs"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
