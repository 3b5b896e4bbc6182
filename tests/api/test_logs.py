"""Logs of trials: tails, following, and which files can be read."""

from __future__ import annotations

import pytest

from tests.api.lab import EXPERIMENT, Lab
from tests.api.streaming import opened


@pytest.fixture
def running(lab: Lab) -> str:
    """Start a trial that has written to its standard output, and return the address of its logs."""
    lab.life.start(0)
    lab.service.logs[(lab.life.job(0), "stdout")] = b"one\ntwo\nthr\xff\xfeee\n<script>\n"
    return f"{EXPERIMENT}/trials/{lab.life.trial(0)}/logs"


async def test_a_log_is_text_and_nothing_else(lab: Lab, running: str) -> None:
    await lab.runner.commit()
    answer = await lab.client.get(f"{running}/stdout")
    assert answer.content == b"one\ntwo\nthr\xff\xfeee\n<script>\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    tail = await lab.client.get(f"{running}/stdout?tail=2")
    assert tail.content == b"thr\xff\xfeee\n<script>\n"
    assert lab.service.open_readings == 0


async def test_following_ends_with_the_attempt(lab: Lab, running: str) -> None:
    await lab.runner.commit()
    async with opened(lab.app, f"{running}/stdout?follow=true&tail=1") as stream:
        assert await stream.text("<script>\n") == "<script>\n"
        lab.service.ended.set()
        assert await stream.text("the end\n") == "<script>\nthe end\n"
    assert lab.service.open_readings == 0


async def test_following_an_empty_log_answers_at_once(lab: Lab, running: str) -> None:
    lab.service.logs[(lab.life.job(0), "stderr")] = b""
    await lab.runner.commit()
    async with opened(lab.app, f"{running}/stderr?follow=true") as stream:
        head = await stream.next_message()
        assert head["status"] == 200
    assert lab.service.open_readings == 0  # the client disconnected while the log was silent


async def test_a_leaving_server_ends_following(lab: Lab, running: str) -> None:
    await lab.runner.commit()
    async with opened(lab.app, f"{running}/stdout?follow=true") as stream:
        assert (await stream.text("<script>\n")).startswith("one\n")
        lab.parts.shutdown.closing.set()
        last = await stream.next_message()
        assert last.get("more_body", False) is False
    assert lab.service.open_readings == 0


async def test_what_is_not_there(lab: Lab, running: str) -> None:
    await lab.runner.commit()
    trial = lab.life.trial(0)
    for path, status, sentence in (
        (f"{running}/trial.log", 404, f"Trial 0 ({trial}) has not written trial.log."),
        (f"{running}/trial.log?follow=true", 404, f"Trial 0 ({trial}) has not written trial.log."),
        (f"{running}/trial.log?tail=3", 404, f"Trial 0 ({trial}) has not written trial.log."),
        (f"{running}/stdout?attempt=2", 404, f"Trial 0 ({trial}) has no attempt 2."),
        (f"{EXPERIMENT}/trials/zzzzz/logs/stdout", 404, "There is no trial zzzzz."),
    ):
        answer = await lab.client.get(path)
        assert (answer.status_code, answer.json()["error"]["message"]) == (status, sentence)


@pytest.mark.parametrize(
    "name",
    [
        "passwd",
        "parameter.cfg",
        "..%2f..%2fetc%2fpasswd",
        "..%5c..",
        "stdout%00",
        "stdout;x",
        "%2e%2e",
        "STDOUT",
    ],
)
async def test_only_three_names_are_files(lab: Lab, running: str, name: str) -> None:
    await lab.runner.commit()
    assert (await lab.client.get(f"{running}/{name}")).status_code in (404, 422)


async def test_a_finished_experiment_has_its_logs_in_its_folder(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.end(0, acked=0)
    await lab.runner.commit()
    lab.runner.session.service = None
    folder = lab.manager.folder / "trials" / lab.life.trial(0)
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(b"x" * 200_000 + b"\nlast\n")
    path = f"{EXPERIMENT}/trials/{lab.life.trial(0)}/logs/stdout"
    assert len((await lab.client.get(path)).content) == 200_006
    assert (await lab.client.get(f"{path}?tail=1")).content == b"last\n"
    assert (await lab.client.get(f"{path}?follow=true&tail=1")).content == b"last\n"
    (folder / "stdout").unlink()
    (folder / "stdout").symlink_to("/etc/passwd")
    assert (await lab.client.get(path)).status_code == 404
