"""Which idle shim takes which request."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from trial_keeper import idle_shims, spawner
from trial_keeper.idle_shims import IDLE, SAID, Pool


class Spawner:
    """Spawner with a pool. Its shims are this process."""

    def __init__(self, cwd: Path) -> None:
        self.pool = Pool()
        self.cwd = cwd
        self.awake, self.waker = os.pipe()
        poll = select.poll()
        poll.register(self.awake, select.POLLIN)
        self.pool.begin(poll)
        os.write(self.waker, b"x")  # each wait of the pool ends at once
        self.shims: list[socket.socket] = []

    def request(self, job: str, *changes: str, parameter: str = "") -> list[bytes]:
        fixed = [job, "boot", "trials", "net.py:Net", str(self.cwd), parameter, "0", f"attempts/{job}.", ""]
        return [field.encode() for field in (*fixed, f"NNI_TRIAL_JOB_ID={job}", "NNI_RESUME_DIR", *changes)]

    def forked(self, fields: list[bytes]) -> socket.socket:
        """Return the shim's end of the socket of a new shim."""
        self.pool.prepare()
        own = self.pool.own().dup()
        self.pool.forked(fields, os.getpid())
        own.setblocking(False)
        self.shims.append(own)
        return own

    def idle(self, *changes: str) -> socket.socket:
        """Return the shim's end of the socket of a shim that is idle."""
        shim = self.forked(self.request("e-a-1", *changes))
        shim.send(IDLE)
        self.pool.wait()
        return shim

    def close(self) -> None:
        for shim in self.shims:
            shim.close()
        self.pool.wait()
        for fd in (self.awake, self.waker):
            os.close(fd)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Spawner]:
    (tmp_path / "net.py").write_text("")
    made = Spawner(tmp_path)
    yield made
    made.close()


def test_an_idle_shim_gets_the_next_request_once(here: Spawner) -> None:
    shim = here.idle()
    fields = here.request("e-b-1", "NNI_RESUME_DIR=x", "NNI_TRIAL_SEED=3")
    assert here.pool.hand(fields) == os.getpid()
    assert spawner.unpack(shim.recv(1 << 16)[4:]) == fields
    assert here.pool.hand(here.request("e-c-1")) == 0


def test_a_busy_shim_gets_no_request(here: Spawner) -> None:
    here.forked(here.request("e-a-1"))
    here.pool.wait()
    assert here.pool.hand(here.request("e-b-1")) == 0


@pytest.mark.parametrize("changes", [["A=2"], ["A"], [], ["A=1", "B=1"]])
def test_another_environment_gets_no_idle_shim(here: Spawner, changes: list[str]) -> None:
    shim = here.idle("A=1")
    assert here.pool.hand(here.request("e-b-1", *changes)) == 0
    assert here.pool.hand(here.request("e-b-1", "A=1")) == os.getpid()
    assert shim.recv(1 << 16)


def test_a_changed_file_gets_no_idle_shim(here: Spawner) -> None:
    here.idle()
    (here.cwd / "net.py").write_text("changed")
    assert here.pool.hand(here.request("e-b-1")) == 0


def test_a_request_that_is_too_long_gets_no_idle_shim(here: Spawner) -> None:
    here.idle()
    assert here.pool.hand(here.request("e-b-1", parameter="x" * idle_shims.LARGEST)) == 0
    assert here.pool.hand(here.request("e-b-1", parameter="x" * 60_000)) == os.getpid()


def test_an_idle_shim_that_has_ended_gets_no_request(here: Spawner) -> None:
    here.idle().close()
    assert here.pool.hand(here.request("e-b-1")) == 0


@pytest.mark.parametrize(("gpus", "ends"), [("1,2", True), ("2", False), ("", False)])
def test_an_idle_shim_leaves_its_gpus_to_others(here: Spawner, gpus: str, ends: bool) -> None:
    shim = here.idle("CUDA_VISIBLE_DEVICES=0,1")
    assert here.pool.hand(here.request("e-b-1", f"CUDA_VISIBLE_DEVICES={gpus}")) == 0
    assert is_closed(shim) == ends


def test_a_shim_that_is_idle_for_too_long_ends(here: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    shim, busy = here.idle(), here.forked(here.request("e-b-1"))
    here.pool.wait()
    assert not is_closed(shim)
    monkeypatch.setattr(idle_shims, "IDLE_S", 0.0)
    here.pool.wait()
    assert is_closed(shim) and not is_closed(busy)


def test_what_one_shim_has_said_the_next_ones_know(here: Spawner) -> None:
    here.forked(here.request("e-a-1")).send(SAID + b"a thread runs on")
    here.pool.wait()
    assert here.pool.said == {b"a thread runs on"}


def test_a_fork_that_fails_leaves_no_socket(here: Spawner) -> None:
    here.pool.prepare()
    own = here.pool.own().dup()
    here.pool.forked(here.request("e-a-1"), -1)
    with own:
        assert own.recv(1) == b""
    here.pool.forked(here.request("e-a-1"), -1)  # there was not even a socket


def is_closed(shim: socket.socket) -> bool:
    """Return whether the spawner has closed its end of the socket."""
    try:
        return shim.recv(1 << 16) == b""
    except BlockingIOError:
        return False
