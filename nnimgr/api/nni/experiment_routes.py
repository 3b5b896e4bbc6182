"""NNI's routes about an experiment as a whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nnimgr.api.dependencies import ApiParts
from nnimgr.api.nni.asking import answer, body_of, built, listing, sober, target
from nnimgr.api.nni.javascript import parse, quote, stringify
from nnimgr.api.nni.profile import profile
from nnimgr.core.managing.index_notes import nni_status
from nnimgr.core.managing.manager import NewExperiment, UnknownExperiment
from nnimgr.core.running import requests
from nnimgr.core.running.runner import LIVE
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.rules.facts import ExperimentStatus, TrialStatus
from nnimgr.store.reader import ExperimentReader

__all__ = ["ROUTES"]

NNI_VERSION = "3.0.0"  # the version of NNI that has these routes

_UPDATES = {
    "TRIAL_CONCURRENCY": "trialConcurrency",
    "MAX_EXEC_DURATION": "maxExperimentDuration",
    "SEARCH_SPACE": "searchSpace",
    "MAX_TRIAL_NUM": "maxTrialNumber",
}
_PAGE = 1000


async def version(request: Request) -> Response:
    """Return NNI's version as plain text."""
    return answer(NNI_VERSION)


async def check_status(request: Request) -> Response:
    """Return the experiment's status in NNI's words, and the reason if the status is ERROR."""
    parts: ApiParts = request.app.state.parts
    if "experiment" not in request.path_params and parts.manager.latest is None:
        return answer(stringify({"status": "INITIALIZED", "errors": []}))
    about = target(request)
    served = parts.manager.served().get(about.id)
    trouble = parts.manager.trouble(about.id)
    if about.runner is None and trouble is not None:
        return answer(stringify({"status": served or "ERROR", "errors": [trouble]}))
    row = await asyncio.to_thread(about.reader.experiment)
    # The database is ahead of the manager's notes, and clients know its events already.
    status = served if served == ExperimentStatus.VIEWED else nni_status(row.status, row.drain)
    errors = [row.reason] if status == ExperimentStatus.ERROR else []
    return answer(stringify({"status": status, "errors": errors}))


async def show(request: Request) -> Response:
    """Return the experiment's profile in NNI's format."""
    about = target(request)
    directory, runner = about.parts.manager.directory(about.id), about.runner
    active = runner.active() if runner is not None else None
    return await built(lambda: profile(about.reader.experiment(), directory=directory, active=active))


async def create(request: Request) -> Response:
    """Create an experiment from the configuration in the request, or resume the experiment that the path
    names.
    """
    parts: ApiParts = request.app.state.parts
    experiment_id = request.path_params.get("experiment")
    if experiment_id is not None and experiment_id in {entry.id for entry in parts.manager.summaries()}:
        await parts.manager.resume(experiment_id)
        return answer()
    config = sober(await body_of(request))
    if not isinstance(config, dict):
        raise HTTPException(400, "The configuration is not an object.")
    space = config.pop("searchSpace", {})
    if not isinstance(space, dict):
        raise HTTPException(400, "The search space is not an object.")
    new = NewExperiment(config=config, search_space=space, id=experiment_id)
    created, _ = await parts.manager.create(new)
    return answer(stringify({"experiment_id": created}))


async def update(request: Request) -> Response:
    """Change the one field of the configuration that ``update_type`` names."""
    runner = target(request).changeable("update experiment profile")
    name = _UPDATES.get(request.query_params.get("update_type", ""))
    if name is None:
        raise HTTPException(400, f"update_type must be one of {', '.join(_UPDATES)}.")
    sent = await body_of(request)
    params = sent.get("params") if isinstance(sent, Mapping) else None
    if not isinstance(params, Mapping):
        raise HTTPException(400, "The body has no object 'params'.")
    await runner.change_config({name: sober(params.get(name))})
    return answer()


async def stop(request: Request) -> Response:
    """Stop the experiment. The answer comes when the stop is stored; the trials end soon after."""
    about = target(request)
    runner = about.runner
    if runner is not None and runner.state.status in LIVE:
        await runner.request(requests.ExperimentStop(detach=False))
    else:
        await about.parts.manager.stop(about.id, detach=False)
    return answer()


async def import_data(request: Request) -> Response:
    """Pass results from outside the experiment to the tuner."""
    runner = target(request).changeable("import data")
    records = await body_of(request)
    if not isinstance(records, list) or not all(
        isinstance(record, dict) and "parameter" in record and "value" in record for record in records
    ):
        raise HTTPException(400, "The body must be a list of objects with 'parameter' and 'value'.")
    await runner.import_data([sober(record) for record in records])
    return answer()


