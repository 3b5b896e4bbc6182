"""Replacement for the core in tests of training services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from training_services.base import (
    CheckpointKept,
    CheckpointReported,
    CheckpointsDeleted,
    FrameSkipped,
    HostVanished,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobStarted,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KeeperGone,
    KeeperHeard,
    KeeperSilent,
    KeptCopy,
    KnownKeeper,
    KnownKeepers,
    KnownMachine,
    MachineEvent,
    MemberEnded,
    MemberLost,
    MemberProgress,
    MemberStarted,
    MetricReported,
    Origin,
    ParametersWanted,
    SaveOrdered,
    StopOrdered,
    TrainingService,
    TrialJobSpec,
    UpdateOrdered,
    job_id_of,
)

__all__ = ["DEADLINE_S", "CoreDouble"]

DEADLINE_S = 60.0  # limit for waits, which take seconds on the slowest platforms
GRACE = timedelta(seconds=5)

E = TypeVar("E")


@dataclass(slots=True)
class _Kept:
    """Committed facts about one job, which the service gets when it is opened again."""

    spec: TrialJobSpec
    place: JobPlaced | None = None
    stop: StopOrdered | None = None
    recorded: int = 0
    started: bool = False
    over: bool = False
    members: list[MemberProgress] = field(default_factory=list)  # of a gang, whose orders are not kept


@dataclass(slots=True)
class CoreDouble:
    """Replacement for the core: commits events in order, and submits its jobs again to a reopened service."""

    experiment_id: str = "contract"
    facts: list[JobEvent] = field(default_factory=list)  # all committed facts, in order
    taken: list[JobEvent] = field(default_factory=list)  # events taken since the service was opened
    commits: bool = True  # False: events that are taken are never committed
    copies: bool = False  # the service has to copy each checkpoint that is reported, as the core orders it
    # jobs whose places must not be committed -> the place that the service has offered, or None
    withheld: dict[str, JobPlaced | None] = field(default_factory=dict)
    m_epoch: int = 0
    machines: tuple[KnownMachine, ...] = ()  # committed state of machines
    service: TrainingService | None = None
    _jobs: dict[str, _Kept] = field(default_factory=dict)
    _keepers: dict[str, KnownKeeper] = field(default_factory=dict)
    # keeper -> highest number of a committed command for its current directory (instance)
    _last_cmds: dict[str, int] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _pump: asyncio.Task[None] | None = None

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, service: TrainingService) -> None:
        """Open the service as the server does after a restart: earlier jobs are submitted again."""
        self.service, self.commits, self.taken = service, True, []
        self.m_epoch += 1
        keepers = tuple(
            replace(keeper, last_cmd=self._last_cmds.get(keeper.keeper_id, 0))
            for keeper in self._keepers.values()
        )
        known = KnownKeepers(db_id="contract", m_epoch=self.m_epoch, keepers=keepers, machines=self.machines)
        await service.open(known)
        answers = [
            service.submit_trial_job(
                replace(
                    kept.spec,
                    place=kept.place,
                    stop=kept.stop,
                    recorded=kept.recorded,
                    started=kept.started,
                    members=tuple(kept.members),
                )
            )
            for kept in self._jobs.values()
            if not kept.over
        ]
        service.adopted()
        self._pump = asyncio.create_task(self._take(service))
        self.commit(*answers)

    async def close(self, *, detach: bool) -> Sequence[str]:
        """Close the service, and return its sentences about what may be left."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None
        if self.service is not None:
            service, self.service = self.service, None
            return await service.close(detach=detach)
        return ()

    async def _take(self, service: TrainingService) -> None:
        async for batch in service.events():
            self.taken += batch
            self.commit(*batch)

    def _admits(self, event: JobEvent) -> bool:
        """Return False if the event repeats a metric, start or end that is committed; the core ignores these
        too.
        """
        kept = self._jobs.get(getattr(event, "job_id", ""))
        if kept is None:
            return True
        if isinstance(event, MetricReported | FrameSkipped | ParametersWanted | CheckpointReported):
            return not kept.over and event.position == kept.recorded
        if isinstance(event, JobStarted):
            return not kept.started
        return not (kept.over and isinstance(event, JobEnded | JobLost))

    # ---- orders -------------------------------------------------------------------------------------------

    def submit(
        self,
        trial_id: str,
        *,
        attempt: int = 1,
        withhold: bool = False,
        origin: Origin | None = None,
        parameters: str = "{}",
        kept: KeptCopy | None = None,
        copy_comes: bool = False,
        seats: tuple[str, ...] = (),
    ) -> str:
        """Submit a new job to the service, and return its id.

        The job's place is committed, unless ``withhold`` is True. ``origin``: checkpoint from which the job
        continues. ``kept``: the server's copy of it; None: the one whose fact is committed, if there is one.
        ``copy_comes``: the server is to make one. ``seats``: those of the attempt before.
        ``parameters``: the trial's parameters, as JSON text.
        """
        job = self.spec(trial_id, attempt=attempt, origin=origin, parameters=parameters)
        job = replace(job, kept=kept or self._copy_of(job), copy_comes=copy_comes, seats=seats)
        assert self.service is not None
        if withhold:
            self.withheld[job.id] = None
        self._jobs[job.id] = _Kept(job, recorded=0 if origin is None else origin.position)
        self.commit(self.service.submit_trial_job(job))
        return job.id

    def _copy_of(self, job: TrialJobSpec) -> KeptCopy | None:
        """Return the server's copy of the checkpoint from which the job continues, as committed."""
        for fact in self.facts:
            if isinstance(fact, CheckpointKept) and (fact.job_id, fact.number) == job.origin_id:
                return KeptCopy(digest=fact.digest, size=fact.size)
        return None

    def keep(self, trial_id: str, origin: Origin) -> None:
        """Let the service copy a checkpoint to the server, as the core does."""
        assert self.service is not None
        self.service.keep_checkpoint(trial_id, origin)

    def spec(
        self, trial_id: str, *, attempt: int = 1, origin: Origin | None = None, parameters: str = "{}"
    ) -> TrialJobSpec:
        return TrialJobSpec(
            id=job_id_of(self.experiment_id, trial_id, attempt),
            trial_id=trial_id,
            attempt=attempt,
            sequence=0,
            parameter_text=f'{{"parameter_id": 0, "parameters": {parameters}}}',
            origin=origin,
        )

    def cancel(self, job_id: str, *, save_within: timedelta | None = None) -> StopOrdered | None:
        """Order the job to stop, commit the order, and return it; None if the job need not be stopped.

        ``save_within``: time in which the job may save its state before; None: it is not asked to.
        """
        assert self.service is not None
        more = {} if save_within is None else {"save_within": save_within}
        order = self.service.cancel_trial_job(job_id, grace=GRACE, **more)
        self.commit(order)
        return order

    def commit(self, *facts: JobEvent | None) -> None:
        """Commit these facts and pass them to the service (None is ignored), unless ``commits`` is False."""
        if self.commits and self.service is not None:
            found = [fact for fact in facts if fact is not None and self._record(fact)]
            self.facts += found
            # The order comes before the report: after that, a host may go that has nothing of use.
            for fact in found:
                if self.copies and isinstance(fact, CheckpointReported):
                    self.keep(self._jobs[fact.job_id].spec.trial_id, self.origin(fact))
            self.service.committed(found)
        self._news.set()

    def _record(self, fact: JobEvent) -> bool:
        """Record the fact. Return False if it repeats a committed fact, or must not be committed."""
        if not self._admits(fact):
            return False
        if isinstance(fact, JobPlaced) and fact.job_id in self.withheld:
            self.withheld[fact.job_id] = fact
            return False
        if isinstance(fact, KeeperEnrolled | KeeperBound):
            self._record_keeper(fact)
        elif isinstance(fact, KeeperAcknowledged):
            self._record_command(fact.keeper_id, fact.acked_cmd)
        elif isinstance(fact, KeeperGone):
            self._keepers.pop(fact.keeper_id, None)
            self._last_cmds.pop(fact.keeper_id, None)
        elif isinstance(fact, KeeperSilent | KeeperHeard):
            keeper = self._keepers[fact.keeper_id]
            self._keepers[fact.keeper_id] = replace(keeper, silent=isinstance(fact, KeeperSilent))
        elif (
            not isinstance(fact, MachineEvent | HostVanished | CheckpointsDeleted)
            and fact.job_id in self._jobs
        ):
            self._record_job(fact, self._jobs[fact.job_id])
        return True

    def _record_job(self, fact: JobEvent, kept: _Kept) -> None:
        match fact:
            case JobPlaced():
                kept.place = fact
                self._record_command(fact.place.keeper_id, fact.cmd_seq)
                for each in fact.members:
                    self._record_command(each.place.keeper_id, each.cmd_seq)
                kept.members = [MemberProgress()] * (1 + len(fact.members) if fact.members else 0)
            case MemberStarted():
                kept.members[fact.member] = replace(kept.members[fact.member], started=True)
            case MemberEnded() | MemberLost():
                kept.members[fact.member] = replace(kept.members[fact.member], over=True)
            case StopOrdered() | SaveOrdered() | UpdateOrdered():
                if kept.place is not None and fact.cmd_seq is not None:
                    self._record_command(kept.place.place.keeper_id, fact.cmd_seq)
                if isinstance(fact, StopOrdered):
                    kept.stop = fact
                    kept.over = kept.over or fact.cmd_seq is None
            case MetricReported() | FrameSkipped() | ParametersWanted() | CheckpointReported():
                kept.recorded = fact.position + 1
                if isinstance(fact, CheckpointReported):
                    kept.spec = replace(kept.spec, has_saved=True)
            case JobStarted():
                kept.started = True
            case JobEnded() | JobLost():
                kept.over = True

    def _record_keeper(self, fact: KeeperEnrolled | KeeperBound) -> None:
        old = self._keepers.get(fact.keeper_id)
        if isinstance(fact, KeeperEnrolled):
            digest, instance, boot_id = fact.token_sha256, None, None
            if old is not None:
                instance, boot_id = old.instance, old.boot_id
        else:
            assert old is not None
            digest, instance, boot_id = old.token_sha256, fact.instance, fact.boot_id
            if instance != old.instance:
                self._last_cmds[fact.keeper_id] = 0
        self._keepers[fact.keeper_id] = KnownKeeper(
            keeper_id=fact.keeper_id,
            token_sha256=digest,
            instance=instance,
            boot_id=boot_id,
            last_cmd=0,
            silent=old is not None and old.silent,
        )

    def _record_command(self, keeper_id: str, cmd_seq: int) -> None:
        self._last_cmds[keeper_id] = max(self._last_cmds.get(keeper_id, 0), cmd_seq)

    # ---- questions ----------------------------------------------------------------------------------------

    def of(self, job_id: str) -> list[JobEvent]:
        """Return the committed facts about a job."""
        return [fact for fact in self.facts if getattr(fact, "job_id", None) == job_id]

    def metrics(self, job_id: str) -> list[MetricReported]:
        return [fact for fact in self.of(job_id) if isinstance(fact, MetricReported)]

    def origin(self, saved: CheckpointReported) -> Origin:
        """Return the checkpoint as a later attempt of its trial continues from it."""
        kept = self._jobs[saved.job_id]
        assert kept.place is not None
        earlier = [each for each in self.metrics(saved.job_id) if each.position < saved.position]
        return Origin(
            attempt=kept.spec.attempt,
            number=saved.number,
            keeper_id=kept.place.place.keeper_id,
            step=saved.step,
            position=saved.position + 1,
            reports=sum(each.type == "PERIODICAL" for each in earlier),
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true. It is checked after each new event."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def seen(self, kind: type[E], job_id: str) -> E:
        """Wait for the job's first committed fact of this kind, and return it."""
        await self.until(lambda: any(isinstance(fact, kind) for fact in self.of(job_id)))
        return next(fact for fact in self.of(job_id) if isinstance(fact, kind))

    async def offered(self, job_id: str) -> JobPlaced:
        """Wait until the service offers the job a place, and return the place, which is not committed."""
        await self.until(lambda: self.withheld[job_id] is not None)
        placed = self.withheld[job_id]
        assert placed is not None
        return placed

    async def waits(self, job_id: str, reason: str) -> None:
        """Wait until the last fact about the job is a JobWaiting with this reason."""
        try:
            await self.until(lambda: self.of(job_id)[-1:] == [JobWaiting(job_id=job_id, reason=reason)])
        except TimeoutError:
            raise AssertionError(f"{self.of(job_id)[-1:]}, not {reason!r}") from None
