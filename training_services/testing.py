"""Tests that every training service must pass: inherit ``TrainingServiceContract``.

::

    class TestMine(TrainingServiceContract):
        @pytest.fixture
        async def platform(self, tmp_path):
            yield MyPlatform(tmp_path)

The tests are coroutines (pytest-asyncio in auto mode). ``CoreDouble`` replaces the core: it commits the
events that it gets, and can be cut off before it commits.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from typing import TypeVar

from training_services.base import (
    EndReason,
    FrameSkipped,
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
    KnownKeeper,
    KnownKeepers,
    KnownMachine,
    MachineEvent,
    MetricReported,
    ParametersWanted,
    StopOrdered,
    TrainingService,
    TrialJobSpec,
    UpdateOrdered,
)

__all__ = ["Behaviour", "ContractPlatform", "CoreDouble", "TrainingServiceContract"]

DEADLINE_S = 60.0  # limit for waits, which take seconds on the slowest platforms
GRACE = timedelta(seconds=5)

E = TypeVar("E")


class Behaviour(Enum):
    """What a trial does in the contract's tests."""

    REPORTS = auto()  # prints "hello", reports 1 and 2, then 3 as the final result; exits with 0
    REPORTS_LATER = auto()  # does the same after ``ContractPlatform.release``
    SLEEPS = auto()  # starts a child in its own session; both run until they are stopped


class ContractPlatform(abc.ABC):
    """Platform under test, with one experiment. A test of a training service implements it."""

    @abc.abstractmethod
    def make(self) -> TrainingService:
        """Return a new, unopened service of the experiment. The test has closed the last one before."""

    @abc.abstractmethod
    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        """Set what the trial does in its next attempts."""

    @abc.abstractmethod
    def release(self, trial_id: str) -> None:
        """Let a trial with the behaviour REPORTS_LATER continue."""

    @abc.abstractmethod
    def processes(self, trial_id: str) -> int:
        """Return the number of running processes of the trial."""


@dataclass(slots=True)
class _Kept:
    """Committed facts about one job, which the service gets when it is opened again."""

    spec: TrialJobSpec
    place: JobPlaced | None = None
    stop: StopOrdered | None = None
    recorded: int = 0
    started: bool = False
    over: bool = False


@dataclass(slots=True)
class CoreDouble:
    """Replacement for the core: commits events in order, and submits its jobs again to a reopened service."""

    facts: list[JobEvent] = field(default_factory=list)  # all committed facts, in order
    taken: list[JobEvent] = field(default_factory=list)  # events taken since the service was opened
    commits: bool = True  # False: events that are taken are never committed
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
                )
            )
            for kept in self._jobs.values()
            if not kept.over
        ]
        service.adopted()
        self._pump = asyncio.create_task(self._take(service))
        self.commit(*answers)

    async def close(self, *, detach: bool) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None
        if self.service is not None:
            service, self.service = self.service, None
            await service.close(detach=detach)

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
        if isinstance(event, MetricReported | FrameSkipped | ParametersWanted):
            return not kept.over and event.position == kept.recorded
        if isinstance(event, JobStarted):
            return not kept.started
        return not (kept.over and isinstance(event, JobEnded | JobLost))

    # ---- orders -------------------------------------------------------------------------------------------

    def submit(self, trial_id: str, *, attempt: int = 1, withhold: bool = False) -> str:
        """Submit a new job to the service, and return its id.

        The job's place is committed, unless ``withhold`` is True.
        """
        job = self.spec(trial_id, attempt=attempt)
        assert self.service is not None
        if withhold:
            self.withheld[job.id] = None
        self._jobs[job.id] = _Kept(job)
        self.commit(self.service.submit_trial_job(job))
        return job.id

    def spec(self, trial_id: str, *, attempt: int = 1) -> TrialJobSpec:
        return TrialJobSpec(
            id=f"contract-{trial_id}-{attempt}",
            trial_id=trial_id,
            attempt=attempt,
            sequence=0,
            parameter_text='{"parameter_id": 0, "parameters": {}}',
        )

    def cancel(self, job_id: str) -> StopOrdered | None:
        """Order the job to stop, commit the order, and return it; None if the job need not be stopped."""
        assert self.service is not None
        order = self.service.cancel_trial_job(job_id, grace=GRACE)
        self.commit(order)
        return order

    def commit(self, *facts: JobEvent | None) -> None:
        """Commit these facts and pass them to the service (None is ignored), unless ``commits`` is False."""
        if self.commits and self.service is not None:
            found = [fact for fact in facts if fact is not None and self._record(fact)]
            self.facts += found
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
        elif not isinstance(fact, MachineEvent) and fact.job_id in self._jobs:
            self._record_job(fact, self._jobs[fact.job_id])
        return True

    def _record_job(self, fact: JobEvent, kept: _Kept) -> None:
        match fact:
            case JobPlaced():
                kept.place = fact
                self._record_command(fact.place.keeper_id, fact.cmd_seq)
            case StopOrdered() | UpdateOrdered():
                if kept.place is not None and fact.cmd_seq is not None:
                    self._record_command(kept.place.place.keeper_id, fact.cmd_seq)
                if isinstance(fact, StopOrdered):
                    kept.stop = fact
                    kept.over = kept.over or fact.cmd_seq is None
            case MetricReported() | FrameSkipped() | ParametersWanted():
                kept.recorded = fact.position + 1
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


