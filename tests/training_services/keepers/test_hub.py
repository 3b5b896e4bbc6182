"""Tests of the desk and the door: when calls are answered, and who may call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training_services.keepers.link_rig import unplaced
from training_services.base import JobEnded, JobEvent, JobStarted, KeeperBound, KnownKeeper, MetricReported
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers import hub as keeper_hub
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import Answer, Call, KeeperDesk, KeeperHub, token_digest
from training_services.keepers.jobs import Backlog
from training_services.keepers.link import KeeperLink, Received
from trial_keeper import wire

TOKEN = "secret"
PATH = wire.PATH.format(experiment_id="x", keeper_id="k")
METRIC = b'{"trial_job_id": "aaaaa", "type": "PERIODICAL", "sequence": 0, "value": "1"}'
ENDED = {
    "x-aaaaa-1": {
        "from": 1,
        "events": [],
        "started": {"at": 1.0, "pid": 2},
        "final": {"reason": "exited", "code": 0, "signal": None, "n": 1, "at": 2.0, "message": None},
    }
}


class Office:
    """Desk with its hub and the service's part."""

    def __init__(self) -> None:
        known = KnownKeeper(keeper_id="k", token_sha256="", instance="i", boot_id="b", last_cmd=0)
        self.backlog = Backlog()
        self.link = KeeperLink(known, db_id="db", m_epoch=1, backlog=self.backlog)
        self.events: list[JobEvent] = []
        self.desk = KeeperDesk(
            link=self.link,
            backlog=self.backlog,
            token_sha256=token_digest(TOKEN),
            deliver=self._deliver,
            archive=Path,
            copies=CheckpointStore(Path("/nowhere")),
            open=True,
        )
        self.hub = KeeperHub()
        self.hub.add("x", self.desk)
        self.sync_no = 0

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        self.events += received.events

    def body(self, *, payloads: list[bytes] | None = None, **more: Any) -> bytes:
        self.sync_no += 1
        attempts = {}
        if payloads is not None:
            attempts["x-aaaaa-1"] = {"from": 0, "events": [len(each) for each in payloads]}
        header = {
            "instance": "i", "k_epoch": 1, "sync_no": self.sync_no, "boot_id": "b", "db_id_seen": "db",
            "m_epoch_seen": 1, "acked_cmd": 0, "seen_cmd": 0, "all": False, "wait": False, "status": None,
            "attempts": attempts, **more,
        }  # fmt: skip
        return wire.encode_request(header, payloads or [])

    def call(self, **more: Any) -> Answer | Call:
        return self.desk.receive(self.body(**more))

    def start(self) -> None:
        placed = self.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start={})
        self.link.jobs.command_committed(placed.job_id, placed.cmd_seq)
        self.desk.flush()

    def end(self) -> None:
        self.link.jobs.end_committed("x-aaaaa-1", lost=False)
        self.desk.settle(("ended", "x-aaaaa-1"))
        self.desk.flush()


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    assert isinstance(office.call(all=True), Answer)
    yield office
    office.hub.close()


def answer(call: Answer | Call) -> Mapping[str, Any]:
    assert isinstance(call, Call) and call.answer.done()
    return call.answer.result().body


# ---- when calls are answered ------------------------------------------------------------------------------


async def test_a_waiting_call_is_answered_by_a_command(office: Office) -> None:
    call = office.call(wait=True)
    assert isinstance(call, Call) and not call.answer.done()
    office.start()
    assert [command[1] for command in answer(call)["cmds"]] == ["start"]


async def test_only_the_newest_waiting_call_waits(office: Office) -> None:
    first, second = office.call(wait=True), office.call(wait=True)
    assert answer(first)["cmds"] == []
    late = office.body(wait=True, sync_no=2)
    assert isinstance(office.desk.receive(late), Answer)
    assert isinstance(second, Call) and not second.answer.done()


async def test_a_report_is_answered_at_once_and_one_of_an_end_after_the_commit(
    office: Office,
) -> None:
    office.start()
    report = office.call(payloads=[METRIC])
    assert isinstance(report, Answer) and report.body["acks"] == {"x-aaaaa-1": 0}
    assert [type(event) for event in office.events] == [MetricReported]
    started = {"x-aaaaa-1": {"from": 1, "events": [], "started": {"at": 1.0, "pid": 2}}}
    assert isinstance(office.call(attempts=started), Answer)
    call = office.call(attempts=ENDED)
    wait = office.call(wait=True)
    assert isinstance(call, Call) and not call.answer.done()
    office.link.jobs.frames_committed("x-aaaaa-1", 1)
    office.end()
    assert answer(call)["done"] == ["x-aaaaa-1"]
    assert isinstance(wait, Answer)  # as far as this call shows, the start has not arrived yet


