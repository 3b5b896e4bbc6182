"""Rig that drives a keeper link by hand, without clock and sockets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from training_services.base import (
    CheckpointReported,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    KeeperBound,
    KeptCopy,
    KnownKeeper,
    MetricReported,
    Origin,
    Place,
    SaveOrdered,
    StopOrdered,
    TrialJobSpec,
    UpdateOrdered,
    trial_of_job,
)
from training_services.keepers.jobs import Backlog
from training_services.keepers.link import KeeperLink
from training_services.keepers.request import Request, read_request
from trial_keeper import wire

GRACE = timedelta(seconds=5)
START: dict[str, Any] = {"command": "true"}


def payload(number: int, trial: str = "aaaaa") -> bytes:
    fields = {"parameter_id": 0, "trial_job_id": trial, "type": "PERIODICAL", "sequence": number}
    return json.dumps({**fields, "value": str(number)}).encode()


def attempt(
    *, first: int = 0, frames: Sequence[bytes] = (), started: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "from": first,
        "events": frames,
        "started": {"at": 5.0, "pid": 7} if started else None,
        "note": None,
        "final": None,
        **more,
    }


def final(n: int, reason: str = "exited", code: int | None = 0) -> dict[str, Any]:
    return {"reason": reason, "code": code, "signal": None, "n": n, "at": 6.0, "message": None}


class Rig:
    """Link with the keeper's side of it."""

    def __init__(self, known: KnownKeeper | None = None, *, restored: bool = False) -> None:
        known = known or KnownKeeper(keeper_id="k", token_sha256="", instance=None, boot_id=None, last_cmd=0)
        self.backlog = Backlog()
        self.needed = False  # files are to be copied from the host
        self.departure: str | None = None  # why the host ends
        self.link = KeeperLink(
            known,
            db_id="db",
            m_epoch=3,
            backlog=self.backlog,
            restored=restored,
            departure=lambda: self.departure,
            needed=lambda: self.needed,
        )
        self.sync_no = 0
        self.header: dict[str, Any] = {
            "instance": "i1",
            "k_epoch": 1,
            "boot_id": "b1",
            "db_id_seen": "db",
            "m_epoch_seen": 3,
            "acked_cmd": 0,
            "seen_cmd": 0,
            "all": False,
            "wait": False,
            "status": None,
        }

    def request(self, attempts: dict[str, dict[str, Any]] | None = None, **more: Any) -> Request:
        self.sync_no += 1
        attempts = attempts or {}
        header = {**self.header, "sync_no": self.sync_no, **more}
        header["attempts"] = {
            job: {**each, "events": [len(frame) for frame in each["events"]]}
            for job, each in attempts.items()
        }
        payloads = [frame for each in attempts.values() for frame in each["events"]]
        return read_request(wire.encode_request(header, payloads))

    def sync(
        self, attempts: dict[str, dict[str, Any]] | None = None, **more: Any
    ) -> tuple[list[JobEvent], dict[str, Any]]:
        """Send a request, commit its events, and return the events and the answer."""
        request = self.request(attempts, **more)
        received = self.link.receive(request)
        self.commit(*received.events)
        return received.events, self.link.answer(request)

    def commit(self, *facts: JobEvent) -> list[JobEvent]:
        more: list[JobEvent] = []
        for fact in facts:
            match fact:
                case JobPlaced() | UpdateOrdered() | SaveOrdered() | StopOrdered():
                    if fact.cmd_seq is not None:
                        self.link.jobs.command_committed(fact.job_id, fact.cmd_seq)
                case MetricReported() | FrameSkipped() | CheckpointReported():
                    self.link.jobs.frames_committed(fact.job_id, fact.position + 1)
                case JobEnded() | JobLost():
                    more += self.link.jobs.end_committed(fact.job_id, lost=isinstance(fact, JobLost))
                    self.link.jobs.forget_ended(fact.job_id)
                case KeeperBound():
                    self.link.caller.bound_committed(fact.instance, fact.boot_id)
        return more

    def start(
        self, job: str = "x-aaaaa-1", *, origin: Origin | None = None, kept: KeptCopy | None = None
    ) -> JobPlaced:
        spec = unplaced(job, origin=origin, kept=kept)
        placed = self.link.jobs.order_start(spec, gpus=(), start=START)
        self.commit(placed)
        return placed

    def acknowledge(self, number: int) -> None:
        self.header["acked_cmd"] = self.header["seen_cmd"] = number


def unplaced(job: str, **more: Any) -> TrialJobSpec:
    """Return the description of a new job."""
    trial, attempt = trial_of_job(job)
    return TrialJobSpec(id=job, trial_id=trial, attempt=attempt, sequence=0, parameter_text="{}", **more)


def adopted(*, seq: int = 1, instance: str = "i1", trial: str = "aaaaa", **more: Any) -> TrialJobSpec:
    place = Place(keeper_id="k", instance=instance, boot_id="b1")
    return TrialJobSpec(
        id=f"x-{trial}-1",
        trial_id=trial,
        attempt=1,
        sequence=0,
        parameter_text="{}",
        place=JobPlaced(job_id=f"x-{trial}-1", place=place, cmd_seq=seq),
        **more,
    )


def known(last_cmd: int = 1) -> KnownKeeper:
    return KnownKeeper(keeper_id="k", token_sha256="", instance="i1", boot_id="b1", last_cmd=last_cmd)
