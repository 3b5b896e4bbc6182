"""Opens, uses and closes the training service of one experiment.

A session is created with its runner, and has an open service only while the experiment needs it. The session
submits the open jobs of the state to each new service, and puts the service's events into the runner's
mailbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from nnimgr.core.running.mailbox import Mailbox
from nnimgr.core.running.search import Search
from nnimgr.core.running.waits import Wait
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import copy_comes, known_copies, to_keep
from nnimgr.rules.commands import (
    CancelJob,
    Command,
    GatherGang,
    SaveJob,
    StopMembers,
    SubmitJob,
    UpdateJob,
)
from nnimgr.rules.confirmations import about_confirmation
from nnimgr.rules.phases import parameter_record
from nnimgr.rules.state import ExperimentState, JobState, TrialState
from nnimgr.store.rows import trial_of
from training_services.base import (
    JobRejected,
    KnownKeeper,
    KnownKeepers,
    KnownMachine,
    MemberProgress,
    ServiceUnavailable,
    TrainingService,
    TrialJobSpec,
)
from training_services.keepers.names import LOCAL

__all__ = ["Database", "ServiceSession"]

# Facts after which another checkpoint of their trial may have to be copied to the server.
COPIED_AFTER = (f.CheckpointReported, f.CheckpointKept, f.CheckpointLost, f.AttemptDue, f.TrialEnded)
FRAMES = (f.MetricReported, f.FrameSkipped, f.ParametersWanted, f.CheckpointReported)
# Metrics and starts of jobs may wait for the trial's end, which often follows soon. This saves one commit per
# trial.
PATIENT = (f.MetricReported, f.JobStarted)
RETRY_S = (1.0, 30.0)  # first and longest wait before another try to open a service
LAST_EVENTS_S = 1.0

logger = logging.getLogger(__name__)


class Database(Protocol):
    """Interface of the store that gives the identity of the experiment's database. Training services and
    keepers receive this identity.
    """

    @property
    def db_id(self) -> str: ...

    @property
    def m_epoch(self) -> int: ...


class ServiceSession:
    """Session of a runner with its training service.

    ``service``: the open service, after all open jobs were submitted to it; else None. ``closing``: a service
    that is being closed and may still report output of jobs. ``trouble``: the error that prevents opening a
    service. ``opening``: the wait for a service to open. ``left``: sentences about files or processes that
    the last service may have left on machines, and about copies that it could not put into the storage.
    """

    def __init__(
        self,
        state: ExperimentState,
        *,
        database: Database,
        make_service: Callable[[ExperimentState], TrainingService],
        mailbox: Mailbox,
        search: Callable[[], Search | None],
    ) -> None:
        self.service: TrainingService | None = None
        self.closing: TrainingService | None = None
        self.trouble: str | None = None
        self.opening = Wait("the training service has been opening")
        self.left: Sequence[str] = ()
        self._state, self._database, self._make_service = state, database, make_service
        self._mailbox, self._search = mailbox, search
        self._opening: TrainingService | None = None  # a service without its jobs yet
        self._priority = 0  # the priority that the open service knows
        self._door: dict[str, int] = {}  # job id -> position of the next new line in its metrics file
        self._continues = False  # True: attempts can continue from checkpoints on this platform
        self._keepers_left = bool(state.keepers)
        self._pump: asyncio.Task[None] | None = None
        self._dismissal: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        """Return whether a service is open, is being opened, or dismisses the keepers of the last server."""
        return self._pump is not None or self.dismissing

    @property
    def dismissing(self) -> bool:
        """Return whether keepers that the last server has left are asked to leave."""
        return self._dismissal is not None

    @property
    def ending(self) -> str | None:
        """Return a phrase while keepers are asked to leave, because the experiment has ended; else None."""
        if self.closing is None and not self.dismissing:
            return None
        elsewhere = self._state.keepers.keys() - {LOCAL}
        return "the experiment is ending" + (": its keepers leave the machines" if elsewhere else "")

    @property
    def wanted(self) -> int:
        """Return the number of jobs for which programs wait. Other platforms than ``ask`` have none."""
        return 0 if self.service is None else self.service.wanted

    @property
    def notices(self) -> Mapping[str, str]:
        """Return sentences about present problems of the training service, by subject."""
        found = {} if self.service is None else dict(self.service.notices())
        if self.trouble is not None:
            found["service"] = self.trouble
        if self.left:
            found["left"] = f"something may be left: {'; '.join(self.left)}"
        return found

    # ---- called by the runner -----------------------------------------------------------------------------

    def follow(self, commands: Iterable[Command], at: datetime) -> list[f.Fact]:
        """Pass commands about jobs to the training service; return the facts to commit in the same turn."""
        facts: list[f.Fact] = []
        service = self.service
        if service is None:
            return facts
        for command in commands:
            answer: f.Fact | None = None
            match command:
                case SubmitJob():
                    spec = job_spec(self._state, self._state.trials[command.trial_id], command.job_id)
                    facts += _submit(service, spec, at)
                    if self._state.asked:  # its program runs it from now on
                        facts.append(f.JobStarted(job_id=spec.id, started_at=at))
                case CancelJob():
                    answer = _cancel(service, command)
                    if isinstance(answer, f.StopOrdered) and self._state.asked:
                        facts += (answer, _given_up(answer, at))
                        answer = None
                case SaveJob():
                    facts += _save(service, command)
                case UpdateJob():
                    answer = service.update_trial_job(command.job_id, command.index, command.record)
                case GatherGang():
                    answer = service.gather(command.job_id)
                case StopMembers():
                    answer = service.stop_members(command.job_id, command.members, grace=command.grace)
            if answer is not None:
                facts.append(answer)
        return facts

    def committed(self, turn: Sequence[f.Recorded], job_ids: Iterable[str]) -> None:
        """Report the committed facts to the training service. Forget positions in the output of ended
        jobs.
        """
        if self.service is not None:
            self._prioritise()
            trials = dict.fromkeys(trial_of(fact) for _, _, fact in turn if isinstance(fact, COPIED_AFTER))
            for trial_id in filter(None, trials):
                self._keep(self.service, trial_id)
            self.service.committed([fact for _, _, fact in turn if isinstance(fact, f.JobEvent)])
        jobs = self._state.jobs
        for job_id in job_ids:
            if job_id not in jobs or jobs[job_id].closed:
                self._door.pop(job_id, None)

    def _prioritise(self) -> None:
        """Pass on a change of the experiment's priority to the open training service."""
        priority = _priority_of(self._state)
        if self.service is not None and priority != self._priority:
            self._priority = priority
            self.service.prioritise(priority)

    def _keep(self, service: TrainingService, trial_id: str) -> None:
        """Let the service copy the trial's newest checkpoint to the server, if that is necessary."""
        trial = self._state.trials.get(trial_id)
        service.keep_checkpoint(trial_id, None if trial is None else to_keep(self._state, trial))

    async def keep(
        self, *, needed: bool, spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
    ) -> None:
        """Open the training service if the experiment needs it (``needed``); otherwise close it."""
        if self._dismissal is not None:  # its end wakes the runner, whose turn then comes here again
            return
        if needed and self._pump is None:
            self._pump = spawn(self._serve(), "service")
            self._keepers_left, self.left = False, ()
        elif not needed and self._pump is not None:
            await self._close(self._pump)
        elif self._keepers_left and not needed and not self._state.detached:
            self._keepers_left = False
            # Ask the keepers to leave in a separate task, because their machines may take long to answer.
            self._dismissal = spawn(self._dismiss_keepers(), "dismissal")

    def interrupt(self) -> None:
        """Stop receiving events of the training service, because the runner ends."""
        if self._pump is not None:
            self._pump.cancel()

    async def detach(self) -> None:
        """Close the training service and leave its jobs running."""
        service = self.service or self._opening
        if service is not None:
            await service.close(detach=True)

    # ---- opening and closing ------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Open the training service, submit the open jobs to it, and put its events into the runner's
        mailbox.
        """
        delay, longest = RETRY_S
        while True:
            try:
                service = self._opening = self._make_service(self._state)
                self._priority = _priority_of(self._state)
                self._continues = service.capabilities.checkpoints
                with self.opening.measured(self._state.id):
                    await service.open(_known_keepers(self._state, self._database))
                break
            except ServiceUnavailable as error:
                self.trouble = str(error)
                logger.warning("experiment %s: %s", self._state.id, error)
                await asyncio.sleep(delay)  # back-off
                delay = min(2 * delay, longest)
        self.trouble = None
        self._mailbox.put(lambda state: self._adopt(service, state))
        async for events in service.events():
            await self._mailbox.room()
            for event in events:
                self._arrived(event)
            if (search := self._search()) is not None:
                search.flush()

    def _adopt(self, service: TrainingService, state: ExperimentState) -> Sequence[f.Fact]:
        """Submit every open job of the state to a new training service. Return the facts that follow.

        The runner calls this at the beginning of a turn.
        """
        facts: list[f.Fact] = []
        if self._opening is not service:  # the service was closed meanwhile
            return facts
        assert state.last_at is not None
        for job in state.jobs.values():
            trial = state.trials.get(job.trial_id)
            if job.closed or trial is None:
                continue
            facts += _submit(service, job_spec(state, trial, job.id, progress=True), state.last_at)
            self._door[job.id] = job.recorded
        for trial_id, trial in state.trials.items():
            if trial.checkpoints:
                self._keep(service, trial_id)
        service.adopted()
        self.service, self._opening = service, None
        self._prioritise()
        return facts

    async def _close(self, pump: asyncio.Task[None]) -> None:
        opened = self.service is not None
        service, self._pump = self.service or self._opening, None
        self.service = self._opening = None
        if not opened:
            pump.cancel()
        if service is not None:
            self.closing = service
            self.left = await service.close(detach=self._state.detached)
            self.closing = None
        await asyncio.wait({pump}, timeout=LAST_EVENTS_S)  # for the last events of the service
        pump.cancel()

    async def _dismiss_keepers(self) -> None:
        """End keepers (the agents beside the trials) that still run because the last server crashed after
        the experiment's end.
        """
        try:
            with contextlib.suppress(ServiceUnavailable):
                service = self._make_service(self._state)
                with self.opening.measured(self._state.id):
                    await service.open(_known_keepers(self._state, self._database))
                await service.close(detach=False)
                async for events in service.events():  # events about keepers that have exited
                    for event in events:
                        self._arrived(event)
        finally:
            self._dismissal = None
            self._mailbox.wake()

    # ---- events -------------------------------------------------------------------------------------------

    def _arrived(self, event: f.JobEvent) -> None:
        """Put an event of the training service into the mailbox. Ignore a repeated event; collect metrics
        for the assessor.
        """
        if isinstance(event, FRAMES):
            if event.position != self._next_frame(event.job_id):
                return
            self._door[event.job_id] = event.position + 1
            if type(event) is f.MetricReported:
                self._judge(event)
            elif isinstance(event, f.CheckpointReported) and not self._continues:
                event = replace(event, usable=False)
        self._mailbox.put(event, urgent=not isinstance(event, PATIENT))

    def _judge(self, metric: f.MetricReported) -> None:
        """Pass a metric of an open job on to the assessor, which never hears of confirmations."""
        search, job = self._search(), self._state.jobs.get(metric.job_id)
        if search is not None and job is not None and not job.closed:
            if not about_confirmation(self._state, metric):
                search.judge(metric)

    def _next_frame(self, job_id: str) -> int:
        """Return the number of the job's next new frame."""
        known = self._door.get(job_id)
        if known is None:
            job = self._state.jobs.get(job_id)
            known = 0 if job is None else job.base
        return known


