"""Where keepers' calls meet the services: who may call, and when each call is answered.

The protocol itself is ``keeper_link`` (pure). A ``KeeperDesk`` serves one keeper of one experiment: it hands
requests to the link and events to the service, and holds calls until there is something to say. The hub is
the server's table of desks. Nothing here is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import math
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from training_services.base import FileListing, ServiceUnavailable
from training_services.keeper_link import Backlog, KeeperLink, Key, Received, Refused
from training_services.keeper_reads import ReadStream, read_listing
from training_services.keeper_request import Request, WireError, read_request
from trial_keeper import wire
from trial_keeper.wire import WAIT_S

__all__ = ["Answer", "Call", "KeeperDesk", "KeeperHub", "split_turn", "token_digest", "with_turn"]

logger = logging.getLogger(__name__)

MAX_BACKLOG = 20_000  # uncommitted frames of an experiment above which reports wait for their commit
MAX_READS = 16  # of one keeper at once
MAX_LISTING = 16 << 20  # bytes
LEAVING_S = 0.5  # a keeper that is to leave and still has attempts is told again: it forgets some unsaid
LONG_WAIT_S = 5.0  # from here on a second less makes no difference


def token_digest(token: str) -> str:
    """The SHA-256 (hex) under which a keeper's token is known."""
    return hashlib.sha256(token.encode()).hexdigest()


def with_turn(token: str, turn: str) -> str:
    """The token as ``manager.json`` has it: it says, too, at which writing of that file it was read."""
    return f"{token}.{turn}"


