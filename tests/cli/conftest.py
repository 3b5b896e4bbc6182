"""A home and a server for the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nnimgr.client import waits
from nnimgr.home import Home
from tests.cli.fake import FakeServer, Told


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(waits, "TELL_S", 600.0)  # on a busy machine, too, only ``told`` has waits told
    return Home.find()


@pytest.fixture
def server(home: Home) -> Iterator[FakeServer]:
    with FakeServer(home).running() as server:
        yield server


@pytest.fixture
def told(home: Home, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What commands wait for, which they say at once."""
    monkeypatch.setattr(waits, "TELL_S", 0.001)
    told = Told()
    monkeypatch.setattr(waits, "say", told.say)
    return told
