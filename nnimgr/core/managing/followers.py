"""What follows an experiment turn by turn, beside its runner: its notifier and its sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from nnimgr.core.running.notices import Notice
from nnimgr.rules.state import ExperimentState

__all__ = ["Follower", "Followers"]


class Follower(Protocol):
    """Object that is told of each change of an experiment."""

    @property
    def notices(self) -> Mapping[str, Notice]: ...

    def turned(self, state: ExperimentState) -> None: ...

    async def close(self) -> None: ...


class Followers:
    """Several followers as one."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._followers = followers

    @property
    def notices(self) -> Mapping[str, Notice]:
        return {name: notice for each in self._followers for name, notice in each.notices.items()}

    def turned(self, state: ExperimentState) -> None:
        for each in self._followers:
            each.turned(state)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._followers))
