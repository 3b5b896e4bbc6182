"""Runs one trial that does nothing, from its placement to its end, to test a training service."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from training_services.base import (
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobWaiting,
    KnownKeepers,
    MetricReported,
    ServiceError,
    TrainingService,
    TrialJobSpec,
)

__all__ = ["COMMAND", "rehearse"]

COMMAND = (
    "python3 -c 'import nni; nni.get_next_parameter(); nni.report_intermediate_result(1); "
    "nni.report_final_result(2)'"
)
_RESULTS = [1.0, 2.0]


async def rehearse(
    service: TrainingService, *, experiment_id: str, limit_s: float, tell: Callable[[str], object]
) -> float:
    """Run one trial that only reports two results, and return its duration in seconds.

    The service is opened first, and closed at the end, which ends its keepers. ``tell`` is called with each
    sentence about what the trial waits for. Raises ServiceError if the trial fails.
    """
    began = time.monotonic()
    said = ["it has not reported anything"]

    def say(sentence: str) -> None:
        if sentence != said[-1]:
            said.append(sentence)
            tell(sentence)

    try:
        async with asyncio.timeout(limit_s):
            await service.open(KnownKeepers(db_id=secrets.token_hex(8), m_epoch=1))
            service.adopted()
            await _run(service, experiment_id, say)
    except TimeoutError:
        raise ServiceError(
            f"a trial that does nothing has not ended within {limit_s:g} s: {said[-1]}"
        ) from None
    finally:
        await service.close(detach=False)
    return time.monotonic() - began


async def _run(service: TrainingService, experiment_id: str, say: Callable[[str], None]) -> None:
    job = TrialJobSpec(
        id=f"{experiment_id}-a0000-1",
        trial_id="a0000",
        attempt=1,
        sequence=0,
        parameter_text='{"parameter_id": 0, "parameter_source": "algorithm", "parameters": {}}',
    )
    results: dict[int, float | None] = {}
    answer = service.submit_trial_job(job)
    events: list[JobEvent] = [] if answer is None else [answer]
    batches = aiter(service.events())
    while True:
        service.committed(events)
        for event in events:
            match event:
                case MetricReported():
                    results[event.position] = event.value
                case JobWaiting(reason=reason) | JobNoted(note=reason):
                    say(reason)
                case JobLost(reason=reason):
                    raise ServiceError(f"a trial that does nothing was lost: {reason}")
                case JobEnded():
                    return await _check(service, event, list(results.values()))
        events = list(await anext(batches))
        for notice in service.notices().values():
            say(notice)


async def _check(service: TrainingService, end: JobEnded, results: list[float | None]) -> None:
    if (end.reason, end.exit_code) != (EndReason.EXITED, 0):
        last = await _last_line(service, end.job_id)
        raise ServiceError(
            f"a trial that does nothing ended with code {end.exit_code}"
            + (f" ({end.message})" if end.message else "")
            + (f"; the last line that it printed: {last}" if last else "")
        )
    if results != _RESULTS:
        raise ServiceError(f"a trial reported the results {_RESULTS}, but the server received {results}")


async def _last_line(service: TrainingService, job_id: str) -> str:
    text = b""
    try:
        async for chunk in service.read_log(job_id, "stderr", follow=False):
            text = (text + chunk)[-4096:]
    except (OSError, ServiceError):
        return ""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
