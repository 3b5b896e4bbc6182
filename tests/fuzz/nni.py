"""NNI's own routes for the fuzzer, read from the server's tables: the OpenAPI document does not have them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route as ServerRoute

from nnimgr.api.nni import experiment_routes, other_routes, tensorboard_routes, trial_routes
from tests.fuzz.requests import Route, Sent

__all__ = ["examples", "nni_routes", "refuses"]

_TABLES: tuple[tuple[str, Sequence[ServerRoute]], ...] = (
    (
        "/api/v1/nni",
        (
            *experiment_routes.ROUTES,
            *trial_routes.ROUTES,
            *tensorboard_routes.ROUTES,
            *other_routes.ROUTES,
        ),
    ),
    ("/logs", other_routes.LOG_ROUTES),
)
_EXPERIMENTS = ("", "/e/{experiment}")
_QUERIES = {
    ("PUT", "/experiment"): "update_type",
    ("GET", "/trial-jobs"): "status",
    ("GET", "/metric-data"): "type",
    ("GET", "/metric-data/{trial}"): "type",
}
# Titles of bodies, by which ``Bodies`` finds examples.
_BODIES = {
    ("POST", "/experiment"): "NniExperiment",
    ("PUT", "/experiment"): "NniUpdate",
    ("POST", "/experiment/import-data"): "NniRecords",
    ("PUT", "/experiment/cluster-metadata"): "NniMetadata",
    ("POST", "/trial-jobs"): "NniParameters",
    ("POST", "/tensorboard"): "NniTensorBoard",
}
# Refusals that NNI's server answers with status 500, too. Any other answer with this status is a failure.
_REFUSALS = re.compile(
    r"ENOENT: no such file or directory, open '"
    r"|Tensorboard task not found$"
    r"|Error: can not [a-z ]+ in readonly mode!$"
    r"|reach maxTrialNum$"
    r"|([Tt]he )?experiment( \S+)? (is|has)\b"
    r"|trial \w+ (is|has)\b"
)


def nni_routes() -> list[Route]:
    """Return all of NNI's routes: those about the latest experiment, and those that name one."""
    return [
        _route(method, f"{experiment}{place}{route.path}", (method, route.path))
        for place, table in _TABLES
        for experiment in _EXPERIMENTS
        for route in table
        for method in sorted(route.methods or ())
        if method != "HEAD"  # the fuzzer also sends other methods than the route's own
    ]


def _route(method: str, path: str, key: tuple[str, str]) -> Route:
    names = re.findall(r"{(\w+)}", path)
    parameters: list[Mapping[str, Any]] = [{"in": "path", "name": name, "required": True} for name in names]
    if key in _QUERIES:
        parameters.append({"in": "query", "name": _QUERIES[key], "required": method == "PUT"})
    return Route(method, path, parameters, {"title": _BODIES[key]} if key in _BODIES else None)


def examples(config: Mapping[str, Any], space: Mapping[str, Any], trials: Sequence[str]) -> dict[str, Any]:
    """Return bodies that are right, by their titles. ``config``: of an experiment that can be created."""
    limits = {"trialConcurrency": 1, "maxTrialNumber": 300, "maxExperimentDuration": "1h"}
    return {
        "NniExperiment": [{**config, "searchSpace": space}],
        "NniUpdate": [{"params": {**limits, "searchSpace": space}}],
        "NniRecords": [[{"parameter": {"x": 0.1, "y": "b"}, "value": 0.5}] * 3],
        "NniMetadata": [{"trial_config": {"command": "true", "codeDir": "."}}],
        "NniParameters": [{"x": 0.5, "y": "a"}],
        "NniTensorBoard": [{"trials": ",".join(trials[:3])}],
    }


def refuses(sent: Sent, body: bytes) -> bool:
    """Return whether an answer with status 500 is one of NNI's refusals, and not a failure of the server.

    The answer of a HEAD request does not say. A failure also leaves a traceback in the server's log.
    """
    if not any(place in sent.route.path for place, _ in _TABLES):
        return False
    if sent.method == "HEAD":
        return True
    try:
        return _REFUSALS.match(json.loads(body)["error"]) is not None
    except (ValueError, KeyError, TypeError):
        return False