def _known_keepers(state: ExperimentState, database: Database) -> KnownKeepers:
    """Return the keepers and machines in the experiment's state, and the identity of its database."""
    last = state.last_commands()
    return KnownKeepers(
        db_id=database.db_id,
        m_epoch=database.m_epoch,
        restored=state.missing > 0,
        copies=known_copies(state),
        keepers=tuple(
            KnownKeeper(
                keeper_id=keeper_id,
                token_sha256=keeper.token_sha256,
                instance=keeper.instance,
                retired=tuple(keeper.retired),
                boot_id=keeper.boot_id,
                silent=keeper.silent is not None,
                prunes=keeper.prunes,
                unpruned=tuple(keeper.unpruned.values()),
                last_cmd=last[keeper_id],
            )
            for keeper_id, keeper in state.keepers.items()
        ),
        machines=tuple(
            KnownMachine(
                keeper_id=keeper_id,
                added=machine.added,
                draining=machine.draining,
                removing=machine.removing,
                gone=machine.gone,
            )
            for keeper_id, machine in state.machines.items()
        ),
    )


def _priority_of(state: ExperimentState) -> int:
    return int(state.config.get("priority") or 0)


def _cancel(service: TrainingService, command: CancelJob) -> f.Fact | None:
    """Order the stop of a job. A service that knows no checkpoints is not asked to have the state saved."""
    if command.save_within is None or not service.capabilities.checkpoints:
        return service.cancel_trial_job(command.job_id, grace=command.grace)
    return service.cancel_trial_job(command.job_id, grace=command.grace, save_within=command.save_within)