class TrainingServiceContract:
    """Tests that a training service must pass. A subclass provides the fixture ``platform``."""

    async def test_metrics_come_in_order_and_before_the_end(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        trials = ["aaaa1", "bbbb2", "cccc3"]
        for trial in trials:
            platform.behave(trial, Behaviour.REPORTS)
        for job_id in [core.submit(trial) for trial in trials]:
            end = await core.seen(JobEnded, job_id)
            kinds = [type(fact) for fact in core.of(job_id)]
            assert kinds[-5:] == [JobStarted, MetricReported, MetricReported, MetricReported, JobEnded]
            assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
            assert [metric.value for metric in core.metrics(job_id)] == [1.0, 2.0, 3.0]
            assert [metric.type for metric in core.metrics(job_id)] == ["PERIODICAL", "PERIODICAL", "FINAL"]
            assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
        await core.close(detach=False)

    async def test_submitting_twice_makes_one_job(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        assert core.service is not None
        assert core.service.submit_trial_job(core.spec("aaaa1")) is None
        await core.seen(JobEnded, job_id)
        assert sum(isinstance(fact, JobPlaced) for fact in core.of(job_id)) == 1
        assert sum(isinstance(fact, JobStarted) for fact in core.of(job_id)) == 1
        await core.close(detach=False)

    async def test_a_second_attempt_is_a_job_of_its_own(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        for attempt in (1, 2):
            job_id = core.submit("aaaa1", attempt=attempt)
            await core.seen(JobEnded, job_id)
            assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
        await core.close(detach=False)

    async def test_nothing_starts_before_its_place_is_committed(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        platform.behave("bbbb2", Behaviour.SLEEPS)
        # The first job starts the platform's own processes, so that the starts of later jobs are quick.
        await core.seen(JobEnded, core.submit("aaaa1"))
        assert core.service is not None
        job_id = core.submit("bbbb2", withhold=True)
        placed = await core.offered(job_id)
        assert platform.processes("bbbb2") == 0
        jobs = {job.job_id: job for job in await core.service.list_trial_jobs()}
        assert not jobs[job_id].started
        core.withheld.clear()
        core.commit(placed)
        await core.seen(JobStarted, job_id)
        core.cancel(job_id)
        await core.seen(JobEnded, job_id)
        await core.close(detach=False)

    async def test_a_stop_ends_the_whole_tree(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.SLEEPS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        order = core.cancel(job_id)
        assert order is not None and order.cmd_seq is not None
        assert core.cancel(job_id) is None
        end = await core.seen(JobEnded, job_id)
        assert end.reason is EndReason.STOPPED
        assert platform.processes("aaaa1") == 0
        await core.close(detach=False)

    async def test_nothing_stops_what_is_unknown_or_over(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        assert core.cancel("contract-zzzz9-1") is None
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobEnded, job_id)
        assert core.cancel(job_id) is None
        assert core.service is not None
        assert core.service.update_trial_job(job_id, 1, "{}") is None
        await core.close(detach=False)

    async def test_jobs_run_on_when_detached_and_are_adopted(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.SLEEPS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        await core.close(detach=True)
        async with asyncio.timeout(DEADLINE_S):
            while not platform.processes("aaaa1"):  # noqa: ASYNC110 (the command may be about to start)
                await asyncio.sleep(0.05)
        await core.open(platform.make())
        assert core.service is not None
        assert [job.job_id for job in await core.service.list_trial_jobs()] == [job_id]
        core.cancel(job_id)
        assert (await core.seen(JobEnded, job_id)).reason is EndReason.STOPPED
        assert sum(isinstance(fact, JobStarted) for fact in core.of(job_id)) == 1
        assert platform.processes("aaaa1") == 0
        await core.close(detach=False)

    async def test_what_happened_without_a_service_is_told_later(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS_LATER)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        await core.close(detach=True)
        platform.release("aaaa1")
        await core.open(platform.make())
        await core.seen(JobEnded, job_id)
        assert [metric.value for metric in core.metrics(job_id)] == [1.0, 2.0, 3.0]
        await core.close(detach=False)

    async def test_what_was_taken_but_not_committed_is_told_again(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS_LATER)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        core.commits = False
        platform.release("aaaa1")
        await core.until(lambda: any(isinstance(event, JobEnded) for event in core.taken))
        await core.close(detach=True)
        assert core.metrics(job_id) == []
        await core.open(platform.make())
        await core.seen(JobEnded, job_id)
        assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
        await core.close(detach=False)

    async def test_logs_can_be_read(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
        assert core.service is not None
        followed = core.service.read_log(job_id, "stdout", follow=True, keeper_id=keeper_id)
        assert b"".join([chunk async for chunk in followed]) == b"hello\n"
        await core.seen(JobEnded, job_id)
        for tail, expected in ((0, b""), (1, b"hello\n"), (9, b"hello\n")):
            last = core.service.read_log(job_id, "stdout", follow=False, tail=tail, keeper_id=keeper_id)
            assert b"".join([chunk async for chunk in last]) == expected
        for name, error in (("../exit", ValueError), ("trial.log", FileNotFoundError)):
            try:
                async for _ in core.service.read_log(job_id, name, follow=False, keeper_id=keeper_id):
                    break
            except error:
                continue
            raise AssertionError(f"{name!r} could be read, although it is not a log of the job")
        await core.close(detach=False)

    async def test_files_are_listed_and_read(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobEnded, job_id)
        keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
        service = core.service
        assert service is not None
        listing = await service.list_files(job_id, keeper_id=keeper_id)
        assert listing.complete
        assert {file.path: file.size for file in listing.files}["stdout"] == len(b"hello\n")
        chunks = service.read_file(job_id, "stdout", keeper_id=keeper_id)
        assert b"".join([chunk async for chunk in chunks]) == b"hello\n"
        for path, error in (
            ("../stdout", ValueError),
            ("/etc/passwd", ValueError),
            ("a/../../b", ValueError),
            ("", ValueError),
            ("no/such/file", FileNotFoundError),
        ):
            try:
                async for _ in service.read_file(job_id, path, keeper_id=keeper_id):
                    break
            except error:
                continue
            raise AssertionError(f"{path!r} could be read, although it is not a file of the job")
        await core.close(detach=False)
