"""``nnictl trial members``: the members of an attempt on several machines, as a table or as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import CREATED_AT, FakeServer, trial
from tests.cli.terminals import in_a_terminal

MACHINES = [
    {"host": "gpu-machine-with-a-long-name-1", "user": "alice", "gangAddress": "10.0.0.5"},
    {"host": "gpu-2", "user": "alice"},
]


def member(number: int, keeper_id: str, **changes: Any) -> dict[str, Any]:
    found = {
        "member": number,
        "keeperId": keeper_id,
        "gpus": [0, 1],
        "state": "running",
        "startedAt": CREATED_AT,
        "endedAt": None,
        "endReason": None,
        "exitCode": None,
        "signal": None,
        "message": None,
    }
    return found | changes


def attempt(number: int, *members: dict[str, Any]) -> dict[str, Any]:
    return {"attempt": number, "placedAt": CREATED_AT, "members": list(members)}


def given(server: FakeServer, *jobs: dict[str, Any], **config: Any) -> None:
    added = server.add("abc")
    added.trials = [trial("ta", 0, jobs=list(jobs), attempt=len(jobs), reason="waits for 2 hosts")]
    service = {"platform": "remote", "machineList": MACHINES}
    added.profile["config"] |= {"trainingService": service, **config}


FAILED = {"state": "ended", "endedAt": CREATED_AT, "endReason": "exited", "exitCode": 7}
LOST = {"state": "ended", "endReason": "lost", "message": "the host was restarted"}
FIRST = attempt(
    1,
    member(0, "alice_gpu-machine-with-a-long-name-1_22", **LOST),
    member(1, "alice_gpu-2_22", **FAILED, message="ValueError: " + "boom " * 20),
)
SECOND = attempt(
    2, member(0, "alice_gpu-2_22"), member(1, "bob_added_22", state="placed", startedAt=None, gpus=[])
)


def test_the_newest_attempt_as_a_table(server: FakeServer) -> None:
    given(server, FIRST, SECOND, gang={"nodes": 2, "processes": "gpu"})
    seen = in_a_terminal("trial", "members", "-T", "0")
    assert [line.split("2026")[0].split() for line in seen.lines] == [
        ["MEMBER", "MACHINE", "ADDRESS", "STATE", "PROCESSES", "SINCE"],
        ["0", "gpu-2", "gpu-2", "running", "2"],
        ["1", "added", "-", "placed", "-"],
    ]
    assert seen.code == 0 and "2026" in seen.lines[1] and "2026" in seen.lines[2]


def test_an_older_attempt_fits_into_80_columns(server: FakeServer) -> None:
    given(server, FIRST, SECOND, gang={"nodes": 2, "processes": 4})
    seen = in_a_terminal("trial", "members", "-T", "0", "--attempt", "1")
    assert seen.widest <= 80
    assert seen.lines[1].split()[2:] == ["10.0.0.5", "lost", "4", "-"]
    assert "exited with code 7" in seen.lines[2]
    assert seen.lines[3] == "member 0: the host was restarted"
    assert seen.lines[4].startswith("member 1: ValueError: boom")


def test_members_as_json(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    given(server, FIRST, gang={"nodes": 2})
    assert main(["trial", "members", "-T", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["id"], found["attempt"]) == ("ta", 1)
    shown = [(each["member"], each["address"], each["processes"]) for each in found["members"]]
    assert shown == [(0, "10.0.0.5", 1), (1, "gpu-2", 1)]


@pytest.mark.parametrize(
    ("processes", "gpus", "number"), [("auto", [0, 1, 2], 3), ("auto", [], None), ("cpu", [0], None)]
)
def test_members_beside_each_other(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    processes: str,
    gpus: list[int],
    number: int | None,
) -> None:
    beside = attempt(1, member(0, "local", gpus=gpus), member(1, "local", gpus=gpus))
    given(server, beside, gang={"nodes": 2, "processes": processes, "sameHost": True})
    assert main(["trial", "members", "-T", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["members"]
    assert [(each["address"], each["processes"]) for each in found] == [("127.0.0.1", number)] * 2


def test_trials_without_members(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    given(server, attempt(1))
    assert main(["trial", "members", "-T", "0"]) == 0
    assert capsys.readouterr().out == "Attempt 1 of trial 0 (ta) runs on one host, so it has no members.\n"
    server.experiments["abc"].trials[0]["jobs"] = []
    assert main(["trial", "members", "-T", "0"]) == 0
    assert capsys.readouterr().out == (
        "No attempt of trial 0 (ta) has started, so it has no members yet: waits for 2 hosts.\n"
    )


def test_an_attempt_that_does_not_exist(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    given(server, FIRST)
    assert main(["trial", "members", "-T", "0", "--attempt", "5"]) == 1
    assert "Trial 0 (ta) has no attempt 5; its latest is 1." in capsys.readouterr().err
