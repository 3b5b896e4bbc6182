"""Tests of the ticket that a new host exchanges for the token of its keeper."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training_services.keepers.test_hub import Caller, Office
from training_services.base import ServiceUnavailable
from training_services.keepers.caller import Refused
from training_services.keepers.ticket import Ticket

ENROL = "/keepers/v1/x/k/enrol"
LAUNCH = "0" * 32


def read(folder: Path) -> Ticket:
    ticket = Ticket(folder)
    ticket.read()
    return ticket


def test_only_the_first_program_gets_the_token(tmp_path: Path) -> None:
    ticket = read(tmp_path / "keeper")
    assert not ticket.take("wrong", "first")
    assert ticket.take(ticket.text, "first")
    assert ticket.take(ticket.text, "first")  # its answer may have been lost
    with pytest.raises(Refused):
        ticket.take(ticket.text, "second")


def test_the_next_server_knows_who_has_it(tmp_path: Path) -> None:
    first = read(tmp_path)
    first.take(first.text, "first")
    path = tmp_path / "ticket.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "first" not in path.read_text()
    again = read(tmp_path)
    assert again.text == first.text
    assert again.take(again.text, "first")
    with pytest.raises(Refused):
        again.take(again.text, "second")


def test_what_cannot_be_recorded_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = read(tmp_path)

    def full(*_: Any) -> int:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(OSError, match="disk full"):
            ticket.take(ticket.text, "first")
    assert ticket.take(ticket.text, "second")


async def test_the_door_asks_the_host(tmp_path: Path) -> None:
    office = Office()
    ticket = read(tmp_path)

    async def enrol(shown: str, launch: str) -> Mapping[str, Any] | None:
        return {"given": launch} if ticket.take(shown, launch) else None

    def call(shown: str, launch: str = LAUNCH, path: str = ENROL) -> Caller:
        headers = {b"authorization": f"Bearer {shown}".encode()}
        return Caller(office, json.dumps({"launch": launch}).encode(), path=path, headers=headers)

    assert (await call(ticket.text)())[0] == 401  # this host needs no ticket
    office.desk.enrol = enrol
    assert (await call("wrong")())[0] == 401
    assert (await call(ticket.text, path="/keepers/v1/x/other/enrol")())[0] == 401
    assert (await call(ticket.text, launch="x")())[0] == 400
    assert (await call(ticket.text, launch="0" * 1000)())[0] == 400
    assert await call(ticket.text)() == (200, {"given": LAUNCH})
    status, body = await call(ticket.text, launch="1" * 32)()
    assert (status, body["reason"]) == (409, "instance")


async def test_a_host_that_is_not_ready_is_asked_again() -> None:
    office = Office()

    async def enrol(shown: str, launch: str) -> Mapping[str, Any] | None:
        raise ServiceUnavailable("the server has just been started")

    office.desk.enrol = enrol
    status, body = await Caller(office, json.dumps({"launch": LAUNCH}).encode(), path=ENROL)()
    assert status == 503
    assert body["error"] == "The keeper cannot be enrolled now: the server has just been started."