async def imported_data(request: Request) -> Response:
    """Return all results that were imported into the experiment, as one JSON text per import."""
    reader = target(request).reader
    return await built(lambda: [stringify(parse(text)) for text in reader.imports()])


async def statistics(request: Request) -> Response:
    """Return the number of trials of each status.

    A status comes before another status if its first trial is older.
    """
    about = target(request)
    runner = about.runner
    cancelled = about.condemned()
    counts = (
        {str(status): count for status, count in runner.state.counts.items()} if runner is not None else None
    )
    return await built(lambda: _statistics(about.reader, counts, cancelled))


async def export(request: Request) -> Response:
    """Return parameters and final results of the trials that have succeeded."""
    return await listing(
        [
            f'{{"parameter":{stringify(parse(held.parameters, strict=False))},'
            f'"value":{quote(final.line.text)},"trialJobId":{quote(row.trial_id)}}}'
            for row, held, final in page
        ]
        for page in target(request).reader.results(page=_PAGE)
    )


async def metadata(request: Request) -> Response:
    """Return the entry of this experiment in NNI's list of all experiments."""
    about = target(request)
    for entry in await _registry(about.parts):
        if entry.get("id") == about.id:
            return answer(stringify(entry))
    raise UnknownExperiment(about.id)


async def experiments(request: Request) -> Response:
    """Return NNI's list of all experiments, including those of other servers."""
    return answer(stringify(await _registry(request.app.state.parts)))


async def _registry(parts: ApiParts) -> list[dict[str, Any]]:
    manager = parts.manager
    ours = {"port": parts.port, "prefixUrl": parts.url_prefix or None}
    served = {
        experiment_id: {**ours, "pid": manager.pid(experiment_id), "status": status}
        for experiment_id, status in manager.served().items()
    }
    return await asyncio.to_thread(_entries, manager.home, served)


def _entries(home: Home, served: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of NNI's list of all experiments, which is stored in a file, the index.

    ``served``: current values for the experiments of this server. An experiment that no server runs is shown
    as STOPPED and without its port, as in NNI. The file itself is not changed, because the next server needs
    it to adopt the experiments of a killed server.
    """
    entries = Index(home).raw()
    running: dict[int, bool] = {}
    for entry in entries:
        ours = served.get(entry.get("id", ""))
        if ours is not None:
            entry.update(ours)
        elif entry.get("status") != "STOPPED" and not _is_alive(home, entry, running):
            entry["status"] = "STOPPED"
            entry.pop("port", None)
    return entries


def _is_alive(home: Home, entry: Mapping[str, Any], running: dict[int, bool]) -> bool:
    """Return True if the process of an experiment's entry runs, or if a server runs on its port.

    Such a server may have the experiment open.
    """
    pid, port = entry.get("pid"), entry.get("port")
    if isinstance(pid, int) and pid > 0 and os.path.exists(f"/proc/{pid}"):
        return True
    if not isinstance(port, int):
        return False
    if port not in running:
        running[port] = home.server_running(port) is not None
    return running[port]


def _statistics(
    reader: ExperimentReader, counts: dict[str, int] | None, cancelled: Mapping[str, TrialStatus]
) -> list[dict[str, Any]]:
    numbers: dict[str, int] = {}
    for status, number in (counts if counts is not None else reader.experiment().counts).items():
        shown = "WAITING" if status == TrialStatus.PAUSED else str(status)
        numbers[shown] = numbers.get(shown, 0) + number
    for status in cancelled.values():
        shown = "WAITING" if status is TrialStatus.PAUSED else str(status)
        numbers[shown] -= 1
        numbers["USER_CANCELED"] = numbers.get("USER_CANCELED", 0) + 1
    first = reader.first_sequences(list(numbers))
    return [
        {"trialJobStatus": status, "trialJobNumber": number}
        for status, number in sorted(numbers.items(), key=lambda item: first.get(item[0], 0))
        if number > 0
    ]


ROUTES = (
    Route("/version", version),
    Route("/check-status", check_status),
    Route("/experiment", show, methods=["GET"]),
    Route("/experiment", create, methods=["POST"]),
    Route("/experiment", update, methods=["PUT"]),
    Route("/experiment", stop, methods=["DELETE"]),
    Route("/experiment/import-data", import_data, methods=["POST"]),
    Route("/experiment/imported-data", imported_data),
    Route("/experiment-metadata", metadata),
    Route("/job-statistics", statistics),
    Route("/export-data", export),
    Route("/experiments-info", experiments),
)
