"""Hub that takes the keepers' calls. It decides who may call, and when each call is answered.

The protocol is in the module ``link``. A ``KeeperDesk`` serves one keeper of one experiment. It passes the
keeper's requests to the link, and the resulting events to the training service. It holds a call until there
is something to answer. The hub is the server's table of desks. Nothing is stored on disk.
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
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from training_services.base import FileListing, ServiceError, ServiceUnavailable
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.caller import Key, Refused
from training_services.keepers.jobs import Backlog
from training_services.keepers.link import KeeperLink, Received
from training_services.keepers.reads import ReadStream, read_listing
from training_services.keepers.request import Request, WireError, read_request
from trial_keeper import wire
from trial_keeper.wire import WAIT_S

__all__ = ["Answer", "Call", "KeeperDesk", "KeeperHub", "split_turn", "token_digest", "with_turn"]

logger = logging.getLogger(__name__)

MAX_BACKLOG = 20_000  # number of uncommitted metrics above which calls with reports must wait
MAX_READS = 16  # simultaneous reads through one keeper
MAX_LISTING = 16 << 20  # bytes
# longest time that a call is held while the keeper must exit or stop lost attempts; it is short so that the
# keeper's report comes soon
ENDING_S = 0.5
LONG_WAIT_S = 5.0  # a shorter wait of a call is not rounded to a full second


def token_digest(token: str) -> str:
    """Return the SHA-256 (hex) of a keeper's token. Only this hash is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def with_turn(token: str, turn: str) -> str:
    """Return the token for ``manager.json``: the secret token, a dot, and ``turn``.

    ``turn`` is a text of its own for each write of this file. It shows whether a keeper has read the newest
    version.
    """
    return f"{token}.{turn}"


