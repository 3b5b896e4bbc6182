"""Exchange between a runner and a program that runs trials itself (platform ``ask``).

In one exchange a program reports results and ends of its trials, renews its leases and asks for further
trials. An exchange may be repeated without harm: a result has its number in the trial, an end is recorded
once, and a request for trials has a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import LIVE, ExperimentRunner
from nnimgr.core.running.search import Search
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, JobState, job_id_of
from training_services.ask import AskService
from training_services.base import TrialJobSpec
from training_services.frames import number_in

__all__ = ["HOLD_S", "Exchanged", "Held", "Report", "Tell", "Wanted", "exchange"]

HOLD_S = 10.0  # longest wait for trials; the program then asks again with the same key
_CREATES_TRIALS = LIVE - {f.ExperimentStatus.DRAINING}


class Held(NamedTuple):
    """Attempt at a trial, which a program runs."""

    trial_id: str
    attempt: int


class Report(NamedTuple):
    """Intermediate result of an attempt. ``number``: its number in the attempt, from 0."""

    of: Held
    number: int
    value: Any


class Tell(NamedTuple):
    """End of an attempt: its result (``value``), the error with which it failed, or that it was canceled."""

    of: Held
    value: Any = None
    error: str | None = None
    canceled: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request of a program for ``count`` trials. ``key``: text that no other request has.

    ``holds``: number of other open trials that the program has; None: it does not say.
    """

    key: str
    count: int
    holds: int | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Answer of an exchange. ``gone``: attempts that the program named, and that were not open any more.

    ``ended``: why no more trials are created, if the program has asked for some and gets none. ``waiting``:
    what the experiment does, if the program gets none yet.
    """

    jobs: Sequence[TrialJobSpec]
    gone: Sequence[Held]
    ended: str | None = None
    waiting: str | None = None


async def exchange(
    runner: ExperimentRunner,
    *,
    reports: Sequence[Report] = (),
    tells: Sequence[Tell] = (),
    alive: Sequence[Held] = (),
    wanted: Wanted | None = None,
    hold_s: float = HOLD_S,
) -> Exchanged:
    """Record reports and ends, renew leases, and wait for the wanted trials.

    Return when all is committed. Raise RequestRefused, or RunnerClosed if the runner ends.
    """
    state = runner.state
    if not state.asked:
        raise RequestRefused(
            f"experiment {state.id} runs its trials itself: only experiments with the platform ask give "
            "trials to programs"
        )
    service = await _service(runner)
    if service is None:
        gone = [*(each.of for each in reports), *(each.of for each in tells), *alive]
        return Exchanged((), gone, None if wanted is None else _ended(state))
    service.renew(job_id_of(state.id, *held) for held in (*alive, *(report.of for report in reports)))
    if wanted is not None:
        # before the tells, so that the same turn asks the tuner
        service.want(wanted.key, wanted.count, holds=wanted.holds or 0)
    try:
        gone = []
        if reports or tells:
            record = _Record(service, runner.search, reports, tells)
            await runner.request(record)
            gone += record.gone
        elif wanted is not None:
            await runner.request(_nothing)
        gone += [held for held in alive if _open_job(state, held) is None]
        if wanted is None:
            return Exchanged((), gone)
        jobs, ended = await _granted(runner, service, wanted, hold_s)
        waiting = None if jobs or ended is not None else runner.now()
        return Exchanged(jobs, gone, ended, waiting)
    finally:
        if wanted is not None:
            service.unwant(wanted.key)


async def _service(runner: ExperimentRunner) -> AskService | None:
    """Wait until the training service is open, and return it. Return None if the experiment is over."""
    while not isinstance(service := runner.session.service, AskService):
        if runner.state.status not in LIVE:
            return None
        await runner.turn_over()
    return service


async def _granted(
    runner: ExperimentRunner, service: AskService, wanted: Wanted, hold_s: float
) -> tuple[Sequence[TrialJobSpec], str | None]:
    """Wait until the request has got all its trials, or cannot get more now. Return the trials that it has.

    The second value says why no more trials are created, if it has none.
    """
    state = runner.state
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(hold_s):
            while len(jobs := service.granted(wanted.key)) < wanted.count:
                over = state.status not in _CREATES_TRIALS and not state.queued
                if over and service.complete(wanted.key) and (jobs or not _may_bring(state, service, wanted)):
                    return jobs, None if jobs else _ended(state)
                if jobs and state.free_slots <= 0 and service.complete(wanted.key):
                    break
                await runner.turn_over()
    return service.granted(wanted.key), None


def _may_bring(state: ExperimentState, service: AskService, wanted: Wanted) -> bool:
    """Return whether the end of a trial that another program has may yet bring a trial for this one.

    The tuner may have more parameter sets after a result, and a trial whose program has died may be repeated.
    """
    if wanted.holds is None or state.status is not f.ExperimentStatus.DRAINING:
        return False
    repeats = state.drain is f.DrainReason.BUDGET and bool(state.limits.max_lost_attempts)
    if state.drain is not f.DrainReason.TUNER and not repeats:
        return False
    if state.asks_exhausted:  # the tuner is being asked again
        return True
    # Programs that have trials must not wait for each other.
    waited_for = service.waiting_programs_hold if wanted.holds else 0
    return state.open_jobs > waited_for


class _Record:
    """Builder of the facts that follow from a program's reports and tells.

    ``gone``: the attempts among them that are not open any more.
    """

    def __init__(
        self, service: AskService, search: Search | None, reports: Sequence[Report], tells: Sequence[Tell]
    ) -> None:
        self._service, self._search = service, search
        self._reports, self._tells = reports, tells
        self.gone: list[Held] = []

    def __call__(self, state: ExperimentState) -> Sequence[f.Fact]:
        metrics: list[f.MetricReported] = []
        recorded: dict[str, int] = {}
        for report in self._reports:
            if (job := _open_job(state, report.of)) is None:
                self.gone.append(report.of)
                continue
            position = recorded.get(job.id, job.recorded)
            if report.number > position:
                raise RequestRefused(
                    f"trial {report.of.trial_id} has {position} reports, so the next one has the number "
                    f"{position}, not {report.number}"
                )
            if report.number == position:
                metrics.append(_metric(job.id, position, "PERIODICAL", report.value))
                recorded[job.id] = position + 1
        facts: list[f.Fact] = [*metrics]
        for tell in self._tells:
            if (job := _open_job(state, tell.of)) is None:
                self.gone.append(tell.of)
            else:
                facts += self._end(job, tell, recorded.get(job.id, job.recorded))
        if self._search is not None:
            for metric in metrics:
                self._search.judge(metric)
            self._search.flush()
        return facts

    def _end(self, job: JobState, tell: Tell, recorded: int) -> Iterable[f.Fact]:
        """Yield the facts that end an attempt. ``recorded``: number of its intermediate results."""
        if tell.canceled:
            yield f.StopRequested(trial_id=job.trial_id)
        final = tell.error is None and not tell.canceled
        if final:
            yield _metric(job.id, recorded, "FINAL", tell.value)
        yield f.JobEnded(
            job_id=job.id,
            reason=f.EndReason.STOPPED if tell.canceled else f.EndReason.EXITED,
            exit_code=0 if final else None,
            signal=None,
            metrics=recorded + final,
            acked_cmd=self._service.last_command,
            ended_at=datetime.now(UTC),
            message=tell.error,
        )


def _metric(job_id: str, position: int, kind: str, value: Any) -> f.MetricReported:
    number = position if kind == "PERIODICAL" else 0
    return f.MetricReported(job_id, position, kind, number, None, number_in(value), json.dumps(value))


def _open_job(state: ExperimentState, held: Held) -> JobState | None:
    """Return the job of an attempt; None if it has ended."""
    job = state.jobs.get(job_id_of(state.id, *held))
    return None if job is None or job.closed else job


def _ended(state: ExperimentState) -> str:
    return f"experiment {state.id} is {state.status}: {state.reason}"


def _nothing(state: ExperimentState) -> Sequence[f.Fact]:
    """Return no facts. This request only causes the runner to plan again."""
    return ()
