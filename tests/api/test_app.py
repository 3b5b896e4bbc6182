"""The application around the routes: its description, its pages, its limits."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from nnimgr.api.app import api
from nnimgr.api.asgi import Message, Receive, Scope, Send
from nnimgr.api.dependencies import parts_for
from nnimgr.api.limits import BodyLimit
from nnimgr.api.pages import Page
from tests.api.lab import BASE, EXPERIMENT, Lab


async def test_the_description_is_complete(lab: Lab) -> None:
    described = (await lab.client.get("/api/v1/openapi.json")).json()
    assert described["info"]["title"] == "nnimgr"
    operations = {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert ("GET", "/api/v1/experiments/{id}/events") in operations
    assert ("GET", "/api/v1/experiments/{id}/trials/{trialId}/logs/{name}") in operations
    for name, operation in operations.items():
        assert operation["description"], name
        good = [response for code, response in operation["responses"].items() if code.startswith("2")]
        assert good and all(response["content"] for response in good), name
        for content in good[0]["content"].values():
            assert content == {} or content["schema"] != {}, name
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] == "header" or re.fullmatch("[a-zA-Z]+", parameter["name"]), name
    assert described["components"]["schemas"]["Trial"]["properties"]["finalValue"]


async def test_the_docs_load_nothing(lab: Lab) -> None:
    for path in ("/docs", "/login"):
        answer = await lab.client.get(path)
        assert answer.status_code == 200
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", answer.text)
        assert not re.search(r"\bon\w+=|javascript:|innerHTML", answer.text)
    for path in ("/redoc", "/openapi.json"):
        assert (await lab.client.get(path)).status_code == 404


@pytest.mark.parametrize("name", ["docs", "login"])
def test_a_page_runs_its_own_scripts_only(name: str) -> None:
    page = Page(name)
    (script,) = re.findall(rb"<script>(.*?)</script>", page.body, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert "unsafe" not in page.policy and "*" not in page.policy


async def test_server_profile(lab: Lab) -> None:
    shown = (await lab.client.get("/api/v1/server")).json()
    assert shown["version"] == "0.0.test" and shown["port"] == 8080 and shown["pid"] > 0
    assert shown["startedAt"] == "2026-01-01T00:00:00Z"


async def test_probes_need_no_token_and_no_name(lab: Lab) -> None:
    headers = {"Authorization": "", "Host": "10.1.2.3:8080"}
    for path in ("/healthz", "/readyz"):
        for method in ("GET", "HEAD"):
            assert (await lab.client.request(method, path, headers=headers)).status_code == 200
        assert (await lab.client.post(path, headers=headers)).status_code == 405
    lab.parts.shutdown.closing.set()
    assert (await lab.client.get("/healthz", headers=headers)).text == "ok\n"
    leaving = await lab.client.get("/readyz", headers=headers)
    assert leaving.status_code == 503
    assert leaving.json() == {"error": {"message": "The server is leaving."}}


async def test_a_wrong_method(lab: Lab) -> None:
    answer = await lab.client.put(EXPERIMENT)
    assert answer.status_code == 405
    assert answer.json() == {"error": {"message": f"{EXPERIMENT} does not accept PUT."}}
    assert answer.headers["allow"]


async def test_large_bodies_are_refused(lab: Lab) -> None:
    url = f"{BASE}/api/v1/experiments"
    kind = {"Content-Type": "application/json"}
    announced = await lab.client.post(url, content=b" " * ((8 << 20) + 1), headers=kind)
    assert announced.status_code == 413

    async def chunks() -> Any:
        for _ in range(9):
            yield b" " * (1 << 20)

    streamed = await lab.client.post(url, content=chunks(), headers=kind)
    assert streamed.status_code == 413
    odd = await lab.client.post(url, content=b"{}", headers=kind | {"Content-Length": "-5"})
    assert odd.status_code == 413


async def test_a_body_that_does_not_come() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async def silence() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    with pytest.raises(HTTPException) as refused:
        await BodyLimit(app, seconds=0.01)({"type": "http", "headers": []}, silence, send)
    assert refused.value.status_code == 408


async def test_a_leaving_server_turns_requests_away(lab: Lab) -> None:
    lab.parts.shutdown.closing.set()
    for path in ("/api/v1/server", "/login"):
        answer = await lab.client.get(path)
        assert answer.status_code == 503
        assert answer.headers["connection"] == "close"


async def test_changes_under_way_are_known(lab: Lab) -> None:
    with lab.parts.shutdown.change():
        waiting = asyncio.create_task(lab.parts.shutdown.quiet())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_other_kinds_of_connection_are_refused(lab: Lab) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await lab.app({"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/experiments/{id}",
        "/api/v1/experiments/{id}/trials/{id}",
        "/api/v1/experiments/{id}/export",
        "/e/{id}/api/v1/nni/check-status",
        "/e/{id}/logs/nnimanager.log",
    ],
)
async def test_the_server_looks_for_the_experiment_of_a_request(lab: Lab, path: str) -> None:
    await lab.client.get(path.replace("{id}", "exp"))
    await lab.client.get(path.replace("{id}", "new"))
    assert lab.manager.looked_for == ["exp", "new"]


async def test_every_route_about_an_experiment_looks_for_it(lab: Lab) -> None:
    routes = [route for route in api(lab.parts).routes if isinstance(route, APIRoute)]
    about = [route for route in routes if "/experiments/{id}" in route.path]
    assert len(about) > 40
    for route in about:
        asked: set[Any] = set()
        todo = [route.dependant]
        while todo:
            todo += (each := todo.pop()).dependencies
            asked.add(each.call)
        assert parts_for in asked, route.path