async def test_a_report_leaves_with_the_commands_and_the_waiting_call_stays(office: Office) -> None:
    office.call(boot_id="b2", k_epoch=2, all=True)
    report = office.call(boot_id="b2", k_epoch=2)
    wait = office.call(boot_id="b2", k_epoch=2, wait=True)
    placed = office.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start={})
    office.link.jobs.command_committed(placed.job_id, placed.cmd_seq)
    assert isinstance(office.events[0], KeeperBound)
    office.link.caller.bound_committed("i", "b2")
    office.desk.settle(("bound", "i", "b2"))
    office.desk.flush()
    assert len(answer(report)["cmds"]) == 1
    assert isinstance(wait, Call) and not wait.answer.done()


async def test_reports_wait_while_too_much_is_uncommitted(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_hub, "MAX_BACKLOG", 1)
    office.start()
    call = office.call(payloads=[METRIC, METRIC])
    assert isinstance(call, Call) and not call.answer.done()
    office.link.jobs.frames_committed("x-aaaaa-1", 1)
    office.desk.flush()
    assert answer(call)["acks"] == {"x-aaaaa-1": 1}


async def test_a_waiting_call_is_answered_when_its_time_is_up(office: Office) -> None:
    office.desk.wait_s = 0.01
    call = office.call(wait=True)
    assert isinstance(call, Call)
    assert (await call.answer).body["cmds"] == []


async def test_long_waits_end_on_whole_seconds_so_that_many_end_together(office: Office) -> None:
    now = asyncio.get_running_loop().time()
    call = office.call(wait=True)
    assert isinstance(call, Call) and call.timer is not None
    assert call.timer.when() % 1 == 0
    assert wire.WAIT_S - 1 <= call.timer.when() - now <= wire.WAIT_S + 1


async def test_a_report_is_not_acknowledged_before_its_commit_however_long_that_takes(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_hub, "WAIT_S", 0.01)
    office.start()
    office.call(payloads=[METRIC])
    for _ in range(2):  # the keeper reports the same metric again
        call = office.call(attempts=ENDED)
        assert isinstance(call, Call)
        assert (await call.answer).status == 503
    office.end()
    assert isinstance(office.call(attempts=ENDED), Answer)
    assert [type(event) for event in office.events] == [MetricReported, JobStarted, JobEnded]


async def test_a_call_that_is_overtaken_before_its_commit_is_not_acknowledged(office: Office) -> None:
    office.call(boot_id="b2", k_epoch=2, all=True)
    first = office.call(boot_id="b2", k_epoch=2, wait=True)
    office.call(boot_id="b2", k_epoch=2, wait=True)
    assert isinstance(first, Call) and first.answer.result().status == 503


async def test_a_keeper_that_is_to_leave_is_told_once_and_again_after_a_while(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_hub, "ENDING_S", 0.01)
    call = office.call(wait=True)
    office.link.leaving = True
    office.desk.flush()
    assert answer(call)["leave"]
    call = office.call(wait=True)  # the keeper still has attempts, or the answer was lost
    assert isinstance(call, Call) and not call.answer.done()
    report = office.call(payloads=[])
    assert isinstance(report, Answer) and report.body["leave"]
    assert not call.answer.done()
    assert (await call.answer).body["leave"]


async def test_a_keeper_that_stops_attempts_of_no_job_is_soon_asked_whether_they_have_ended(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_hub, "ENDING_S", 0.01)
    office.call(all=True, payloads=[])
    asked = office.call(wait=True)
    assert isinstance(asked, Answer) and asked.body["all"]
    call = office.call(wait=True)
    assert isinstance(call, Call) and not call.answer.done()
    assert (await call.answer).body["all"]


async def test_a_closed_desk_turns_all_away(office: Office) -> None:
    call = office.call(wait=True)
    office.hub.remove("x", office.desk)
    assert isinstance(call, Call) and call.answer.result().status == 503
    refused = office.call()
    assert isinstance(refused, Answer) and refused.status == 503


