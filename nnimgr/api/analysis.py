"""Client of the analysis process for routes. That process computes charts, and filters and sorts trials."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.requests import ClientDisconnect

from nnimgr.api.dependencies import ApiParts, ExperimentId, Parts
from nnimgr.store.location import database_path

__all__ = ["COLUMNS", "Analysis", "Filter"]

COLUMNS = "application/vnd.nnimgr.columns"

Filter = Annotated[
    str,
    Query(
        max_length=4000,
        description="terms joined by `;`; a trial must match all of them: `name:value`, `name:[a,b]` (one of "
        "these values, or a range of numbers), `name>v`, `<`, `>=`, `<=`, `≠`. Names are as in "
        "`columns/schema`; the prefix of parameters and metrics may be omitted; NNI's own names also work. "
        "`tags:name` matches trials that have this tag, `tags:null` trials without tags",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Client of the analysis process for one request, which is about one experiment.

    If the client that sent the request disconnects, its question is dropped.
    """

    parts: ApiParts
    experiment_id: str
    request: Request

    async def ask(self, question: str, **arguments: Any) -> bytes:
        """Send a question to the analysis process, and return the bytes of its answer.

        Raise ClientDisconnect if the client disconnects before the answer comes, and the errors of
        ``Analyst.ask``.
        """
        answer = asyncio.create_task(self.ask_in_stream(question, **arguments), name=f"question:{question}")
        gone = asyncio.create_task(self._gone(), name="question:client")
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                gone.result()  # the client may have sent the rest of its request instead of disconnecting
                raise ClientDisconnect("The client has disconnected.")
            return answer.result()
        finally:
            for task in (answer, gone):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({answer, gone})

    async def ask_in_stream(self, question: str, **arguments: Any) -> bytes:
        """Send a question for a part of a streamed response, and return the bytes of the answer.

        This function does not watch whether the client disconnects, because the stream notices that. Raise
        the errors of ``Analyst.ask``.
        """
        database = database_path(self.parts.manager.directory(self.experiment_id))
        return await self.parts.analyst.ask(database, self.experiment_id, question, arguments)

    async def ask_json(self, question: str, **arguments: Any) -> Any:
        """Send a question to the analysis process, and return the JSON value of its answer."""
        return json.loads(await self.ask(question, **arguments))

    async def _gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


async def _questions(parts: Parts, experiment_id: ExperimentId, request: Request) -> Questions:
    return Questions(parts=parts, experiment_id=experiment_id, request=request)


Analysis = Annotated[Questions, Depends(_questions)]