def split_turn(written: str) -> tuple[str, str]:
    """The token itself, and the turn."""
    token, _, turn = written.partition(".")
    return token, turn


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: its status and its JSON body."""

    status: HTTPStatus
    body: dict[str, Any]


def _refusal(status: HTTPStatus, sentence: str, **more: str) -> Answer:
    return Answer(status, {"error": sentence, **more})


_CLOSED = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The experiment is not open here at present.")
_REMOVED = _refusal(
    HTTPStatus.CONFLICT, "The machine of this keeper was removed from the experiment.", reason="instance"
)
_UNKNOWN = _refusal(
    HTTPStatus.UNAUTHORIZED,
    "No keeper with this token is served here at present: the token is wrong, or its experiment is not open.",
)
_NO_DIGEST = "0" * 64  # of no token
_UNCOMMITTED = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "What this call brought is not recorded yet.")


def _whole(at: float, wait_s: float) -> float:
    """Return the whole second of the loop's clock before ``at``; a short wait ends at ``at`` itself.

    An idle server with many experiments wakes up once for all calls whose wait ends within a second.
    """
    return at if wait_s < LONG_WAIT_S else math.floor(at)


@dataclass(slots=True, eq=False)
class Call:
    """One call of a keeper that is held: what it waits for, and its answer to be."""

    request: Request
    needs: set[Key]
    answer: asyncio.Future[Answer]
    timer: asyncio.TimerHandle | None = None
    due: bool = False  # to be answered, whether there is something to say or not


@dataclass(slots=True, eq=False, kw_only=True)
class KeeperDesk:
    """The door of one keeper.

    ``deliver`` takes what each request has brought, and the desk, which has called it. A call that waits is
    held for ``wait_s`` at most, so that a keeper with nothing to say is heard often enough. ``archive`` finds
    the packed code of a hash, which need not be there.
    """

    link: KeeperLink
    backlog: Backlog
    token_sha256: str | None
    deliver: Callable[[KeeperDesk, Received], None]
    archive: Callable[[str], Path]
    wait_s: float = WAIT_S
    answered_at: float = 0.0  # on the loop's clock; a lease runs from before that
    open: bool = False  # the jobs of before have all been submitted again: reports can be judged
    turn: str = ""  # of the last writing of the keeper's manager.json
    _told: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set once an answer has told the keeper to exit
    _calls: list[Call] = field(default_factory=list)
    _reads: dict[int, ReadStream] = field(default_factory=dict)

    def receive(self, body: bytes, *, token: str = "") -> Answer | Call:
        """Take one call: its answer, or the call to wait for (``release`` it if the caller has gone).

        ``token``: as ``manager.json`` has it.
        """
        if not self.open:
            return _CLOSED
        try:
            request = read_request(body)
            status = self.link.status
            received = self.link.receive(request, newest=split_turn(token)[1] == self.turn)
        except WireError as error:
            logger.warning("keeper %s sends what is no sync: %s", self.link.keeper_id, error)
            return _refusal(HTTPStatus.BAD_REQUEST, f"This is no sync: {error}.")
        except Refused as refused:
            logger.warning("keeper %s was refused: %s", self.link.keeper_id, refused)
            return _refusal(HTTPStatus.CONFLICT, str(refused), reason=refused.reason)
        if self.link.status not in (None, status):
            logger.warning("keeper %s: %s", self.link.keeper_id, self.link.status)
        self.deliver(self, received)
        loop = asyncio.get_running_loop()
        call = Call(request, received.needs, loop.create_future())
        if not request.news:
            call.due = self._overtaken(request) or self.link.has_word(request, arrived=True)
        if self._is_answerable(call):
            return self._answer(call)
        self._calls.append(call)
        limit = WAIT_S if request.news else LEAVING_S if self.link.leaving else self.wait_s
        call.timer = loop.call_at(_whole(loop.time() + limit, limit), self._give_up, call)
        return call

    def settle(self, key: Key) -> None:
        """This fact is durable: no call waits for it any more."""
        for call in self._calls:
            call.needs.discard(key)

    def flush(self) -> None:
        """Answer every call that can be answered now; reports first, so that commands leave once."""
        for call in sorted(self._calls, key=lambda call: not call.request.news):
            if self._is_answerable(call):
                self._finish(call, self._answer(call))

    async def dismiss(self, limit_s: float) -> None:
        """Tell the keeper to stop its trials and exit. Return once an answer has told it, or at the limit."""
        self.link.leaving = True
        self.flush()
        if limit_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._told.wait()

    @property
    def dismissed(self) -> bool:
        """Check whether an answer has told the keeper to exit."""
        return self._told.is_set()

    def close(self) -> None:
        """Answer every call that is held; later ones are turned away, and reads end."""
        self.open = False
        for stream in self._reads.values():
            stream.finish(ServiceUnavailable("the experiment was closed while this was read"))
        for call in list(self._calls):
            self._finish(call, _CLOSED)

    def release(self, call: Call) -> None:
        """The caller has gone."""
        if call in self._calls:
            self._drop(call)
            call.answer.cancel()

    async def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """As ``KeeperFiles.read``."""
        async with aclosing(self._read(wire.FILE, parts, path, follow=follow, tail=tail)) as stream:
            async for chunk in stream:
                yield chunk

    async def listing(self, parts: Sequence[str]) -> FileListing:
        """As ``KeeperFiles.listing``."""
        text = b""
        stream = ReadStream(self.link.keeper_id)
        async with aclosing(self._read(wire.LISTING, parts, "", stream=stream)) as chunks:
            async for chunk in chunks:
                text += chunk
                if len(text) > MAX_LISTING:
                    raise ServiceUnavailable("the list of the files is too long")
        return read_listing(text, complete=stream.complete)

    async def _read(
        self,
        kind: str,
        parts: Sequence[str],
        path: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        stream: ReadStream | None = None,
    ) -> AsyncGenerator[bytes, None]:
        if not self.open:
            raise ServiceUnavailable("the experiment is not open here at present")
        if len(self._reads) >= MAX_READS:
            raise ServiceUnavailable(
                f"{len(self._reads)} files of the machine of keeper {self.link.keeper_id} "
                "are being read already"
            )
        found = ReadStream(self.link.keeper_id) if stream is None else stream
        number = secrets.randbits(48)
        self._reads[number] = found
        self.link.order_read(number, kind, "/".join(parts), path, follow=follow, tail=tail)
        self.flush()
        try:
            async for chunk in found.chunks():
                yield chunk
        finally:
            found.close()
            self.link.drop_read(number)
            del self._reads[number]

    def take_read(self, number: int) -> ReadStream | None:
        """The read whose call has come, if somebody waits for it; there is one call for each."""
        self.link.drop_read(number)
        stream = self._reads.get(number)
        return None if stream is None or not stream.open() else stream

    def _is_answerable(self, call: Call) -> bool:
        if call.needs:
            return False
        if call.due:
            return True
        if call.request.news:
            return self.backlog.frames <= MAX_BACKLOG
        return self.link.has_word(call.request, arrived=False)

    def _overtaken(self, request: Request) -> bool:
        """Only the newest waiting call waits: answer the older ones; True if this is one of them."""
        number = request.k_epoch, request.sync_no
        overtaken = False
        for call in [call for call in self._calls if not call.request.news]:
            if (call.request.k_epoch, call.request.sync_no) < number:
                self._give_up(call)
            else:
                overtaken = True
        return overtaken

    def _give_up(self, call: Call) -> None:
        """Answer a call that is held no longer; what it brought is acknowledged only if it is durable."""
        self._finish(call, _UNCOMMITTED if call.needs else self._answer(call))

    def _answer(self, call: Call) -> Answer:
        self.answered_at = asyncio.get_running_loop().time()
        answer = Answer(HTTPStatus.OK, self.link.answer(call.request))
        if self.link.leaving:
            self._told.set()
        return answer

    def _finish(self, call: Call, answer: Answer) -> None:
        self._drop(call)
        if not call.answer.done():
            call.answer.set_result(answer)

    def _drop(self, call: Call) -> None:
        self._calls.remove(call)
        if call.timer is not None:
            call.timer.cancel()


class KeeperHub:
    """The server's keepers: (experiment, keeper) -> desk."""

    def __init__(self) -> None:
        self._desks: dict[tuple[str, str], KeeperDesk] = {}
        self._barred: dict[tuple[str, str], str] = {}  # digests of tokens

    def bar(self, experiment_id: str, keeper_id: str, *, token_sha256: str) -> None:
        """This keeper's machine is used no longer: it is to stop what it still runs, and to leave."""
        self._barred[experiment_id, keeper_id] = token_sha256

    def add(self, experiment_id: str, desk: KeeperDesk) -> None:
        """Serve this keeper. It takes the place of a desk of the same name."""
        key = experiment_id, desk.link.keeper_id
        if (old := self._desks.get(key)) is not None:
            old.close()
        self._barred.pop(key, None)
        self._desks[key] = desk

    def remove(self, experiment_id: str, desk: KeeperDesk) -> None:
        """Serve it no more: held calls are answered, later ones get 401."""
        desk.close()
        key = experiment_id, desk.link.keeper_id
        if self._desks.get(key) is desk:
            del self._desks[key]

    def find(self, experiment_id: str, keeper_id: str, *, token: str) -> KeeperDesk | Answer:
        """Return the desk for this token, or the refusal.

        A caller without the keeper's token gets the same refusal whether the experiment exists or not.
        """
        desk = self._desks.get((experiment_id, keeper_id))
        barred = self._barred.get((experiment_id, keeper_id))
        known = barred if desk is None else desk.token_sha256
        if not hmac.compare_digest(token_digest(split_turn(token)[0]), known or _NO_DIGEST):
            return _UNKNOWN
        return _REMOVED if desk is None else desk

    def close(self) -> None:
        """Answer all calls that are held: the server stops."""
        for desk in self._desks.values():
            desk.close()
        self._desks.clear()


def encode_answer(answer: Answer) -> bytes:
    return json.dumps(answer.body, separators=(",", ":")).encode("ascii")
