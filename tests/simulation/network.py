"""Network for the keepers' calls to the server and back: calls are lost, doubled, delayed or reordered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.kernel import Kernel
from trial_keeper import wire
from trial_keeper.core.effects import Send

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.keeper import SimKeeper

LOSS = 0.04
DOUBLING = 0.04
TIMEOUT_S = 30.0

Answered = Callable[[int, bytes], None]


class Door(Protocol):
    """Server process that accepts calls."""

    alive: bool

    def accept(self, exchange: Exchange) -> None: ...


class Exchange:
    """One copy of a request at the server, in the form that ASGI sees."""

    def __init__(self, path: str, token: str, body: bytes, answered: Answered | None) -> None:
        self.path, self.token, self._body, self._answered = path, token, body, answered
        self._begun = False
        self._gone: asyncio.Future[None] | None = None
        self._status = 0
        self.left = False

    @property
    def scope(self) -> dict[str, Any]:
        headers = [(b"authorization", f"Bearer {self.token}".encode())]
        return {"type": "http", "method": "POST", "path": self.path, "headers": headers}

    async def receive(self) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        self._gone = asyncio.get_running_loop().create_future()
        if not self.left:
            await self._gone
        return {"type": "http.disconnect"}

    def hang_up(self) -> None:
        """Close the connection from the caller's side."""
        self.left = True
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self._answered is not None:
            self._answered(self._status, message["body"])


class Network:
    """Network between all hosts and the only server."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.server: Door | None = None
        self.greeted: Callable[[], None] = _nobody  # called when a keeper lists all its attempts
        self._calls = 0
        self.held: dict[_Call, None] = {}  # calls that the server holds
        self._lose_from, self._double_from = kernel.random.randint(1, 2), 1  # some lives have few calls

    def call(self, host: Host, keeper: SimKeeper, order: Send) -> None:
        """Make a call; its result reaches the keeper if that is still alive."""
        self._calls += 1
        _Call(self._kernel, self, host, keeper, order, self._calls).make()

    def loses(self) -> bool:
        """Return True if the current call is lost: at random, but at least once."""
        first = self._calls >= self._lose_from and not self._kernel.counts["lost message"]
        return self._kernel.likely(LOSS) or first

    def doubles(self) -> bool:
        """Return True if the current call is doubled: at random, but at least once."""
        first = self._calls >= self._double_from and not self._kernel.counts["doubled message"]
        return self._kernel.likely(DOUBLING) or first

    def server_died(self) -> None:
        """Reset the dead server's connections, sooner or later; answers on their way still arrive."""
        held, self.held = self.held, {}
        for call in held:
            call.fail_after(self._kernel.random.choice([0.001, 0.001, 0.5, 5.0]), "connection reset")

    def delay(self) -> float:
        """Return a delay: mostly a millisecond, sometimes so long that other messages overtake."""
        if not self._kernel.faults or self._kernel.random.random() < 0.85:
            return 0.001
        return self._kernel.random.choice([0.01, 0.1, 0.1, 0.5, 2.0, 9.0])


class _Call:
    """One call as the keeper sees it."""

    def __init__(
        self, kernel: Kernel, network: Network, host: Host, keeper: SimKeeper, order: Send, number: int
    ) -> None:
        self.kernel, self.network, self.host, self.keeper, self.order = kernel, network, host, keeper, order
        self.open = True
        self.name = f"call {number} ({order.channel.value})"
        self.exchange: Exchange | None = None

    def make(self) -> None:
        kernel, manager = self.kernel, self.host.manager
        header = self.order.header
        kernel.say(
            self.host.name, "%s goes: acked %d, seen %d, %s",
            self.name, header["acked_cmd"], header["seen_cmd"], _reported(header),
        )  # fmt: skip
        if manager is None:
            self.fail_after(0.001, "manager.json is missing")
            return
        body = wire.encode_request(header, self.order.payloads)
        path, token = manager["path"], manager["token"]
        kernel.at(TIMEOUT_S, self.fail, "timed out")
        if self.network.doubles():
            kernel.fault("doubled message", self.host.name, "%s", self.name)
            kernel.at(self.network.delay() * 3, self.arrive, Exchange(path, token, body, None))
        if self.network.loses():
            kernel.fault("lost message", self.host.name, "%s", self.name)
            self.fail_after(kernel.random.choice([0.001, 1.0, 5.0]), "connection reset")
            return
        self.exchange = Exchange(path, token, body, self.answered)
        kernel.at(self.network.delay(), self.arrive, self.exchange)

    def arrive(self, exchange: Exchange) -> None:
        server = self.network.server
        original = exchange is self.exchange
        if self.host.cut or not self.host.up:
            if original:
                self.fail_after(5.0, "no route to host")
        elif server is None or not server.alive:
            if original:
                self.fail_after(0.001, "connection refused")
        else:
            if original:
                self.network.held[self] = None
                if self.order.header["all"]:
                    self.network.greeted()
            server.accept(exchange)

    def answered(self, status: int, body: bytes) -> None:
        kernel = self.kernel
        self.network.held.pop(self, None)
        if self.host.cut or kernel.likely(LOSS):
            kernel.fault("lost message", self.host.name, "the answer to %s", self.name)
            self.fail_after(kernel.random.choice([0.001, 1.0, 5.0]), "connection reset")
            return
        kernel.at(self.network.delay(), self.bring, status, body)

    def bring(self, status: int, body: bytes) -> None:
        """Deliver the answer if its caller still waits for it, even if the server has died."""
        if not self.open:
            return
        self.open = False
        if status == 200:
            answer = wire.decode_answer(body)
            self.kernel.say(self.host.name, "%s is answered: %s", self.name, _answer(answer))
            self.keeper.tell(self.keeper.core.answered, self.order.channel, answer)
            return
        reason = json.loads(body).get("reason") if status == 409 else None
        sentence = f"the server answers {status}"
        self.kernel.say(self.host.name, "%s: %s %s", self.name, sentence, reason)
        self.keeper.tell(self.keeper.core.failed, self.order.channel, sentence, reason)

    def fail_after(self, delay: float, why: str) -> None:
        self.kernel.at(delay, self.fail, why)

    def fail(self, why: str) -> None:
        if not self.open:
            return
        self.open = False
        self.network.held.pop(self, None)
        if self.keeper.alive:
            self.kernel.say(self.host.name, "%s fails: %s", self.name, why)
        if self.exchange is not None:
            self.kernel.at(0.001, self.exchange.hang_up)
        self.keeper.tell(self.keeper.core.failed, self.order.channel, why)


def _nobody() -> None:
    """Do nothing: the default for ``greeted``."""


def _reported(header: wire.ReportHeader) -> str:
    return ", ".join(
        f"{job} {entry['from']}+{len(entry['events'])}"
        + (f" final {entry['final']['n']} {entry['final']['reason']}" if entry["final"] else "")
        for job, entry in header["attempts"].items()
    )


def _answer(answer: wire.Answer) -> str:
    commands = [(seq, kind, job) for seq, kind, job, _ in answer["cmds"]]
    names = ("acks", "rewind", "done", "kill", "leave")
    words = {name: value for name, value in answer.items() if name in names and value}
    return f"epoch {answer['m_epoch']} {commands} {words}"