async def test_a_keeper_of_another_database_is_refused(office: Office) -> None:
    refused = office.call(db_id_seen="other")
    assert isinstance(refused, Answer)
    assert (refused.status, refused.body["reason"]) == (409, "database")


# ---- the door ---------------------------------------------------------------------------------------------


class Caller:
    """One HTTP request through the door, and its result."""

    def __init__(self, office: Office, body: bytes = b"", **more: Any) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Mapping[str, Any]] = []
        self._parts = [body[:10], body[10:]]
        headers = more.pop("headers", {b"authorization": f"Bearer {TOKEN}".encode()})
        self._scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers.items(), **more}
        self._door = KeeperDoor(office.hub)

    async def __call__(self) -> tuple[int, Any]:
        await self._door(self._scope, self._receive, self._send)
        if not self.sent:
            return 0, None
        start, body = self.sent
        assert dict(start["headers"])[b"content-length"] == b"%d" % len(body["body"])
        return start["status"], json.loads(body["body"])

    async def _receive(self) -> dict[str, Any]:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def test_a_sync_through_the_door(office: Office) -> None:
    status, body = await Caller(office, office.body())()
    assert (status, body["db_id"]) == (200, "db")


async def test_a_held_call_ends_with_its_caller(office: Office) -> None:
    caller = Caller(office, office.body(wait=True))
    caller.gone.set()
    assert await caller() == (0, None)
    office.start()  # the call has ended, so nobody receives this start


async def test_a_held_call_is_answered_through_the_door(office: Office) -> None:
    caller = Caller(office, office.body(wait=True))
    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    office.start()
    status, body = await task
    assert (status, len(body["cmds"])) == (200, 1)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"headers": {}}, 401),
        ({"headers": {b"authorization": b"Bearer wrong"}}, 401),
        ({"headers": {b"authorization": b"Bearer \xff"}}, 401),
        ({"headers": {b"authorization": b"Basic secret"}}, 401),
        ({"path": PATH.replace("/x/", "/y/")}, 401),
        ({"path": PATH.replace("/x/", "/x/k/")}, 404),
        ({"path": "/keepers/v1/sync"}, 404),
        ({"path": "/"}, 404),
        ({"method": "GET"}, 405),
    ],
)
async def test_who_may_not_pass(office: Office, more: dict[str, Any], status: int) -> None:
    assert (await Caller(office, office.body(), **more)())[0] == status


async def test_bodies_that_are_none_or_too_large(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await Caller(office, b"nonsense")())[0] == 400
    monkeypatch.setattr("training_services.keepers.http_door.MAX_BODY", 20)
    assert (await Caller(office, b"x" * 21)())[0] == 413
    headers = {b"authorization": f"Bearer {TOKEN}".encode(), b"content-length": b"21"}
    assert (await Caller(office, headers=headers)())[0] == 413


async def test_without_a_committed_token_nobody_passes(office: Office) -> None:
    office.desk.token_sha256 = None
    assert (await Caller(office, office.body())())[0] == 401


async def test_a_stranger_does_not_learn_which_experiments_there_are(office: Office) -> None:
    """Every keeper gets the same refusal: served, removed or not enrolled yet."""
    office.hub.bar("x", "old", token_sha256=token_digest("old secret"))
    other = PATH.replace("/k/", "/old/")
    answers = []
    for headers in ({}, {b"authorization": b"Bearer wrong"}):
        for path in (PATH, PATH.replace("/x/", "/y/"), PATH.replace("/x/", "/x%00/"), other):
            caller = Caller(office, office.body(), path=path, headers=headers)
            answers.append((await caller(), caller.sent[0]))
    office.desk.token_sha256 = None
    caller = Caller(office, office.body())
    answers.append((await caller(), caller.sent[0]))
    assert answers[0][0][0] == 401
    assert all(answer == answers[0] for answer in answers)


async def test_a_removed_keeper_is_told_so(office: Office) -> None:
    office.hub.bar("x", "old", token_sha256=token_digest("old secret"))
    headers = {b"authorization": b"Bearer old secret"}
    path = PATH.replace("/k/", "/old/")
    status, body = await Caller(office, office.body(), path=path, headers=headers)()
    assert (status, body["reason"]) == (409, "instance")