def _save(service: TrainingService, command: SaveJob) -> Sequence[f.Fact]:
    """Ask a job to save its state. Return the facts to commit, with a note if the platform cannot ask it."""
    order = service.save_trial_job(command.job_id, within=command.within)
    if order is None:
        return ()
    note = "a user wants the trial to save its state, but on this platform trials are not asked to save"
    return (order,) if order.cmd_seq is not None else (order, f.JobNoted(job_id=order.job_id, note=note))


def _given_up(stop: f.StopOrdered, at: datetime) -> f.JobEnded:
    """Return the end of a job that a program runs. It ends with its stop: the program is only told."""
    return f.JobEnded(
        job_id=stop.job_id,
        reason=f.EndReason.STOPPED,
        exit_code=None,
        signal=None,
        metrics=0,
        acked_cmd=stop.cmd_seq or 0,
        ended_at=at,
    )


def _submit(service: TrainingService, job: TrialJobSpec, at: datetime) -> Sequence[f.Fact]:
    """Submit a job to the training service. Return the facts to commit.

    If the service can never run the job, these facts end the job at once.
    """
    try:
        answer = service.submit_trial_job(job)
    except JobRejected as error:
        reason = str(error)
        return (
            f.JobWaiting(job_id=job.id, reason=reason),
            f.JobEnded(
                job_id=job.id,
                reason=f.EndReason.NEVER_STARTED,
                exit_code=None,
                signal=None,
                metrics=0,
                acked_cmd=0,
                ended_at=at,
                message=reason,
            ),
        )
    return () if answer is None else (answer,)


