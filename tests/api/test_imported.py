"""Experiments whose trials were imported, on a server that has just heard of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from nnimgr.api.app import create_app
from nnimgr.api.auth import AllowedHosts, Credentials
from nnimgr.api.dependencies import ApiParts
from nnimgr.api.sessions import Sessions
from nnimgr.importing.experiment import create_imported, shown_config
from nnimgr.importing.trials import Foreigners, ForeignTrial
from nnimgr.rules.facts import TrialStatus
from tests.api.lab import BASE, BEARER, PORT, TOKEN
from tests.core.test_manager import Server

FOUND = Foreigners(
    title="a test",
    trials=[
        ForeignTrial(
            name="a", parameters={"x": x / 10}, status=TrialStatus.SUCCEEDED, reason="done", final=x / 10
        )
        for x in range(2)
    ],
)
NOT_HERE = "was imported, and did not run here, so nnimgr has no"


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.manager(PORT) as manager:
        parts = ApiParts(
            manager=manager,
            credentials=Credentials(lambda: TOKEN, sessions=Sessions(), port=PORT),
            url=BASE,
            port=PORT,
            version="0.0.test",
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        app = create_app(parts, hosts=AllowedHosts("127.0.0.1"))
        transport = httpx.ASGITransport(app=cast(Any, app))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=BEARER) as found:
            yield found


@pytest.fixture
def path(server: Server, client: httpx.AsyncClient) -> str:
    """Import an experiment without a configuration while the server runs. Return its path in the API."""
    entry = create_imported(server.home, shown_config(server.home, FOUND, {"": "maximize"}), FOUND)
    return f"/api/v1/experiments/{entry.id}"


def message(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return cast(str, answer.json()["error"]["message"])


async def test_a_running_server_finds_an_imported_experiment(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).json()["status"] == "STOPPED"
    assert len((await client.get(f"{path}/trials")).json()["trials"]) == 2


async def test_imported_trials_have_no_files(client: httpx.AsyncClient, path: str) -> None:
    trials = (await client.get(f"{path}/trials")).json()["trials"]
    assert [trial["logPath"] for trial in trials] == ["", ""]
    about = f"{path}/trials/{trials[0]['id']}"
    sentence = f"Trial 0 ({trials[0]['id']}) {NOT_HERE} output and no files of it."
    for place in ("logs/stdout", "files", "files/x"):
        assert message(await client.get(f"{about}/{place}"), 404) == sentence
    assert (await client.get(f"{path}/keepers")).json() == {"keepers": []}
    logs = (await client.get(f"{path}/logs")).json()["logs"]
    assert not any(log["name"].startswith("keeper") for log in logs)
    refused = await client.post(f"{path}/tensorboards", json={"trialIds": None})
    assert NOT_HERE in message(refused, 409)
    feed = (await client.get(f"{path}/feed")).json()["entries"]
    told = [entry["sentence"] for entry in feed]
    assert f"Trial #0 ({trials[0]['id']}) was imported." in told
    assert not any("machine" in each for each in told)


async def test_an_experiment_without_a_command_is_not_resumed(client: httpx.AsyncClient, path: str) -> None:
    refused = message(await client.post(f"{path}/resume", json={}), 409)
    assert refused.endswith(
        "was imported without a trial command, so it cannot run trials: import it again with a configuration"
    )
    assert (await client.post(f"{path}/view")).status_code == 200
    assert (await client.get(path)).json()["status"] == "VIEWED"
