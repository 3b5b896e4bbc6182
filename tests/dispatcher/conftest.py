"""Fixtures: dispatcher children that are closed after each test, and databases of past experiments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.dispatcher.hosting import Hosted, start_line
from tests.dispatcher.past import Past

Host = Callable[..., Awaitable[Hosted]]
MakePast = Callable[..., Past]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """Return a function that starts a child: ``await host(role, code=..., **fields of Start)``.

    ``code`` is the text of a module ``mine`` whose class ``Mine`` is hosted. The child is rebuilt from
    ``past``.
    """
    children: list[Hosted] = []

    async def start(
        role: str = "tuner", *, code: str | None = None, past: Past | None = None, **fields: Any
    ) -> Hosted:
        if code is not None:
            (tmp_path / "mine.py").write_text(dedent(code))
            fields = {"class_name": "mine.Mine", "code_directory": str(tmp_path), **fields}
        if past is not None:
            fields = {"database": str(past.path), "rebuild_to": past.number, **fields}
        hosted = Hosted(start_line(role, **fields), tmp_path, PYTHONDONTWRITEBYTECODE="1")
        children.append(hosted)
        await hosted.child.start()
        return hosted

    yield start
    await asyncio.gather(*(hosted.child.close() for hosted in children))


@pytest.fixture
def make_past(tmp_path: Path) -> Iterator[MakePast]:
    """Return a function that makes the database of an experiment with a search space."""
    made: list[Past] = []

    def make(space: dict[str, Any] | None = None, **more: Any) -> Past:
        past = Past(tmp_path / "past.sqlite", space or {"x": {"_type": "uniform", "_value": [0, 1]}}, **more)
        made.append(past)
        return past

    yield make
    for past in made:
        past.close()
