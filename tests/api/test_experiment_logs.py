"""Logs of an experiment, besides the logs of its trials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nnimgr.rules import facts as f
from tests.api.lab import EXPERIMENT, PORT, Lab
from tests.api.streaming import opened

LOGS = f"{EXPERIMENT}/logs"


@pytest.fixture
def written(lab: Lab) -> Path:
    """Create the dispatcher's and the server's log, and return the former."""
    dispatcher = lab.manager.folder / "log" / "dispatcher.log"
    dispatcher.parent.mkdir()
    dispatcher.write_text("one\ntwo\nthree\n")
    server = lab.manager.home.server_log_path(PORT)
    server.parent.mkdir(parents=True)
    server.write_text("started\n")
    return dispatcher


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def replace(path: Path, text: str) -> None:
    """Replace a log, as a rotation does."""
    path.rename(path.with_suffix(".log.1"))
    path.write_text(text)


async def listed(lab: Lab) -> dict[str, Any]:
    return {log["name"]: log for log in (await lab.client.get(LOGS)).json()["logs"]}


async def test_which_logs_there_are(lab: Lab, written: Path) -> None:
    logs = await listed(lab)
    assert list(logs) == ["server", "dispatcher"]  # the keeper has no log
    assert logs["dispatcher"]["size"] == 14 and logs["dispatcher"]["follows"]
    assert logs["server"]["about"] == f"Log of the server on port {PORT}, about all its experiments."
    keeper = lab.manager.folder / "keeper" / "keeper.log"
    keeper.parent.mkdir()
    keeper.write_text("hm\n")
    assert list(await listed(lab)) == ["server", "dispatcher", "keeper-local"]
    assert (await lab.client.get(f"{LOGS}/keeper-local")).text == "hm\n"


async def test_a_log_and_its_tail(lab: Lab, written: Path) -> None:
    answer = await lab.client.get(f"{LOGS}/dispatcher")
    assert answer.text == "one\ntwo\nthree\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await lab.client.get(f"{LOGS}/dispatcher?tail=2")).text == "two\nthree\n"
    assert (await lab.client.get(f"{LOGS}/server")).text == "started\n"


async def test_a_log_of_another_server(lab: Lab, written: Path) -> None:
    lab.manager.home.server_log_path(9090).write_text("elsewhere\n")
    lab.manager.runner, lab.manager.port = None, 9090
    assert (await lab.client.get(f"{LOGS}/server")).text == "elsewhere\n"


async def test_following_goes_on_in_a_new_file(
    lab: Lab, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.api.logs.LOOK_S", 0.001)
    async with opened(lab.app, f"{LOGS}/dispatcher?follow=true&tail=1") as stream:
        assert await stream.text("three\n") == "three\n"
        append(written, "four\n")
        assert (await stream.text("four\n")).endswith("three\nfour\n")
        replace(written, "five\n")
        assert (await stream.text("five\n")).endswith("four\nfive\n")
        lab.parts.shutdown.closing.set()
        assert (await stream.next_message()).get("more_body", False) is False


async def test_what_is_not_there(lab: Lab, written: Path) -> None:
    os.unlink(written)
    missing = await lab.client.get(f"{LOGS}/dispatcher?follow=true")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"] == "Nothing has been written to the log dispatcher."
    for name in ("passwd", "environ.json", "keeper-x", "..%2fenviron.json"):
        assert (await lab.client.get(f"{LOGS}/{name}")).status_code == 404
    os.symlink("/etc/passwd", written)
    assert (await lab.client.get(f"{LOGS}/dispatcher")).status_code == 404


async def test_the_log_of_a_keeper_elsewhere(lab: Lab, written: Path) -> None:
    lab.life.take(f.KeeperEnrolled(keeper_id="me_gpu1_22", token_sha256="1" * 64))
    await lab.runner.commit()
    log = (await listed(lab))["keeper-me_gpu1_22"]
    assert (log["size"], log["follows"]) == (None, False)
    assert log["about"] == "Problems of the keeper on gpu1, read from that machine."
    followed = await lab.client.get(f"{LOGS}/keeper-me_gpu1_22?follow=true")
    assert followed.status_code == 409
    assert "cannot be followed" in followed.json()["error"]["message"]
