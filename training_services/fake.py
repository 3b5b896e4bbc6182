"""Training service that follows a script, for tests of the core without processes or waiting.

Every job follows its trial's script as soon as the job's start is committed::

    service.script("abcde", [started(), metric(0.5), metric(0.7, final=True), ended(0)])
    service.script("fghij", [started(), lost("the host burnt")], [started(), ended(0)])  # two attempts

A script pauses at ``hold()`` until ``resume``. A committed stop ends the job in any case. Trials without a
script follow ``default``. A closed service can be opened again: its jobs have continued meanwhile, and events
that the core has not recorded are reported again.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from training_services.base import (
    Capabilities,
    CheckpointReported,
    EndReason,
    FileListing,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobPlaced,
    JobRejected,
    JobStarted,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KnownKeepers,
    MetricReported,
    ParametersWanted,
    Place,
    SaveOrdered,
    ServiceUnavailable,
    StopOrdered,
    TrainingService,
    TrialFile,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.outbox import Outbox
from trial_keeper.machine.untrusted_files import check_path

__all__ = [
    "FakeService",
    "Step",
    "ended",
    "given",
    "hold",
    "lost",
    "metric",
    "noted",
    "rejected",
    "saved",
    "skipped",
    "started",
    "wants_parameters",
]

KEEPER_ID = "fake"
INSTANCE = "fake-instance"
BOOT_ID = "fake-boot"
AT = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a job's script. Use the functions of this module, such as ``started``, to make steps."""

    kind: str
    value: object = None
    code: int | None = None
    signal: int | None = None


def started() -> Step:
    return Step("started")


def metric(value: object, *, final: bool = False) -> Step:
    """Return a step that reports a metric. Its value may be anything that JSON can represent."""
    return Step("final" if final else "metric", value)


def saved(step: int, *, asked: bool = False) -> Step:
    """Return a step that saves a checkpoint. ``asked``: because the trial is being paused."""
    return Step("saved", (step, asked))


def skipped(reason: str) -> Step:
    """Return a step that writes an invalid record to the metrics file. ``reason`` says why it is not a
    metric.
    """
    return Step("skipped", reason)


def wants_parameters(index: int) -> Step:
    return Step("wants", index)


def given() -> Step:
    """Return a step that waits for the parameter set that the trial has requested.

    The metrics of later steps belong to this set.
    """
    return Step("given")


def noted(note: str) -> Step:
    return Step("noted", note)


def ended(code: int | None = 0, *, signal: int | None = None) -> Step:
    """Return a step that ends the trial's command: with an exit code, or by a signal (then ``code`` is
    None).
    """
    return Step("ended", None, None if signal is not None else code, signal)


def lost(reason: str) -> Step:
    return Step("lost", reason)


def rejected(reason: str) -> Step:
    """Return a step that makes the platform reject the job. It must be the first step of a script."""
    return Step("rejected", reason)


def hold() -> Step:
    """Return a step that pauses the script until a test calls ``FakeService.resume``."""
    return Step("hold")


@dataclass(slots=True)
class _Job:
    spec: TrialJobSpec
    steps: deque[Step]
    place: JobPlaced | None
    running: bool = False  # True: the job's start is committed
    held: bool = False
    started: bool = False
    # Parameter sets that the job has received while it runs, as JSON records.
    parameters: dict[int, str] = field(default_factory=dict)
    wanted: int = 0  # number of the parameter set that was requested last
    # Number of the next frame and of the next intermediate result. The frames and results before the
    # checkpoint from which the job continues are included.
    frames: int = 0
    sequence: int = 0
    checkpoints: int = 0
    stop: StopOrdered | None = None
    over: bool = False
    past: list[JobEvent] = field(default_factory=list)  # all events of the job