def job_spec(
    state: ExperimentState, trial: TrialState, job_id: str, *, progress: bool = False
) -> TrialJobSpec:
    """Return the description of a job for the training service.

    ``progress``: include the job's committed progress.
    """
    job = state.jobs[job_id] if progress else None
    return TrialJobSpec(
        id=job_id,
        trial_id=trial.id,
        attempt=trial.attempt,
        sequence=trial.sequence,
        parameter_text=parameter_record(trial),
        place=job.placed if job else None,
        stop=job.stop if job else None,
        save=job.save if job else None,
        updates=tuple(job.updates) if job else (),
        recorded=job.recorded if job else 0,
        started=job is not None and job.started_at is not None,
        origin=None if trial.origin is None else trial.origin.origin,
        memory_retries=trial.memory_attempts,
        kept=None if trial.origin is None else trial.origin.kept,
        copy_comes=copy_comes(state, trial),
        seed=trial.seed,
        resources=dict(trial.resources),
        members=() if job is None else _progress(job),
        waits_since=None if job is None else job.waits_since,
        seats=trial.seats,
        most_members=trial.most_members,
        has_saved=bool(trial.checkpoints) or trial.origin is not None,
    )


def _progress(job: JobState) -> tuple[MemberProgress, ...]:
    """Return the committed facts about the members of a gang's job."""
    return tuple(
        MemberProgress(
            started=member.started_at is not None, over=member.over, go=member.go, stop=member.stop
        )
        for member in job.members
    )
