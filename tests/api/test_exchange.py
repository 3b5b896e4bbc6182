"""Requests of programs that run trials themselves: those with a mistake are told what it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.lab import EXPERIMENT, Lab

CORRECT = b'{"wanted": {"key": "a"}}'


async def send(lab: Lab, body: bytes, *, query: str = "", kind: str = "application/json") -> tuple[int, Any]:
    answer = await lab.client.post(
        f"{EXPERIMENT}/exchange{query}", content=body, headers={"Content-Type": kind}
    )
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
async def test_an_experiment_that_runs_its_trials_gives_none_away(lab: Lab, kind: str) -> None:
    status, error = await send(lab, CORRECT, kind=kind)
    assert status == 409 and "experiment exp runs its trials itself" in error["message"]


async def test_an_experiment_that_does_not_exist(lab: Lab) -> None:
    answer = await lab.client.post("/api/v1/experiments/other/exchange", json={"wanted": {"key": "a"}})
    assert answer.status_code == 404 and "other" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b'{"wanted": {"key": "a", "count": 0}}', "body.wanted.count", "must be at least 1"),
        (b'{"wanted": {"keys": "a"}}', "body.wanted.keys", "unknown field"),
        (b'{"tells": [{"trialId": "a"}]}', "body.tells.0", "give exactly one of value, error and canceled"),
        (
            b'{"tells": [{"trialId": "a", "value": NaN}]}',
            "body.tells.0.value",
            "must be a finite number, or an object with numbers",
        ),
        (
            b'{"tells": [{"trialId": "a", "value": 1' + b"0" * 400 + b"}]}",
            "body.tells.0.value",
            "must be a finite number, or an object with numbers",
        ),
        (
            b'{"tells": [{"trialId": "a", "value": "good"}]}',
            "body.tells.0.value",
            "must be a finite number, or an object with numbers",
        ),
        (
            b'{"tells": [{"trialId": "a", "value": {"default": NaN}}]}',
            "body.tells.0.value",
            "a number must be finite",
        ),
        (b'{"wanted"', "body", "is not valid JSON: Expecting ':' delimiter (character 9)"),
        (
            b'{"wanted": {"key": "a b"}}',
            "body.wanted.key",
            "has characters that are not allowed here; the allowed texts are ^[!-~]+$",
        ),
    ],
)
async def test_mistakes_are_named_with_their_field(lab: Lab, body: bytes, field: str, message: str) -> None:
    status, error = await send(lab, body)
    assert status == 422
    found = [(each["field"], each["message"]) for each in error["problems"]]
    assert (field, message) in found, found


async def test_an_unknown_parameter_and_another_content_type_are_refused(lab: Lab) -> None:
    status, error = await send(lab, CORRECT, query="?wait=1")
    assert status == 422 and "this route has no such parameter" in str(error)
    status, _ = await send(lab, CORRECT, kind="text/plain")
    assert status == 422