@dataclass(slots=True)
class FakeService(TrainingService):
    """Service for tests that follows the scripts of trials. At most ``slots`` jobs run at once (None: no
    limit).

    ``orders``: the core's committed orders as ("start" or "stop" or "update", job_id), in order.
    """

    slots: int | None = None
    default: Sequence[Step] = (started(), metric(1.0, final=True), ended(0))
    unavailable: list[str] = field(default_factory=list)  # errors that the next calls of ``open`` raise
    orders: list[tuple[str, str]] = field(default_factory=list)
    closed: bool | None = None  # value of ``detach`` in the last ``close``; None: not closed
    _scripts: dict[str, deque[Sequence[Step]]] = field(default_factory=dict)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _waiting: dict[str, TrialJobSpec] = field(default_factory=dict)
    _outbox: Outbox = field(default_factory=Outbox)
    _submitted: set[str] = field(default_factory=set)  # jobs submitted since the service was opened
    _cmd_seq: int = 0
    _acked: int = 0  # highest committed command number; the fake keeper carries out each command at once
    # Parameter sets for running jobs, which the core may not have committed yet.
    _ordered: dict[tuple[str, int], str] = field(default_factory=dict)
    _logs: dict[tuple[str, str], bytes] = field(default_factory=dict)

    capabilities = Capabilities(updates=True, checkpoints=True)

    def script(self, trial_id: str, *attempts: Sequence[Step]) -> None:
        """Set the scripts of a trial, one for each attempt. Further attempts follow ``default``."""
        self._scripts[trial_id] = deque(attempts)

    def resume(self, job_id: str) -> None:
        """Continue the script of a job that is paused at a step made by ``hold``."""
        job = self._jobs[job_id]
        job.held = False
        self._play(job)

    def say(self, *events: JobEvent) -> None:
        """Report these events to the core, although no script contains them."""
        self._outbox.put(events)

    def running(self, trial_id: str) -> int:
        """Return the number of attempts of the trial that are running."""
        return sum(
            job.running and not job.over for job in self._jobs.values() if job.spec.trial_id == trial_id
        )

    def write_log(self, job_id: str, name: str, content: bytes) -> None:
        self._logs[job_id, name] = content

    # ---- the service --------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        if self.unavailable:
            raise ServiceUnavailable(self.unavailable.pop(0))
        self._outbox = Outbox()
        self._submitted.clear()
        self._waiting.clear()
        self._cmd_seq = max([self._cmd_seq, *(keeper.last_cmd for keeper in known.keepers)])
        if not known.keepers:
            self._outbox.put([KeeperEnrolled(keeper_id=KEEPER_ID, token_sha256="0" * 64)])
            self._outbox.put([KeeperBound(keeper_id=KEEPER_ID, instance=INSTANCE, boot_id=BOOT_ID)])

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._submitted:
            return None
        self._submitted.add(job.id)
        if job.place is not None and job.id in self._jobs:
            self._outbox.put(event for event in self._jobs[job.id].past if _is_news(event, job))
            return None
        scripts = self._scripts.get(job.trial_id)
        steps = deque(scripts.popleft() if scripts else self.default)
        if steps and steps[0].kind == "rejected":
            raise JobRejected(str(steps[0].value))
        if job.place is not None:
            self._adopt(job, steps)
            return None
        if self.slots is not None and sum(not held.over for held in self._jobs.values()) >= self.slots:
            if scripts is not None:
                scripts.appendleft(steps)
            self._waiting[job.id] = job
            return JobWaiting(job_id=job.id, reason=f"waits for one of {self.slots} slots")
        return self._place(job, steps)

    def _adopt(self, job: TrialJobSpec, steps: deque[Step]) -> None:
        """Continue a job after a restart: skip the steps of its script that the core has recorded."""
        adopted = self._jobs[job.id] = _Job(job, steps, job.place, running=True, stop=job.stop)
        adopted.parameters = {order.index: record for order, record in job.updates}
        if job.origin is not None:
            adopted.frames, adopted.sequence = job.origin.position, job.origin.reports
        while steps and adopted.frames < job.recorded:
            step = steps.popleft()
            adopted.frames += step.kind in ("metric", "final", "skipped", "wants", "saved")
            adopted.checkpoints += step.kind == "saved"
            adopted.sequence += step.kind == "metric"
            adopted.wanted = int(str(step.value)) if step.kind == "wants" else adopted.wanted
        if job.started and steps and steps[0].kind == "started":
            steps.popleft()
        adopted.started = job.started
        self._play(adopted)

    def _place(self, job: TrialJobSpec, steps: deque[Step]) -> JobPlaced:
        self._cmd_seq += 1
        place = Place(keeper_id=KEEPER_ID, instance=INSTANCE, boot_id=BOOT_ID)
        placed = JobPlaced(job_id=job.id, place=place, cmd_seq=self._cmd_seq)
        made = self._jobs[job.id] = _Job(job, steps, placed)
        if job.origin is not None:
            made.frames, made.sequence = job.origin.position, job.origin.reports
        return placed

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        job = self._jobs.get(job_id)
        if job is None or job.over:
            return None
        self._cmd_seq += 1
        self._ordered[job_id, index] = parameter_text
        return UpdateOrdered(job_id=job_id, index=index, cmd_seq=self._cmd_seq)

    def save_trial_job(self, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        job = self._jobs.get(job_id)
        if job is None or job.over or job.stop is not None:
            return None
        self._cmd_seq += 1
        return SaveOrdered(job_id=job_id, cmd_seq=self._cmd_seq, within=within)

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        if self._waiting.pop(job_id, None) is not None:
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        job = self._jobs.get(job_id)
        if job is None or job.over or job.stop is not None:
            return None
        self._cmd_seq += 1
        job.stop = StopOrdered(job_id=job_id, cmd_seq=self._cmd_seq, grace=grace, save_within=save_within)
        return job.stop

    def committed(self, facts: Sequence[JobEvent]) -> None:
        for fact in facts:
            orders = JobPlaced | UpdateOrdered | SaveOrdered | StopOrdered
            if isinstance(fact, orders) and fact.cmd_seq is not None:
                self._acked = max(self._acked, fact.cmd_seq)
        for fact in facts:
            if isinstance(fact, JobPlaced) and (job := self._jobs.get(fact.job_id)) is not None:
                self.orders.append(("start", fact.job_id))
                job.running = True
                if _lacks_origin(job.spec, self._jobs):
                    self._tell(job, self._end(job, EndReason.CHECKPOINT_LOST, None, None))
                self._play(job)
            elif isinstance(fact, UpdateOrdered):
                self.orders.append(("update", fact.job_id))
                job = self._jobs[fact.job_id]
                job.parameters[fact.index] = self._ordered[fact.job_id, fact.index]
                self._play(job)
            elif isinstance(fact, SaveOrdered) and fact.cmd_seq is not None:
                self.orders.append(("save", fact.job_id))
            elif isinstance(fact, StopOrdered) and fact.cmd_seq is not None:
                self.orders.append(("stop", fact.job_id))
                self._stop(self._jobs[fact.job_id])

    def _stop(self, job: _Job) -> None:
        if job.over:
            self._outbox.put([KeeperAcknowledged(keeper_id=KEEPER_ID, acked_cmd=self._acked)])
        else:
            self._tell(job, self._end(job, EndReason.STOPPED, None, 15))
            self._free_slot()

    def _play(self, job: _Job) -> None:
        """Carry out the steps of the job's script until the script pauses or ends."""
        while job.steps and not (job.over or job.held):
            step = job.steps.popleft()
            if step.kind == "hold":
                job.held = True
            elif step.kind == "given" and job.wanted not in job.parameters:
                job.steps.appendleft(step)
                return
            elif step.kind == "given":
                continue
            elif step.kind == "ended":
                self._tell(job, self._end(job, EndReason.EXITED, step.code, step.signal))
            else:
                self._tell(job, self._event(job, step))
        if job.over:
            self._free_slot()

    def _tell(self, job: _Job, event: JobEvent) -> None:
        job.past.append(event)
        self._outbox.put([event])
        if isinstance(event, JobLost):
            self._outbox.put([KeeperAcknowledged(keeper_id=KEEPER_ID, acked_cmd=self._acked)])

    def _event(self, job: _Job, step: Step) -> JobEvent:
        job_id = job.spec.id
        position = job.frames
        match step.kind:
            case "started":
                job.started = True
                return JobStarted(job_id=job_id, started_at=AT, pid=4711)
            case "lost":
                job.over = True
                return JobLost(job_id=job_id, reason=str(step.value))
            case "noted":
                return JobNoted(job_id=job_id, note=str(step.value))
        job.frames += 1
        match step.kind:
            case "skipped":
                return FrameSkipped(job_id=job_id, position=position, reason=str(step.value))
            case "saved":
                assert isinstance(step.value, tuple)
                progress, asked = step.value
                job.checkpoints += 1
                return CheckpointReported(
                    job_id=job_id,
                    position=position,
                    number=job.checkpoints,
                    step=progress,
                    size=10,
                    files=1,
                    asked=asked,
                )
            case "wants":
                job.wanted = int(str(step.value))
                return ParametersWanted(job_id=job_id, position=position, index=job.wanted)
        sequence = 0 if step.kind == "final" else job.sequence
        job.sequence += step.kind == "metric"
        number = step.value.get("default") if isinstance(step.value, dict) else step.value
        return MetricReported(
            job_id,
            position,
            "FINAL" if step.kind == "final" else "PERIODICAL",
            sequence,
            _parameter_id(job.parameters.get(job.wanted, job.spec.parameter_text)),
            float(number) if isinstance(number, int | float) and math.isfinite(number) else None,
            json.dumps(step.value),
        )

    def _end(self, job: _Job, reason: EndReason, code: int | None, signal: int | None) -> JobEnded:
        job.over = True
        return JobEnded(
            job_id=job.spec.id,
            reason=reason,
            exit_code=code,
            signal=signal,
            metrics=job.frames - (0 if job.spec.origin is None else job.spec.origin.position),
            acked_cmd=self._acked,
            ended_at=AT,
        )

    def _free_slot(self) -> None:
        """Place the job that has waited longest, because a slot has become free."""
        if self._waiting:
            job = self._waiting.pop(next(iter(self._waiting)))
            scripts = self._scripts.get(job.trial_id)
            self._outbox.put([self._place(job, deque(scripts.popleft() if scripts else self.default))])

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        return [
            TrialJobDetail(
                job_id=job.spec.id,
                place=job.place.place if job.place else None,
                started=job.started,
                ended=job.over,
            )
            for job in self._jobs.values()
        ]

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        if name not in ("stdout", "stderr", "trial.log"):
            raise ValueError(f"{name!r} is not a log")
        if (job_id, name) not in self._logs:
            raise FileNotFoundError(f"{job_id} has no {name}")
        lines = self._logs[job_id, name].splitlines(keepends=True)
        yield b"".join(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        names = sorted(name for found, name in self._logs if found == job_id)
        return FileListing(tuple(TrialFile(name, len(self._logs[job_id, name]), AT) for name in names))

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        check_path(path)
        if (job_id, path) not in self._logs:
            raise FileNotFoundError(f"{job_id} has no {path}")
        yield self._logs[job_id, path]

    async def close(self, *, detach: bool) -> Sequence[str]:
        self.closed = detach
        self._outbox.close()
        return ()


def _parameter_id(record: str) -> str | None:
    found = json.loads(record or "{}").get("parameter_id")
    return None if found is None else json.dumps(found)


def _is_news(event: JobEvent, job: TrialJobSpec) -> bool:
    if isinstance(event, JobStarted):
        return not job.started
    if isinstance(event, MetricReported | FrameSkipped | ParametersWanted | CheckpointReported):
        return event.position >= job.recorded
    return True


def _lacks_origin(job: TrialJobSpec, jobs: dict[str, _Job]) -> bool:
    """Return True if the job is to continue from a checkpoint that the service knows to be missing."""
    if job.origin is None:
        return False
    before = jobs.get(f"{job.id.rpartition('-')[0]}-{job.origin.attempt}")
    return before is not None and before.checkpoints < job.origin.number
