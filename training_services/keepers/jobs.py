"""Jobs of one keeper. The service orders them, the keeper reports them, and the core records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from training_services.base import (
    EndReason,
    JobEvent,
    JobPlaced,
    KeeperAcknowledged,
    Place,
    StopOrdered,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.keepers.caller import Caller
from training_services.keepers.commands import Commands
from training_services.keepers.inventory import Inventory
from training_services.keepers.job import End, Job
from training_services.keepers.request import Attempt, Final, Request

__all__ = ["Backlog", "Jobs", "StartOrder"]

_FORGOTTEN = "its keeper had lost the end of its journal; the trial's commands were sent again"

StartOrder = Mapping[str, Any]  # ``start`` of trial_keeper.wire without its boot_id


@dataclass(slots=True)
class Backlog:
    """Number of metric frames of an experiment, over all its keepers, that the core has not committed yet."""

    frames: int = 0


class Jobs:
    """Table of the jobs of one keeper.

    ``untold``: number of frames that were committed since the last answer with acknowledgements; ``fresh``:
    the jobs of these frames. ``ended``: jobs whose end came with the current request. ``verdict``: as in
    ``KeeperHost``.
    """

    def __init__(
        self,
        caller: Caller,
        commands: Commands,
        inventory: Inventory,
        *,
        backlog: Backlog,
        leased: bool,
        verdict: Callable[[], str | None],
    ) -> None:
        self.untold = 0
        self.fresh: dict[str, None] = {}
        self.ended: list[str] = []
        self._caller, self._commands, self._inventory = caller, commands, inventory
        self._backlog, self._leased, self._verdict = backlog, leased, verdict
        self.by_id: dict[str, Job] = {}

    # ---- orders of the service ----------------------------------------------------------------------------

    def adopt(self, spec: TrialJobSpec, start: StartOrder) -> None:
        """Add a job whose place is committed, after a restart of the runner."""
        job = self.by_id[spec.id] = Job.adopted(spec)
        put = self._commands.put
        put(job, job.start_cmd, "start", self._start_body(start, boot_id=job.place.boot_id), committed=True)
        for order, parameter in spec.updates:
            put(job, order.cmd_seq, "update", {"index": order.index, "parameter": parameter}, committed=True)
        if spec.stop is not None and spec.stop.cmd_seq is not None:
            grace = spec.stop.grace.total_seconds()
            put(job, spec.stop.cmd_seq, "stop", {"grace": grace}, committed=True)

    def order_start(
        self, job_id: str, trial_id: str, *, gpus: tuple[int, ...], start: StartOrder
    ) -> JobPlaced:
        """Give the job a place here and return it. Raises ValueError before the keeper's first call."""
        caller = self._caller
        if not caller.ready or caller.instance is None or caller.boot_id is None:
            raise ValueError(f"keeper {caller.keeper_id} has not called this runner yet")
        place = Place(keeper_id=caller.keeper_id, instance=caller.instance, boot_id=caller.boot_id, gpus=gpus)
        seq = self._commands.last + 1
        job = self.by_id[job_id] = Job(id=job_id, trial_id=trial_id, place=place, start_cmd=seq, last_cmd=seq)
        self._commands.put(job, seq, "start", self._start_body(start, boot_id=caller.boot_id))
        return JobPlaced(job_id=job_id, place=place, cmd_seq=seq)

    def _start_body(self, start: StartOrder, *, boot_id: str) -> StartOrder:
        return {**start, "boot_id": boot_id, **({"lease": True} if self._leased else {})}

    def order_update(self, job_id: str, *, index: int, parameter: str) -> UpdateOrdered | None:
        """Order a further parameter set for the job.

        Return None if the job has ended or is not on this host.
        """
        job = self.by_id.get(job_id)
        if job is None or not job.is_open:
            return None
        seq = self._commands.of(job).last + 1
        self._commands.put(job, seq, "update", {"index": index, "parameter": parameter})
        return UpdateOrdered(job_id=job_id, index=index, cmd_seq=seq)

    def order_stop(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        """Order the job to stop. Return None if the job has ended, is not on this host, or has been ordered
        to stop.

        If the job's place is not committed yet, its start is withdrawn and nothing is sent.
        """
        job = self.by_id.get(job_id)
        if job is None or job.stopped or not job.is_open:
            return None
        job.stopped = True
        orders = self._commands.of(job)
        start = orders.find(job.start_cmd)
        if start is not None and not start.committed:
            start.withdrawn = job.lost = True
            job.end = End.COMMITTED
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        seq = orders.last + 1
        self._commands.put(job, seq, "stop", {"grace": grace.total_seconds()})
        return StopOrdered(job_id=job_id, cmd_seq=seq, grace=grace)

    def give_up(self, reason: str) -> list[JobEvent]:
        """Count every open job as lost; return the events.

        The jobs do not run, and no start is sent any more.
        """
        return [event for job in self.by_id.values() if job.is_open for event in self.lose(job, reason)]

    def fail(self, reason: str, at: datetime) -> list[JobEvent]:
        """End every open job as failed; return the events.

        The jobs themselves have caused the end of their host.
        """
        final = Final(reason=EndReason.EXITED, code=None, signal=None, frames=0, message=reason, at=at)
        return [
            event
            for job in self.by_id.values()
            if job.is_open
            for event in self._seal(job, final._replace(frames=job.received))
        ]

    # ---- facts that were committed ------------------------------------------------------------------------

    def command_committed(self, job_id: str, seq: int) -> None:
        """Allow sending the start, update or stop with this number."""
        job = self.by_id.get(job_id)
        if job is not None:
            self._commands.of(job).commit(seq)

    def frames_committed(self, job_id: str, count: int) -> None:
        """Record that the job's first ``count`` frames are durable."""
        job = self.by_id.get(job_id)
        if job is None or count <= job.committed:
            return
        fresh = min(count, job.received) - job.committed
        job.committed += fresh
        self.untold += fresh
        self._backlog.frames -= fresh
        self.fresh[job_id] = None

    def end_committed(self, job_id: str, *, lost: bool) -> list[JobEvent]:
        """Record that the end is durable. Return an acknowledgement, unless the event of the end was one.

        ``lost``: the job counts as lost, perhaps by the core's own decision.
        """
        job = self.by_id.get(job_id)
        if job is None or job.end is End.COMMITTED:
            return []
        told = job.end is End.TOLD
        job.end = End.COMMITTED
        job.lost = job.lost or lost
        job.astray = lost and not told
        if job.astray and self._commands.is_here(job):
            self._inventory.doubt(job_id)
        self._backlog.frames -= job.received - job.committed
        job.committed = job.received
        self.fresh.pop(job_id, None)
        # the event of the end has reported the acknowledgement already
        return [] if told and not lost else self._acknowledged(job)

    def forget_ended(self, job_id: str) -> bool:
        """Forget a job when its end is committed, all its commands are carried out, and it no longer runs.

        Return False if the job must be kept.
        """
        job = self.by_id.get(job_id)
        if job is None:
            return True
        if job.end is not End.COMMITTED or self._inventory.lists(job_id) or self._commands.is_under_way(job):
            return False
        self._commands.of(job).forget(job.commands)
        del self.by_id[job_id]
        return True

    # ---- reports of the keeper ----------------------------------------------------------------------------

    def report(self, job: Job, attempt: Attempt) -> list[JobEvent]:
        """Record what the keeper reports about an open job. Return the new events."""
        before = job.received
        events = job.report(attempt)
        self._backlog.frames += job.received - before
        if attempt.final is not None and attempt.reach <= job.received:
            events += self._seal(job, attempt.final)
        return events

    def _seal(self, job: Job, final: Final) -> list[JobEvent]:
        events = job.missing(final)
        if final.reason is None and (verdict := self._verdict()) is not None:
            final = final._replace(reason=EndReason.EXITED, code=None, signal=None, message=verdict)
        if final.reason is None:
            return events + self.lose(job, final.message or "its host was restarted while it ran")
        self.ended.append(job.id)
        return [*events, job.finish(final, final.reason, acked_cmd=self._commands.acked)]

    def lose(self, job: Job, reason: str) -> list[JobEvent]:
        """Count an open job as lost; return the events."""
        self.ended.append(job.id)
        return [job.lose(reason), *self._acknowledged(job)]

    def _acknowledged(self, job: Job) -> list[JobEvent]:
        """Return the acknowledgement for the core if the lost job has no command that is still being sent."""
        if not self._commands.is_here(job) or self._commands.is_under_way(job):
            return []
        return [KeeperAcknowledged(keeper_id=self._caller.keeper_id, acked_cmd=self._commands.acked)]

    def lose_others(self, instance: str) -> list[JobEvent]:
        """Count open jobs of other instances of the keeper's directory as lost; return the events."""
        return [
            event
            for job in self.by_id.values()
            if job.is_open and job.place.instance != instance
            for event in self.lose(job, "its keeper's directory was recreated")
        ]

    def note_losses(self, seen: int) -> list[JobEvent]:
        """Return notes for the jobs whose acknowledged commands a restarted keeper has lost.

        The commands are sent again. Only a restarted keeper has lost commands: a call that arrives late also
        reports lower numbers.
        """
        events: list[JobEvent] = []
        for job in self.by_id.values():
            lost = seen < job.last_cmd <= self._commands.acked
            if lost and job.is_open and self._commands.is_here(job):
                events += job.note(_FORGOTTEN)
        return events

    def renumber(self, seen: int) -> None:
        """Give the jobs' stops and updates new numbers, because the keeper knows more commands than the
        database.

        The keeper ignores all numbers up to ``seen``, also numbers that this server has used a second time. A
        stop or an update that is carried out twice has no second effect.
        """
        for job in self.by_id.values():
            if job.is_open and self._commands.is_here(job):
                self._commands.renumber(job, seen)

    def seek_missing(self, request: Request) -> list[JobEvent]:
        """Repeat the starts of jobs that the keeper has forgotten, under new numbers. Return events.

        The database is older than the keeper's state, in which the job had ended. The trial's command does
        not run a second time: the keeper reports the job's end from the job's claim file and metrics.
        """
        events: list[JobEvent] = []
        for job_id, job in self.by_id.items():
            here = job.is_open and self._commands.is_here(job)
            missing = job_id not in request.attempts and job.start_cmd <= request.acked_cmd
            if here and missing and not self._commands.repeat_start(job):
                events += self.lose(job, "its keeper no longer knows it")
        return events

    # ---- questions ----------------------------------------------------------------------------------------

    def is_wanted(self, job_id: str) -> bool:
        """Return True if the table has the job and no end of the job is recorded."""
        job = self.by_id.get(job_id)
        return job is not None and job.end is not End.COMMITTED

    def is_astray(self, job_id: str) -> bool:
        """Return True if the job was given up and may still run."""
        job = self.by_id.get(job_id)
        return job is not None and job.astray

    def is_open(self, job_id: str) -> bool:
        """Return True if the job is in the table and no end of the job was reported."""
        job = self.by_id.get(job_id)
        return job is not None and job.is_open

    def details(self) -> list[TrialJobDetail]:
        """Return a list of all jobs."""
        return [
            TrialJobDetail(job_id=job_id, place=job.place, started=job.started, ended=not job.is_open)
            for job_id, job in self.by_id.items()
        ]
