"""Files of trials: their list, their content, and the end of a stream that cannot continue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from nnimgr.api.streams import until, whole
from tests.api.lab import EXPERIMENT, Lab
from tests.api.streaming import opened
from training_services.base import ServiceUnavailable


@pytest.fixture
async def running(lab: Lab) -> str:
    """Start a trial that has written files, and return its address."""
    lab.life.start(0)
    job_id = lab.life.job(0)
    lab.service.logs[job_id, "model/bést \u202e.bin"] = b"0123456789"
    lab.service.logs[job_id, "page.html"] = b"<script>"
    await lab.runner.commit()
    return f"{EXPERIMENT}/trials/{lab.life.trial(0)}/files"


async def test_files_are_listed_and_fetched(lab: Lab, running: str) -> None:
    listing = (await lab.client.get(running)).json()
    assert listing["attempt"] == 1 and listing["complete"]
    assert listing["files"][1] == {"path": "page.html", "size": 8, "modifiedAt": "2020-01-01T00:00:00Z"}
    answer = await lab.client.get(f"{running}/model/bést%20\u202e.bin")
    assert answer.content == b"0123456789"
    page = await lab.client.get(f"{running}/page.html?attempt=1")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert lab.service.open_readings == 0


@pytest.mark.parametrize("path", ["nothing", "%2e%2e/x", "a//b", "%2Fetc%2Fpasswd", "page.html%00"])
async def test_what_is_no_file_is_not_found(lab: Lab, running: str, path: str) -> None:
    answer = await lab.client.get(f"{running}/{path}")
    assert answer.status_code == 404
    assert "error" in answer.json()


async def test_what_the_machine_cannot_give_is_told(lab: Lab, running: str) -> None:
    assert (await lab.client.get(f"{running}?attempt=2")).status_code == 404
    lab.service.refusal = ServiceUnavailable("keeper x was asked, but has not answered for 15 s")
    for target in (running, f"{running}/page.html"):
        answer = await lab.client.get(target)
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "keeper x was asked, but has not answered for 15 s"


async def test_a_stream_that_cannot_go_on_has_no_end(lab: Lab, running: str) -> None:
    lab.service.cut = ServiceUnavailable("keeper x was cut off")
    async with opened(lab.app, f"{running}/page.html") as stream:
        assert (await stream.next_message())["status"] == 200
        body = await stream.next_message()
        assert body["more_body"] and body["body"] == b"<script"


async def test_a_file_that_the_leaving_server_cannot_send_is_no_whole_file() -> None:
    closing, stuck = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        closing.set()
        await stuck.wait()
        yield b"two"

    sent = whole(closing, chunks())  # type: ignore[arg-type]
    assert await anext(sent) == b"one"
    with pytest.raises(ServiceUnavailable, match="the server is shutting down"):
        await anext(sent)


async def test_a_stream_may_have_time_to_end_after_the_server_has_begun_to_leave() -> None:
    closing, done = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        closing.set()
        await done.wait()
        yield b"the end"

    patient = until(closing, chunks(), last_s=3600.0)  # type: ignore[arg-type]
    assert await anext(patient) == b"one"
    rest = asyncio.ensure_future(anext(patient))
    await asyncio.sleep(0)
    done.set()
    assert await rest == b"the end"
    with pytest.raises(StopAsyncIteration):
        await anext(patient)
