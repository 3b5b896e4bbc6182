"""Reads an experiment's files on a machine through the attendant there. No keeper needs to run."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from training_services.base import FileListing, ServiceUnavailable
from training_services.logs import listing_of
from trial_keeper import wire
from trial_keeper.machine.untrusted_files import Listed

__all__ = ["Ask", "MachineFiles"]

Ask = Callable[..., Awaitable[Mapping[str, Any]]]
"""Function that sends the attendant a request and returns its answer. Raises ServiceUnavailable."""


class MachineFiles:
    """Reader of the jobs' files in a directory of a machine (see ``KeeperFiles``).

    ``directory`` is relative to the home directory. Each piece is requested only when the reader wants more,
    because other tasks use the same connection.
    """

    def __init__(self, ask: Ask, directory: str, *, machine: str) -> None:
        self._ask = ask
        self._directory = directory
        self._machine = machine

    async def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file in chunks, up to its size at the beginning; ``follow`` is ignored."""
        asked = {"folder": list(parts), "name": path}
        first = piece = await self._answer("read", **asked, offset=0, tail=tail)
        offset = first["offset"]
        while data := base64.b64decode(piece["data"])[: first["size"] - offset]:
            yield data
            offset += len(data)
            if offset == first["size"]:
                return
            piece = await self._answer("read", **asked, offset=offset, tail=None)
            if piece["identity"] != first["identity"]:
                raise ServiceUnavailable(f"{path} on {self._machine} was replaced while it was read")

    async def listing(self, parts: Sequence[str]) -> FileListing:
        found: list[Listed] = []
        more, after, complete = True, None, True
        while more:
            page = await self._answer("list", folder=list(parts), after=after)
            found += [Listed(*entry) for entry in page["files"]]
            more, complete = page["more"], page["complete"]
            after = found[-1].path if found else None
        return listing_of(found, complete=complete)

    async def _answer(self, what: str, **fields: Any) -> Mapping[str, Any]:
        answer = await self._ask(what, directory=self._directory, **fields)
        match answer.get("refused"):
            case None:
                return answer
            case wire.BAD_NAME:
                raise ValueError(answer["sentence"])
        raise FileNotFoundError(answer["sentence"])
