"""Real dispatcher children, and the messages that they send."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.forking import Zygote
from nnimgr.dispatcher.process import DispatcherChild
from nnimgr.testing.record import EXPERIMENT

DEADLINE_S = 90.0  # only a failing test waits as long as this

T = TypeVar("T")


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition that no event announces."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def start_line(role: str = "tuner", **fields: Any) -> m.Start:
    """Return a Start with defaults. The built-in algorithm of the role is used unless a class is named."""
    builtin = {"tuner": "Random", "assessor": "Medianstop", "scheduler": "ASHA"}[role]
    defaults: dict[str, Any] = {
        "role": role,
        "name": None if "class_name" in fields else builtin,
        "class_name": None,
        "code_directory": None,
        "class_args": {},
        "search_space": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "experiment_id": EXPERIMENT,
        "database": "",
        "rebuild_to": 0,
        "checkpoint_directory": "",
        "seed": 7,
    }
    return m.Start(**{**defaults, **fields})


class Hosted:
    """A child and the messages that it has sent."""

    def __init__(
        self, start: m.Start, directory: Path, *, zygote: Zygote | None = None, **environ: str
    ) -> None:
        self.seen: list[m.FromChild] = []
        self.exits: list[str] = []
        self._read = 0
        self.log = directory / f"{start.role}.log"
        self.child = DispatcherChild(
            start,
            python=sys.executable,
            environ={**os.environ, **environ},
            cwd=directory,
            log_path=self.log,
            zygote=zygote,
            on_message=self._message,
            on_exit=self._exit,
        )
        self._event = asyncio.Event()

    def send(self, message: m.ToChild) -> bool:
        return self.child.send(message)

    def ask(self, *ids: int, fed_to: int = 0) -> None:
        self.send(m.Ask(parameter_ids=ids, fed_to=fed_to))

    async def expect(self, kind: type[T]) -> T:
        """Return the next message of this kind. Ignore other messages."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                while self._read < len(self.seen):
                    message = self.seen[self._read]
                    self._read += 1
                    if isinstance(message, kind):
                        return message
                assert not self.exits, (self.exits, self.seen)
                await self._wait()

    async def suggestions(self, count: int) -> list[str]:
        return [(await self.expect(m.Suggestion)).parameters for _ in range(count)]

    async def exited(self) -> str:
        async with asyncio.timeout(DEADLINE_S):
            while not self.exits:
                await self._wait()
        return self.exits[0]

    def of_kind(self, kind: type[T]) -> list[T]:
        return [message for message in self.seen if isinstance(message, kind)]

    async def _wait(self) -> None:
        self._event.clear()
        await self._event.wait()

    def _message(self, message: m.FromChild) -> None:
        self.seen.append(message)
        self._event.set()

    def _exit(self, sentence: str) -> None:
        self.exits.append(sentence)
        self._event.set()
