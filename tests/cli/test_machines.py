"""``nnictl machine ls``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer

Capture = pytest.CaptureFixture[str]


def machine(name: str, **changes: Any) -> dict[str, Any]:
    """Return a machine in the server's form."""
    found: dict[str, Any] = {
        "id": name,
        "name": name,
        "address": name,
        "status": "connected",
        "reason": None,
        "since": None,
        "trialIds": ["a0000", "a0001"],
        "cpus": 4.0,
        "memoryMb": 2048,
        "diskFreeMb": None,
        "gpus": None,
        "keeperVersion": "1.0",
        "endsAt": None,
    }
    return found | changes


def shown(server: FakeServer, capsys: Capture, *machines: dict[str, Any]) -> list[list[str]]:
    """Return the cells of each line."""
    server.add("abc").machines = list(machines)
    assert main(["machine", "ls"]) == 0
    return [re.split(" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]


def test_machines_that_stay_have_no_time_limit(server: FakeServer, capsys: Capture) -> None:
    title, row = shown(server, capsys, machine("gpu1"))
    assert title == ["MACHINE", "STATE", "TRIALS", "GPUS", "CPUS", "MEMORY", "KEEPER"]
    assert row == ["gpu1", "connected", "2", "-", "4", "2 GiB", "1.0"]


def test_allocations_of_a_cluster(server: FakeServer, capsys: Capture) -> None:
    ends_at = (datetime.now(UTC) + timedelta(hours=2, minutes=3, seconds=30)).isoformat()
    absent: dict[str, Any] = {"trialIds": [], "cpus": None, "memoryMb": None, "keeperVersion": None}
    why = "allocation 8 waits in partition gpu: the nodes that it needs are in use"
    waiting = machine("allocation 8", status="connecting", reason=why, **absent)
    running = machine("allocation 7 on n1", endsAt=ends_at)
    title, first, second, below = shown(server, capsys, running, waiting)
    assert title[-1] == "TIME LEFT"
    assert first == ["allocation 7 on n1", "connected", "2", "-", "4", "2 GiB", "1.0", "2 h 3 min"]
    assert second == ["allocation 8", "connecting", "0", "-", "-", "-", "-"]
    assert below == [why]


def test_a_drain_that_leaves_no_machine_says_so(server: FakeServer, capsys: Capture) -> None:
    drained = machine("gpu1", status="draining")
    experiment = server.add("abc")
    for machines, is_told in (([drained, machine("gpu2")], False), ([drained], True)):
        experiment.machines = machines
        assert main(["machine", "drain", "gpu1"]) == 0
        told = "No machine is left for new trials. Use this one again: nnictl machine drain gpu1 abc --undo"
        assert (told in capsys.readouterr().err) is is_told