def split_turn(written: str) -> tuple[str, str]:
    """Split a token from ``manager.json`` into the secret token and the text that names the file's write."""
    token, _, turn = written.partition(".")
    return token, turn


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP answer to a keeper: its status and its JSON body."""

    status: HTTPStatus
    body: dict[str, Any]


def _refusal(status: HTTPStatus, sentence: str, **more: str) -> Answer:
    return Answer(status, {"error": sentence, **more})


_CLOSED = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The experiment is not open on this server now.")
_BARRED = _refusal(
    HTTPStatus.CONFLICT,
    "This keeper is no longer needed: its experiment has ended, or its machine was removed.",
    reason="instance",
)
_UNKNOWN = _refusal(
    HTTPStatus.UNAUTHORIZED,
    "This server has no keeper with this token now: the token is wrong, or the experiment is not open.",
)
_NO_DIGEST = "0" * 64  # compared if the keeper is unknown; not the hash of any token
_UNCOMMITTED = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The content of this call is not recorded yet.")


def _whole(at: float, wait_s: float) -> float:
    """Return the time at which to answer a call that may wait until ``at``, on the event loop's clock.

    Long waits end at a full second. So an idle server with many experiments wakes up only once for all calls
    whose waits end within the same second.
    """
    return at if wait_s < LONG_WAIT_S else math.floor(at)


@dataclass(slots=True, eq=False)
class Call:
    """Call of a keeper that is not answered yet. ``needs``: facts to commit before it is answered."""

    request: Request
    needs: set[Key]
    answer: asyncio.Future[Answer]
    timer: asyncio.TimerHandle | None = None
    due: bool = False  # True: answer the call even if there is nothing to report


@dataclass(slots=True, eq=False, kw_only=True)
class KeeperDesk:
    """Server's side of the calls of one keeper: takes, holds and answers them.

    ``deliver`` receives the desk and the result of each request. A waiting call is held for at most
    ``wait_s`` seconds, so that a keeper with nothing to report still calls often enough. ``archive`` returns
    the path of the archive of trial code with a given hash; the file may not exist. ``copies``: the server's
    copies of checkpoints. ``provide`` is called with the name of a copy before the keeper gets it. It returns
    a sentence if the keeper has to ask again later. ``enrol``: see ``KeeperHost.enrol``.
    """

    link: KeeperLink
    backlog: Backlog
    token_sha256: str | None
    deliver: Callable[[KeeperDesk, Received], None]
    archive: Callable[[str], Path]
    copies: CheckpointStore
    provide: Callable[[str, int], Awaitable[str | None]] | None = None
    enrol: Callable[[str, str], Awaitable[Mapping[str, Any] | None]] | None = None
    wait_s: float = WAIT_S
    answered_at: float = 0.0  # time of the last answer, which restarts a lease; by the loop's clock
    open: bool = False  # True after all earlier jobs were submitted again: only then can reports be evaluated
    turn: str = ""  # text that names the last write of the keeper's manager.json
    _told: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # Event that is set after an answer has asked the keeper to exit.
    _calls: list[Call] = field(default_factory=list)
    _reads: dict[int, ReadStream] = field(default_factory=dict)

    def receive(self, body: bytes, *, token: str = "") -> Answer | Call:
        """Take one call of the keeper. Return its answer, or the held call if it must wait.

        If the caller disconnects, pass the held call to ``release``. ``token`` is the caller's token with the
        number of the write of its ``manager.json``.
        """
        if not self.open:
            return _CLOSED
        try:
            request = read_request(body)
            status = self.link.status
            received = self.link.receive(request, newest=split_turn(token)[1] == self.turn)
        except WireError as error:
            logger.warning("keeper %s sent an invalid sync: %s", self.link.keeper_id, error)
            return _refusal(HTTPStatus.BAD_REQUEST, f"This is not a valid sync: {error}.")
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
        ending = self.link.leaving or self.link.inventory.unwanted
        limit = WAIT_S if request.news else ENDING_S if ending else self.wait_s
        call.timer = loop.call_at(_whole(loop.time() + limit, limit), self._give_up, call)
        return call

    def settle(self, key: Key) -> None:
        """Record that the fact with this key is committed. Calls no longer wait for its commit."""
        for call in self._calls:
            call.needs.discard(key)

    def flush(self) -> None:
        """Answer every held call that can be answered now.

        Calls that report something are answered first, so that commands are not sent in two answers.
        """
        for call in sorted(self._calls, key=lambda call: not call.request.news):
            if self._is_answerable(call):
                self._finish(call, self._answer(call))

    async def dismiss(self, limit_s: float) -> None:
        """Order the keeper to stop its trials and exit.

        Wait until the order was sent in an answer, for at most ``limit_s`` seconds.
        """
        self.link.leaving = True
        self.flush()
        if limit_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._told.wait()

    @property
    def dismissed(self) -> bool:
        """True if an answer has ordered the keeper to exit."""
        return self._told.is_set()

    def close(self) -> None:
        """Answer all held calls, refuse later calls, and end the transfers of files."""
        self.open = False
        for stream in self._reads.values():
            stream.finish(ServiceUnavailable("the experiment was closed while the file was read"))
        for call in list(self._calls):
            self._finish(call, _CLOSED)

    def release(self, call: Call) -> None:
        """Drop a held call, because its caller has closed the connection."""
        if call in self._calls:
            self._drop(call)
            call.answer.cancel()

    async def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Read a job's file through the keeper. See ``KeeperFiles.read``."""
        async with aclosing(self._read(wire.FILE, parts, path, follow=follow, tail=tail)) as stream:
            async for chunk in stream:
                yield chunk

    async def listing(self, parts: Sequence[str]) -> FileListing:
        """List a job's files through the keeper. See ``KeeperFiles.listing``."""
        text = b""
        stream = ReadStream(self.link.keeper_id)
        async with aclosing(self._read(wire.LISTING, parts, "", stream=stream)) as chunks:
            async for chunk in chunks:
                text += chunk
                if len(text) > MAX_LISTING:
                    raise ServiceUnavailable("the list of the files is too long")
        return read_listing(text, complete=stream.end["complete"])

    async def checkpoint(
        self, parts: Sequence[str], stream: ReadStream, *, offset: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield a checkpoint's list of files, and its content from ``offset`` on (see ``trial_keeper.wire``).

        ``parts``: path to the checkpoint's folder. The hashes are in ``stream.end`` afterwards. Raises
        FileNotFoundError, ServiceUnavailable, and ValueError if the checkpoint cannot be transferred.
        """
        async with aclosing(self._read(wire.CHECKPOINT, parts, "", stream=stream, offset=offset)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _read(
        self,
        kind: str,
        parts: Sequence[str],
        path: str,
        *,
        offset: int = 0,
        follow: bool = False,
        tail: int | None = None,
        stream: ReadStream | None = None,
    ) -> AsyncGenerator[bytes, None]:
        if not self.open:
            raise ServiceUnavailable("the experiment is not open on this server now")
        if len(self._reads) >= MAX_READS:
            raise ServiceUnavailable(
                f"{len(self._reads)} files of the machine of keeper {self.link.keeper_id} "
                "are being read already: try again later"
            )
        found = ReadStream(self.link.keeper_id) if stream is None else stream
        number = secrets.randbits(48)
        self._reads[number] = found
        self.link.order_read(number, kind, "/".join(parts), path, offset=offset, follow=follow, tail=tail)
        self.flush()
        try:
            async for chunk in found.chunks():
                yield chunk
        finally:
            found.close()
            self.link.drop_read(number)
            del self._reads[number]

    def take_read(self, number: int) -> ReadStream | None:
        """Return the stream that passes a requested file from the keeper's call to the waiting reader.

        Return None if no reader waits for the file, or if the keeper has called for this read before.
        """
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
        """Answer all waiting calls that the keeper sent before this request.

        Return True if a call that it sent after this request is already waiting.
        """
        number = request.k_epoch, request.sync_no
        overtaken = False
        for call in [call for call in self._calls if not call.request.news]:
            if (call.request.k_epoch, call.request.sync_no) < number:
                self._give_up(call)
            else:
                overtaken = True
        return overtaken

    def _give_up(self, call: Call) -> None:
        """Answer a call that has waited long enough. If a fact it needs is not committed, send an error."""
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
    """Table of the desks that answer the server's keepers: (experiment, keeper) -> desk."""

    def __init__(self) -> None:
        self._desks: dict[tuple[str, str], KeeperDesk] = {}
        # keepers that have no more work here -> hashes of their tokens
        self._barred: dict[tuple[str, str], str] = {}

    def bar(self, experiment_id: str, keeper_id: str, *, token_sha256: str) -> None:
        """Refuse a keeper that has no more work: the experiment has ended, or its machine was removed.

        The refusal makes it stop its trials and exit.
        """
        self._barred[experiment_id, keeper_id] = token_sha256

    def add(self, experiment_id: str, desk: KeeperDesk) -> None:
        """Serve the keeper of this desk. An earlier desk of the same keeper is closed and replaced."""
        key = experiment_id, desk.link.keeper_id
        if (old := self._desks.get(key)) is not None:
            old.close()
        self._barred.pop(key, None)
        self._desks[key] = desk

    def remove(self, experiment_id: str, desk: KeeperDesk, *, barred: bool = False) -> None:
        """Stop serving the desk's keeper. Held calls are answered; later calls get status 401.

        ``barred``: refuse the keeper's later calls, see ``bar``. It may have been started only just now.
        """
        desk.close()
        key = experiment_id, desk.link.keeper_id
        if self._desks.get(key) is desk:
            del self._desks[key]
            if barred and desk.token_sha256 is not None:
                self.bar(*key, token_sha256=desk.token_sha256)

    async def enrol(self, experiment_id: str, keeper_id: str, *, ticket: str, launch: str) -> Answer:
        """Return the answer to a program that shows a ticket to get the keeper's token."""
        desk = self._desks.get((experiment_id, keeper_id))
        if desk is None or desk.enrol is None:
            return _UNKNOWN
        try:
            found = await desk.enrol(ticket, launch)
        except Refused as refused:
            logger.warning("keeper %s was refused: %s", keeper_id, refused)
            return _refusal(HTTPStatus.CONFLICT, str(refused), reason=refused.reason)
        except (OSError, ServiceError) as error:
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"The keeper cannot be enrolled now: {error}.")
        return _UNKNOWN if found is None else Answer(HTTPStatus.OK, dict(found))

    def find(self, experiment_id: str, keeper_id: str, *, token: str) -> KeeperDesk | Answer:
        """Return the desk of the keeper if the token is correct, or else an answer that refuses the call.

        A caller without the keeper's token cannot find out whether the experiment exists: the refusal is the
        same.
        """
        desk = self._desks.get((experiment_id, keeper_id))
        barred = self._barred.get((experiment_id, keeper_id))
        known = barred if desk is None else desk.token_sha256
        if not hmac.compare_digest(token_digest(split_turn(token)[0]), known or _NO_DIGEST):
            return _UNKNOWN
        return _BARRED if desk is None else desk

    def close(self) -> None:
        """Close all desks and answer all held calls, because the server stops."""
        for desk in self._desks.values():
            desk.close()
        self._desks.clear()


def encode_answer(answer: Answer) -> bytes:
    return json.dumps(answer.body, separators=(",", ":")).encode("ascii")
