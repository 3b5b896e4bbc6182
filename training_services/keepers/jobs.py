"""Jobs of one keeper: the service starts and stops them, the keeper reports on them, the core commits
facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from training_services.base import (
    Cause,
    EndReason,
    JobEvent,
    JobPlaced,
    KeeperAcknowledged,
    Place,
    SaveOrdered,
    StopOrdered,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.keepers.caller import Caller
from training_services.keepers.commands import Commands
from training_services.keepers.gone import HostGone
from training_services.keepers.inventory import Inventory
from training_services.keepers.job import End, Job
from training_services.keepers.request import Attempt, Final, Request

__all__ = ["Backlog", "Jobs", "StartOrder"]

_FORGOTTEN = "the keeper had lost the end of its journal; the trial's commands were sent again"

StartOrder = Mapping[str, Any]  # body of the command "start" in trial_keeper.wire, without its boot_id


@dataclass(slots=True)
class Backlog:
    """Number of metric frames that all keepers of an experiment have reported and the core has not
    committed.
    """

    frames: int = 0


class Jobs:
    """Table of the jobs of one keeper.

    ``untold``: number of metric frames that were committed, but not acknowledged to the keeper yet;
    ``fresh``: the jobs of these frames. ``ended``: jobs whose end came with the current request. ``verdict``
    returns a sentence if the job itself has caused the end of its host, else None. ``departure`` returns why
    else the host ends, if that is known.
    """

    def __init__(
        self,
        caller: Caller,
        commands: Commands,
        inventory: Inventory,
        *,
        backlog: Backlog,
        leased: bool,
        verdict: Callable[[], HostGone | None],
        departure: Callable[[], str | None],
    ) -> None:
        self.untold = 0
        self.fresh: dict[str, None] = {}
        self.ended: list[str] = []
        self._caller, self._commands, self._inventory = caller, commands, inventory
        self._backlog, self._leased = backlog, leased
        self._verdict, self._departure = verdict, departure
        self.by_id: dict[str, Job] = {}

    # ---- methods that the training service calls to start and stop jobs -----------------------------------

    def adopt(self, spec: TrialJobSpec, start: StartOrder) -> None:
        """Add a job that was placed before the server's restart, with its commands."""
        job = self.by_id[spec.id] = Job.adopted(spec)
        put = self._commands.put
        put(job, job.start_cmd, "start", self._start_body(start, boot_id=job.place.boot_id), committed=True)
        for order, parameter in spec.updates:
            put(job, order.cmd_seq, "update", {"index": order.index, "parameter": parameter}, committed=True)
        if spec.save is not None and spec.save.cmd_seq is not None:
            put(job, spec.save.cmd_seq, "save", _save_body(spec.save), committed=True)
        if spec.stop is not None and spec.stop.cmd_seq is not None:
            put(job, spec.stop.cmd_seq, "stop", _stop_body(spec.stop), committed=True)

    def order_start(self, spec: TrialJobSpec, *, gpus: tuple[int, ...], start: StartOrder) -> JobPlaced:
        """Place the job on this keeper, and order its start. Return the fact to commit.

        Raises ValueError if the keeper has not called yet.
        """
        caller = self._caller
        if not caller.ready or caller.instance is None or caller.boot_id is None:
            raise ValueError(f"keeper {caller.keeper_id} has not called this runner yet")
        place = Place(keeper_id=caller.keeper_id, instance=caller.instance, boot_id=caller.boot_id, gpus=gpus)
        seq = self._commands.last + 1
        job = self.by_id[spec.id] = Job.placed(spec, place, start_cmd=seq)
        self._commands.put(job, seq, "start", self._start_body(start, boot_id=caller.boot_id))
        return JobPlaced(job_id=spec.id, place=place, cmd_seq=seq)

    def _start_body(self, start: StartOrder, *, boot_id: str) -> StartOrder:
        return {**start, "boot_id": boot_id, **({"lease": True} if self._leased else {})}

    def order_update(self, job_id: str, *, index: int, parameter: str) -> UpdateOrdered | None:
        """Order to send a further parameter set to the running job. Return the fact to commit.

        Return None if the job has ended or is not in this table.
        """
        job = self.by_id.get(job_id)
        if job is None or not job.is_open:
            return None
        seq = self._commands.of(job).last + 1
        self._commands.put(job, seq, "update", {"index": index, "parameter": parameter})
        return UpdateOrdered(job_id=job_id, index=index, cmd_seq=seq)

    def order_save(self, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        """Order to ask the running job to save its state. Return the fact to commit.

        Return None if the job has ended, is not in this table, or was ordered to stop.
        """
        job = self.by_id.get(job_id)
        if job is None or job.stopped or not job.is_open:
            return None
        order = SaveOrdered(job_id=job_id, cmd_seq=self._commands.of(job).last + 1, within=within)
        self._commands.put(job, self._commands.of(job).last + 1, "save", _save_body(order))
        return order

    def order_stop(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        """Order the job to stop, and return the fact to commit.

        Return None if the job has ended, is not in this table, or was ordered to stop before. If the job's
        place is not committed yet, its start is withdrawn and no command is sent.
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
        order = StopOrdered(job_id=job_id, cmd_seq=orders.last + 1, grace=grace, save_within=save_within)
        self._commands.put(job, orders.last + 1, "stop", _stop_body(order))
        return order

    def is_ordered(self, job_id: str) -> bool:
        """Return whether the job's start is committed, so that the keeper gets it."""
        job = self.by_id.get(job_id)
        start = None if job is None else self._commands.of(job).find(job.start_cmd)
        return start is None or start.committed

    def give_up(self, reason: str, cause: Cause = Cause.INFRASTRUCTURE) -> list[JobEvent]:
        """Count every job without an end as lost, and return the events.

        The jobs no longer run, and their starts are no longer sent.
        """
        jobs = [job for job in self.by_id.values() if job.is_open]
        return [event for job in jobs for event in self.lose(job, reason, cause)]

    def fail(self, gone: HostGone, at: datetime) -> list[JobEvent]:
        """End every job without an end as failed, and return the events.

        Call this when the jobs themselves have caused the end of their host.
        """
        final = Final(EndReason.EXITED, None, None, frames=0, message=str(gone), cause=gone.cause, at=at)
        return [
            event
            for job in self.by_id.values()
            if job.is_open
            for event in self._seal(job, final._replace(frames=job.received - job.base))
        ]

    # ---- methods to call when the core has committed facts ------------------------------------------------

    def command_committed(self, job_id: str, seq: int) -> None:
        """Record that the fact of this command is committed, so that the command may be sent."""
        job = self.by_id.get(job_id)
        if job is not None:
            self._commands.of(job).commit(seq)

    def frames_committed(self, job_id: str, count: int) -> None:
        """Record that the first ``count`` frames of the job's metrics file are committed."""
        job = self.by_id.get(job_id)
        if job is None or count <= job.committed:
            return
        fresh = min(count, job.received) - job.committed
        job.committed += fresh
        self.untold += fresh
        self._backlog.frames -= fresh
        self.fresh[job_id] = None

    def end_committed(self, job_id: str, *, lost: bool) -> list[JobEvent]:
        """Record that the job's end is committed. ``lost``: the job counts as lost.

        Return the fact KeeperAcknowledged if the core still needs it to know that the job's commands are
        done.
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
        # the event of the job's end already contains the number of the last command that was carried out
        return [] if told and not lost else self._acknowledged(job)

    def forget_ended(self, job_id: str) -> bool:
        """Remove a job from the table if its end is committed, its commands are done, and it no longer runs.

        Return False if the job must stay in the table.
        """
        job = self.by_id.get(job_id)
        if job is None:
            return True
        if job.end is not End.COMMITTED or self._inventory.lists(job_id) or self._commands.is_under_way(job):
            return False
        self._commands.of(job).forget(job.commands)
        del self.by_id[job_id]
        return True

    # ---- methods to call when the keeper has reported -----------------------------------------------------

    def report(self, job: Job, attempt: Attempt) -> list[JobEvent]:
        """Record what the keeper reports about a job that has not ended. Return the new events."""
        before = job.received - job.committed
        events = job.report(attempt)
        self._backlog.frames += job.received - job.committed - before
        if attempt.final is not None and job.has_all(attempt):
            events += self._seal(job, attempt.final)
        return events

    def _seal(self, job: Job, final: Final) -> list[JobEvent]:
        events = job.remarks(final)
        if final.reason is None and (verdict := self._verdict()) is not None:
            message, cause = str(verdict), verdict.cause
            final = Final(EndReason.EXITED, None, None, final.frames, final.at, message, cause)
        if final.reason is None:
            lost = final.message or "the host was restarted while the job ran"
            if final.message is not None and (departure := self._departure()) is not None:
                lost = f"{lost}: {departure}"
            return events + self.lose(job, lost, final.cause or Cause.INFRASTRUCTURE)
        self.ended.append(job.id)
        if final.reason is EndReason.CHECKPOINT_LOST:
            events += job.lost_origin(final.message or "its files are missing")
        return [*events, job.finish(final, final.reason, acked_cmd=self._commands.acked)]

    def lose(self, job: Job, reason: str, cause: Cause = Cause.INFRASTRUCTURE) -> list[JobEvent]:
        """Count a job that has not ended as lost, and return the events."""
        self.ended.append(job.id)
        return [job.lose(reason, cause), *self._acknowledged(job)]

    def _acknowledged(self, job: Job) -> list[JobEvent]:
        """Return the fact KeeperAcknowledged if the keeper has carried out all commands for the lost job."""
        if not self._commands.is_here(job) or self._commands.is_under_way(job):
            return []
        return [KeeperAcknowledged(keeper_id=self._caller.keeper_id, acked_cmd=self._commands.acked)]

    def lose_others(self, instance: str) -> list[JobEvent]:
        """Count as lost all jobs that ran in other directories (instances) of the keeper.

        Return the events.
        """
        return [
            event
            for job in self.by_id.values()
            if job.is_open and job.place.instance != instance
            for event in self.lose(job, "the keeper's directory was recreated")
        ]

    def note_losses(self, seen: int) -> list[JobEvent]:
        """Return notes for the jobs whose acknowledged commands a restarted keeper has lost.

        The commands are sent again. Call this only after a restart of the keeper, because a call that arrives
        late also reports a lower number (``seen``).
        """
        events: list[JobEvent] = []
        for job in self.by_id.values():
            lost = seen < job.last_cmd <= self._commands.acked
            if lost and job.is_open and self._commands.is_here(job):
                events += job.note(_FORGOTTEN)
        return events

    def renumber(self, seen: int) -> None:
        """Give new numbers to the jobs' stops and updates, because the keeper knows more commands than the
        database.

        The keeper ignores all commands with numbers up to ``seen``, also if this server has used a number a
        second time. A stop or an update that is carried out twice has no second effect.
        """
        for job in self.by_id.values():
            if job.is_open and self._commands.is_here(job):
                self._commands.renumber(job, seen)

    def seek_missing(self, request: Request) -> list[JobEvent]:
        """Repeat, with new numbers, the starts of jobs that the keeper does not list. Return events.

        This happens if the database was replaced by an older copy, and the job had ended before. The trial's
        command does not run a second time: the keeper reports the job's end from the job's claim file and
        metrics.
        """
        events: list[JobEvent] = []
        for job_id, job in self.by_id.items():
            here = job.is_open and self._commands.is_here(job)
            missing = job_id not in request.attempts and job.start_cmd <= request.acked_cmd
            if here and missing and not self._commands.repeat_start(job):
                events += self.lose(job, "the keeper no longer knows the job")
        return events

    # ---- questions ----------------------------------------------------------------------------------------

    def is_wanted(self, job_id: str) -> bool:
        """Return True if the table has the job and its end is not committed."""
        job = self.by_id.get(job_id)
        return job is not None and job.end is not End.COMMITTED

    def is_astray(self, job_id: str) -> bool:
        """Return True if the job counts as lost, but may still run."""
        job = self.by_id.get(job_id)
        return job is not None and job.astray

    def is_open(self, job_id: str) -> bool:
        """Return True if the table has the job and its end was not reported to the core."""
        job = self.by_id.get(job_id)
        return job is not None and job.is_open

    def details(self) -> list[TrialJobDetail]:
        """Return a description of each job in the table."""
        return [
            TrialJobDetail(job_id=job_id, place=job.place, started=job.started, ended=not job.is_open)
            for job_id, job in self.by_id.items()
        ]


def _save_body(order: SaveOrdered) -> Mapping[str, Any]:
    """Return the body of the command that asks the job to save its state."""
    return {"within": order.within.total_seconds()}


def _stop_body(order: StopOrdered) -> Mapping[str, Any]:
    """Return the body of the command that stops a job."""
    within = order.save_within
    return {
        "grace": order.grace.total_seconds(),
        **({} if within is None else {"save": within.total_seconds()}),
    }
