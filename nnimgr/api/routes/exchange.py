"""Route for programs that ask for trials and run them (platform ``ask``)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, Live, NotFound, Parts, parts_for, refusals
from nnimgr.api.routing import CheckedRoute, Router
from nnimgr.core.running import exchange as core
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.rules.state import trial_of_job
from nnimgr.store.reader import ExperimentReader
from training_services.base import TrialJobSpec


class _QuickRoute(CheckedRoute):
    """Route that gives a correct request to its endpoint directly, because a study waits for each answer.

    FastAPI takes longer for the same. It answers all other requests, and says what is wrong with them.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual = super().get_route_handler()

        async def quick(request: Request) -> Response:
            if request.scope["query_string"] or request.headers.get("content-type") != "application/json":
                return await usual(request)
            try:
                wanted = models.Exchange.model_validate_json(await request.body())
            except ValidationError:
                return await usual(request)
            parts, experiment_id = await parts_for(request), request.path_params["id"]
            return await exchange_trials(
                parts, experiment_id, parts.manager.get(experiment_id), wanted, request
            )

        return quick


router = Router(prefix="/api/v1/experiments/{id}", tags=["trials"], route_class=_QuickRoute)


@router.post("/exchange", response_model=models.Exchanged, responses=refusals(404, 409, 422, 503))
async def exchange_trials(
    parts: Parts, experiment_id: ExperimentId, runner: Live, wanted: models.Exchange, request: Request
) -> Response:
    """Report on trials that the program runs itself, and get further trials, in one request.

    Only for experiments with the platform `ask`. The answer comes when all is stored, and when the wanted
    trials have come. The request can be repeated: each report has a number, a trial ends once, and the wanted
    trials have a key.
    """
    asked = wanted.wanted
    work = asyncio.ensure_future(
        core.exchange(
            runner,
            reports=[core.Report(_held(each), each.number, _number(each.value)) for each in wanted.reports],
            tells=[core.Tell(_held(each), each.value, each.error, each.canceled) for each in wanted.tells],
            alive=[_held(each) for each in wanted.alive],
            wanted=None if asked is None else core.Wanted(asked.key, asked.count, asked.holds),
        )
    )
    closing = asyncio.ensure_future(parts.shutdown.closing.wait())
    leaving = asyncio.ensure_future(_client_left(request))
    try:
        await asyncio.wait({work, closing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():  # nobody would run the trials of a client that has left
            raise ClientDisconnect if leaving.done() else RunnerClosed
        found = work.result()
    finally:
        leaving.cancel()
        closing.cancel()
        work.cancel()
    gone: list[models.GoneTrial] = []
    if found.gone:
        gone = await asyncio.to_thread(_gone, parts.manager.reader(experiment_id), found.gone)
    trials = [_given(job) for job in found.jobs]
    answer = models.Exchanged(trials=trials, gone=gone, ended=found.ended, waiting=found.waiting)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _client_left(request: Request) -> None:
    """Wait until the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _held(trial: models.HeldTrial) -> core.Held:
    return core.Held(trial.trial_id, trial.attempt)


def _number(value: Any) -> Any:
    """Return a value with the name of a number that is not finite replaced by the number."""
    return float(value) if isinstance(value, str) else value


def _given(job: TrialJobSpec) -> models.GivenTrial:
    _, attempt = trial_of_job(job.id)
    parameters = json.loads(job.parameter_text)["parameters"]
    return models.GivenTrial(
        id=job.trial_id, sequence=job.sequence, attempt=attempt, parameters=parameters, seed=job.seed
    )


def _gone(reader: ExperimentReader, gone: Sequence[core.Held]) -> list[models.GoneTrial]:
    """Return how trials have ended. Raise NotFound if one has never existed."""
    rows = reader.trials_of({held.trial_id for held in gone})
    found = []
    for held in gone:
        row = rows.get(held.trial_id)
        if row is None or held.attempt > row.attempt:
            raise NotFound(f"There is no trial {held.trial_id} with attempt {held.attempt}.")
        result = None if row.final_text is None else json.loads(row.final_text)
        found.append(
            models.GoneTrial(
                trial_id=row.trial_id,
                attempt=held.attempt,
                status=row.status,
                reason=row.reason or "",
                result=result,
            )
        )
    return found
