"""Typed records of a keeper's request. The body of a call is parsed completely when it arrives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from training_services.base import Cause, EndReason
from training_services.placement.needs import Capacity, Gpu, GpuProcess, GpuReading
from trial_keeper import wire
from trial_keeper.wire import WireError

__all__ = ["Attempt", "Final", "HostFacts", "Request", "Started", "WireError", "read_request"]


_JOB_ID = re.compile(r"[A-Za-z0-9_-]+-[a-z0-9]+-[0-9]+(\.[0-9]+)?")


class Started(NamedTuple):
    at: datetime
    pid: int | None


class Final(NamedTuple):
    """End of an attempt as reported by its keeper. ``reason`` is None if its machine was restarted."""

    reason: EndReason | None
    code: int | None
    signal: int | None
    frames: int
    at: datetime
    message: str | None
    cause: Cause | None = None
    unreached: bool = False  # the attempt is a member of a gang that could not reach its leader


class Attempt(NamedTuple):
    first: int  # position of the first frame of this report in the metrics file
    payloads: list[bytes]
    started: Started | None
    note: str | None
    final: Final | None

    @property
    def reach(self) -> int:
        """Number of metric frames that the server must have received before this report counts as
        complete.
        """
        return max(self.first + len(self.payloads), self.final.frames if self.final else 0)


class HostFacts(NamedTuple):
    """Keeper's report on its machine's capacity, with the keeper's own version."""

    capacity: Capacity
    version: str


class Request(NamedTuple):
    instance: str
    k_epoch: int
    sync_no: int
    boot_id: str
    db_id_seen: str | None
    m_epoch_seen: int
    acked_cmd: int
    seen_cmd: int
    all: bool
    wait: bool
    status: str | None
    attempts: Mapping[str, Attempt]
    gpus: GpuReading | None = None  # new GPU reading, if any
    facts: HostFacts | None = None
    ending: bool = False  # the host is about to shut down
    stays: bool = False  # the keeper knows that files are still to be copied from its host
    pruned: int = 0  # number of the last order to delete checkpoints that is carried out

    @property
    def news(self) -> bool:
        """True if the call reports something. A call without a report is held until there is something to
        answer.
        """
        return not self.wait or self.all or bool(self.attempts)


def read_request(body: bytes) -> Request:
    """Parse the body of a keeper's call. Raises WireError for every kind of malformed body."""
    header, payloads = wire.decode_request(body)
    try:
        ending = header.get("ending")
        return Request(
            instance=_text(header["instance"]),
            k_epoch=_natural(header["k_epoch"]),
            sync_no=_natural(header["sync_no"]),
            boot_id=_text(header["boot_id"]),
            db_id_seen=_optional_text(header.get("db_id_seen")),
            m_epoch_seen=_natural(header["m_epoch_seen"]),
            acked_cmd=_natural(header["acked_cmd"]),
            seen_cmd=max(_natural(header["seen_cmd"]), header["acked_cmd"]),
            all=bool(header.get("all")),
            wait=bool(header.get("wait")),
            status=_optional_text(header.get("status")),
            attempts={
                job_id: _attempt(attempt, payloads[job_id]) for job_id, attempt in header["attempts"].items()
            },
            gpus=None if header.get("gpu") is None else _gpus(header["gpu"]),
            facts=None if header.get("host") is None else _facts(header["host"]),
            ending=ending is not None,
            stays=ending is not None and bool(ending["stays"]),
            pruned=_natural(header.get("pruned", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        raise WireError(f"bad header: {error!r}") from error


def _attempt(raw: Any, payloads: list[bytes]) -> Attempt:
    started, final = raw.get("started"), raw.get("final")
    return Attempt(
        first=_natural(raw["from"]),
        payloads=payloads,
        started=None if started is None else Started(_instant(started["at"]), _optional_int(started["pid"])),
        note=_optional_text(raw.get("note")),
        final=None if final is None else _final(final),
    )


def _final(raw: Any) -> Final:
    reason, cause = raw["reason"], raw.get("cause")
    return Final(
        reason=None if reason == wire.HOST_LOST else EndReason(reason),
        code=_optional_int(raw["code"]),
        signal=_optional_int(raw["signal"]),
        frames=_natural(raw["n"]),
        at=_instant(raw["at"]),
        message=_optional_text(raw.get("message")),
        cause=None if cause is None else Cause(cause),
        unreached=bool(raw.get("unreached")),
    )


def _gpus(raw: Any) -> GpuReading:
    gpus = tuple(
        Gpu(
            index=_natural(gpu["index"]),
            memory=_natural(gpu["memory"]),
            processes=tuple(GpuProcess(_natural(pid), _job(job_id)) for pid, job_id in gpu["processes"]),
        )
        for gpu in raw["gpus"]
    )
    return GpuReading(gpus, trouble=_optional_text(raw["trouble"]))


def _facts(raw: Any) -> HostFacts:
    cpus = raw["cpus"]
    if type(cpus) not in (int, float) or not 0 < cpus < 1e6:
        raise ValueError(f"{cpus!r} is not a number of CPUs")
    memory, disk = _natural(raw["memory"]), raw.get("disk")
    return HostFacts(
        Capacity(cpus=cpus, memory=max(1, memory), disk=None if disk is None else _natural(disk)),
        version=_text(raw["version"]),
    )


def _job(value: Any) -> str | None:
    """Return the job id of a process on a GPU, or None if it is malformed.

    The id comes from an environment variable, which any user can set.
    """
    return value if type(value) is str and _JOB_ID.fullmatch(value) else None


def _instant(value: Any) -> datetime:
    return datetime.fromtimestamp(value, UTC)


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number from 0 up")
    return value


def _optional_int(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _text(value: Any) -> str:
    if type(value) is not str or not value or len(value) > 256:
        raise ValueError(f"{value!r} is not an identity")
    return value


def _optional_text(value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is not str:
        raise ValueError(f"{value!r} is not text")
    return value.encode(errors="replace").decode()
