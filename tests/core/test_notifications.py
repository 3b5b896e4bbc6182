"""Notifications: what is sent, to whom, and what happens when a receiver fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nnimgr.config.notification import NotificationConfig
from nnimgr.core.managing import notifications
from nnimgr.core.managing.notifications import Notifier, Receiver
from nnimgr.rules import facts as f
from tests.rules.driver import Life


class Hook:
    """Web server that keeps what is posted to it. ``statuses``: its next answers; 200 afterwards."""

    def __init__(self) -> None:
        self.posted: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.statuses: list[int] = []
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1])
        body = json.loads(await reader.readexactly(length))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.posted.put_nowait(body)
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        writer.close()

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            return await self.posted.get()


@asynccontextmanager
async def hook() -> AsyncIterator[Hook]:
    found = Hook()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/secret-path"
    async with server:
        yield found


def notifier(folder: Path, *configs: dict[str, Any]) -> Notifier:
    read = [NotificationConfig.model_validate(config) for config in configs]
    return Notifier(
        folder,
        lambda: read,
        lambda config: Receiver(config=config, environ={"PATH": "/usr/bin:/bin"}, cwd=folder),
    )


async def test_the_end_and_each_better_result_are_sent(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1, max_trial_number=2)
    async with hook() as there:
        told = notifier(tmp_path, {"events": ["done", "best"], "webhook": there.address})
        for sequence, value in enumerate([0.5, 0.25]):
            life.start(sequence)
            life.final(sequence, value, sequence)
            life.end(sequence)
            told.turned(life.state)
        best, done = await there.next(), await there.next()
        await told.close()
    assert (best["event"], best["experimentId"], best["best"]["value"]) == ("best", "exp", 0.5)
    assert best["text"] == "Experiment exp: it has a better result; best 0.5, trial 0."
    assert (done["event"], done["status"]) == ("done", "DONE")
    assert done["text"] == "Experiment exp: finished: 2 of 2 trials; best 0.5, trial 0."
    assert there.posted.empty()


async def test_what_was_sent_is_not_sent_again_after_a_restart(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1, max_trial_number=2)
    async with hook() as there:
        config = {"events": ["done", "best"], "webhook": there.address}
        first = notifier(tmp_path, config)
        life.start(0)
        life.final(0, 0.5, 0)
        life.end(0)
        first.turned(life.state)
        assert (await there.next())["event"] == "best"
        await first.close()
        second = notifier(tmp_path, config)
        second.turned(life.state)
        life.end(1)
        second.turned(life.state)
        assert (await there.next())["event"] == "done"
        await second.close()
        third = notifier(tmp_path, config)
        third.turned(life.state)
        await third.close()
    assert there.posted.empty()


async def test_a_command_gets_the_message(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    told = notifier(
        tmp_path, {"command": 'cat > "$NNIMGR_EVENT-$NNIMGR_EXPERIMENT"; echo "$NNIMGR_TEXT" > text'}
    )
    life.end(0)
    told.turned(life.state)
    await told.close()
    assert json.loads((tmp_path / "done-exp").read_text())["status"] == "DONE"
    assert (tmp_path / "text").read_text() == "Experiment exp: finished: 1 of 1 trials.\n"


async def test_a_receiver_that_fails_is_tried_again_and_then_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifications, "RETRIES_S", (0.0,))
    life = Life(trial_concurrency=1, max_trial_number=2)
    async with hook() as there:
        there.statuses = [500]
        told = notifier(tmp_path, {"events": ["best"], "webhook": there.address})
        life.start(0)
        life.final(0, 0.5, 0)
        life.end(0)
        told.turned(life.state)
        assert (await there.next())["event"] == "best"
        await told.close()
        assert told.notices == {}
        there.statuses = [503, 503]
        again = notifier(tmp_path, {"events": ["done"], "webhook": there.address})
        life.end(1)
        again.turned(life.state)
        await again.close()
    (notice,) = again.notices.values()
    assert notice.sentence == "the webhook of notify has failed: it answered 503 X"
    assert "secret-path" not in caplog.text


async def test_a_receiver_that_fails_keeps_no_other_waiting(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    async with hook() as there:
        there.statuses = [500]
        told = notifier(tmp_path, {"webhook": there.address}, {"command": "echo > done"})
        life.end(0)
        told.turned(life.state)
        assert (await there.next())["event"] == "done"  # after a second
        await told.close()
    assert (tmp_path / "done").exists()


async def test_an_experiment_in_which_nothing_happens_is_told_once(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1)
    async with hook() as there:
        told = notifier(tmp_path, {"events": ["idle"], "webhook": there.address, "idleAfter": "1s"})
        life.start(0)
        told.turned(life.state)
        idle = await there.next()
        life.metric(0, 0, 0.5)
        told.turned(life.state)
        again = await there.next()
        await told.close()
    assert idle["text"] == again["text"]
    assert idle["text"].startswith("Experiment exp: it is RUNNING, but nothing has happened for 0.0167 min")


async def test_first_trials_that_all_fail_are_an_error(tmp_path: Path) -> None:
    life = Life(trial_concurrency=1, fail_fast=2)
    async with hook() as there:
        told = notifier(tmp_path, {"webhook": there.address})
        life.end(0, 3)
        life.end(1, 3)
        told.turned(life.state)
        assert life.state.status is f.ExperimentStatus.STOPPED
        sent = await there.next()
        await told.close()
    assert sent["event"] == "error"
    assert sent["text"].startswith("Experiment exp: the first 2 trials all failed alike: exited with code 3;")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "give either 'webhook' or 'command'"),
        ({"webhook": "https://a", "command": "b"}, "give either 'webhook' or 'command'"),
        ({"webhook": "ftp://a"}, "'webhook' must be an address that begins with https:// or http://"),
        ({"command": "a", "events": []}, "at least 1 item"),
        ({"command": "a", "events": ["lunch"]}, "'done', 'error', 'best' or 'idle'"),
        ({"command": "a", "idleAfter": "soon"}, "'soon' is not a number"),
    ],
)
def test_invalid_receivers(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        NotificationConfig.model_validate(fields)


def test_idle_means_half_an_hour_by_default() -> None:
    config = NotificationConfig.model_validate({"command": "a"})
    assert timedelta(seconds=config.idle_s) == timedelta(minutes=30)
