"""The time at which a server ends that has to end when it is idle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from nnimgr.api.dependencies import ApiParts
from nnimgr.api.shutdown import Shutdown
from nnimgr.server import process


@dataclass(slots=True)
class FakeManager:
    """Experiments as a set of running ones, with a mark of whether there has been any."""

    running: set[str] = field(default_factory=set)
    used: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, name: str) -> None:
        self.running.add(name)
        self.used = True
        self.changed.set()

    def stop(self, name: str) -> None:
        self.running.remove(name)
        self.changed.set()

    @property
    def idle(self) -> bool:
        return not self.running

    async def wait_idle(self) -> None:
        while not self.used or not self.idle:
            self.changed.clear()
            await self.changed.wait()


@dataclass
class FakeTensorBoards:
    """TensorBoards as an event that is set while none runs."""

    none: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def idle(self) -> bool:
        return self.none.is_set()

    async def wait_idle(self) -> None:
        await self.none.wait()


class Lifetime:
    """A server until it ends. ``why``: the reason that it logs then."""

    def __init__(self) -> None:
        self.manager, self.shutdown = FakeManager(), Shutdown()
        self.why: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.tensorboards = FakeTensorBoards()
        self.tensorboards.none.set()
        made = SimpleNamespace(manager=self.manager, shutdown=self.shutdown, tensorboards=self.tensorboards)
        parts = cast(ApiParts, made)
        self._task = asyncio.create_task(process._leave_when_idle(parts, self.why.set_result))

    async def settle(self) -> None:
        """Run all tasks that can run."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def left(self) -> str:
        async with asyncio.timeout(10):
            await self._task
        return self.why.result()


async def test_it_leaves_when_the_last_experiment_is_stopped() -> None:
    server = Lifetime()
    server.manager.start("a")
    server.manager.start("b")
    await server.settle()
    server.manager.stop("a")
    await server.settle()
    assert not server.why.done()
    server.manager.stop("b")
    assert await server.left() == "no active experiment is left"


async def test_it_stays_while_a_tensorboard_runs() -> None:
    server = Lifetime()
    server.manager.start("a")
    server.tensorboards.none.clear()
    server.manager.stop("a")
    await server.settle()
    assert not server.why.done()
    server.tensorboards.none.set()
    assert await server.left() == "no active experiment is left"


async def test_it_waits_for_a_request_that_creates_another_one() -> None:
    server = Lifetime()
    server.manager.start("a")
    with server.shutdown.change():
        server.manager.stop("a")
        await server.settle()
        assert not server.why.done()
        server.manager.start("b")
    await server.settle()
    assert not server.why.done()
    server.manager.stop("b")
    await server.left()


async def test_it_does_not_wait_for_ever_for_its_first_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_FIRST_EXPERIMENT_S", 0.01)
    server = Lifetime()
    assert await server.left() == "no experiment was created"


async def test_a_long_experiment_outlives_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_FIRST_EXPERIMENT_S", 0.0)
    server = Lifetime()
    server.manager.start("a")
    await server.settle()
    assert not server.why.done()
    server.manager.stop("a")
    assert await server.left() == "no active experiment is left"


# A server that has got one signal, or whose limit has elapsed, and whose experiment "slow" does not close.
_STUCK = """
import asyncio, logging, os, signal, sys
from types import SimpleNamespace
from nnimgr.api.shutdown import Shutdown
from nnimgr.server import process
from nnimgr.server.options import ServeOptions

async def main(limit_s, signals):
    process._SHUTDOWN_S = float(limit_s)
    parts = SimpleNamespace(manager=SimpleNamespace(unclosed=["slow"]), shutdown=Shutdown())
    serving = asyncio.create_task(asyncio.Event().wait())
    told = asyncio.create_task(process._until_told(ServeOptions(port=1, host="::1"), parts, serving))
    for name in signals.split():
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.Signals[name])
    await told
    await asyncio.Event().wait()

logging.basicConfig(format="%(message)s", level="INFO")
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("limit_s", "signals", "how"),
    [("3600", "SIGTERM SIGINT", "by a second signal, SIGINT"), ("0", "SIGTERM", "after 0 s")],
)
def test_a_shutdown_ends_although_an_experiment_does_not_close(limit_s: str, signals: str, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STUCK, limit_s, signals], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert ended.stderr.splitlines() == [
        "the server is shutting down: SIGTERM",
        f"the shutdown was cut short {how} while it waited for experiment slow to close; trials continue, "
        "and the next server adopts them",
    ]
    assert ended.returncode == 1
