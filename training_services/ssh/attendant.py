"""Client for the attendant, the program that starts and watches keepers on a machine for the server.

The client starts the attendant if necessary, and sends it requests as lines of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from training_services.base import ServiceUnavailable
from training_services.ssh.bootstrap import HELLO, NO_PYTHON, command, program
from training_services.ssh.target import Target, Unreachable

if TYPE_CHECKING:
    import asyncssh

__all__ = ["AttendantClient"]

ANSWER_S = 30.0
HELLO_S = 30.0
LAST_WORDS = 200  # characters of the machine's output in a message
NOISE = 1 << 20  # most bytes that a login shell may print before the attendant's first line
UNHEARD = 4  # missed checks after which the machine considers the connection dead


class AttendantClient:
    """Client of an attendant that runs on a machine.

    ``ended`` is called with a sentence when the attendant ends.
    """

    def __init__(
        self, process: asyncssh.SSHClientProcess[bytes], target: Target, ended: Callable[[str], None]
    ) -> None:
        self._process = process
        self._target = target
        self._on_end = ended
        self._number = 0
        self._asked: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._trouble: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.uploaded = 0  # bytes of the program that were sent because the machine did not have it

    @classmethod
    async def start(
        cls, connection: asyncssh.SSHClientConnection, target: Target, ended: Callable[[str], None]
    ) -> AttendantClient:
        """Start the attendant over an SSH connection and return its client. Raises Unreachable."""
        import asyncssh

        made = await asyncio.to_thread(program)
        text = command(made, python_path=target.python_path)
        try:
            process = await connection.create_process(
                text, encoding=None, request_pty=False, x11_forwarding=False
            )
        except asyncssh.ChannelOpenError as error:
            raise Unreachable(
                f"{target.title} refused a session ({error.reason}): check MaxSessions in its sshd_config, "
                "and the restrictions of the key"
            ) from error
        client = cls(process, target, ended)
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await client._hello()
        except TimeoutError:
            raise Unreachable(
                f"the login shell on {target.title} has not started a program within {HELLO_S:g} s: check "
                "its startup files"
            ) from None
        if hello.get("need"):
            process.stdin.write(made.packed)
            client.uploaded = len(made.packed)
        client._send({"do": "silence", "seconds": UNHEARD * target.keep_alive})
        client._tasks = [asyncio.create_task(client._read()), asyncio.create_task(client._beat())]
        return client

    async def _hello(self) -> Mapping[str, Any]:
        noise, last = 0, b""
        while noise <= NOISE:
            line = await self._process.stdout.readline()
            if not line:
                raise await self._no_hello(last)
            if line.startswith(HELLO):
                hello: Mapping[str, Any] = json.loads(line[len(HELLO) :])
                if "error" in hello:
                    raise Unreachable(f"on {self._target.title}, {hello['error']}")
                return hello
            noise += len(line)
            last = line if line.strip() else last
        raise Unreachable(f"the login shell on {self._target.title} prints endless output", lasting=True)

    async def _no_hello(self, last: bytes) -> Unreachable:
        """Return an error that says why the attendant did not start.

        ``last``: last line of standard output, where the program nologin prints its message.
        """
        title = self._target.title
        said = (last + await self._process.stderr.read()).decode(errors="replace").strip().splitlines()
        await self._process.wait_closed()
        code = self._process.exit_status
        if code is None or code < 0:
            return Unreachable(f"the attendant on {title} was killed before it started")
        if code == NO_PYTHON:
            folder = self._target.python_path
            looked = f" (looked for in {folder} and on the PATH)" if folder else ""
            return Unreachable(
                f"{title} has no Python 3.8 or newer{looked}: install it, or set its directory as pythonPath",
                lasting=True,
            )
        words = f" and prints: {said[-1][:LAST_WORDS]}" if said else ""
        return Unreachable(
            f"no program can be run on {title}: its login shell ends with code {code}{words} (check its "
            "startup files, whether sshd or the key forces a command, and whether python3 runs)",
            lasting=True,
        )

    async def ask(self, do: str, *, limit: float | None = ANSWER_S, **fields: Any) -> Mapping[str, Any]:
        """Send the request ``do`` with these fields to the attendant, and return its answer.

        Raises ServiceUnavailable if the attendant reports an error, has ended, or does not answer in time.
        """
        if self._trouble is not None:
            raise ServiceUnavailable(self._trouble)
        self._number += 1
        number = self._number
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._send({"no": number, "do": do, **fields})
        try:
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError:
            raise ServiceUnavailable(
                f"{self._target.title} has not answered a request ({do}) within {limit:g} s: one of its "
                "disks may hang"
            ) from None
        finally:
            self._asked.pop(number, None)

    @property
    def lost(self) -> bool:
        """True if the connection to the attendant has ended."""
        return self._trouble is not None

    def close(self) -> None:
        """Close the connection to the attendant, which makes the attendant exit."""
        self.fail(f"the connection to {self._target.title} was closed")
        self._process.close()

    def _send(self, request: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # ``_read`` notices that the attendant has ended
            self._process.stdin.write(json.dumps(request).encode() + b"\n")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._target.keep_alive)  # the user sets this interval in seconds
            self._send({"do": "beat"})

    async def _read(self) -> None:
        import asyncssh

        trouble = f"the attendant on {self._target.title} has ended"
        try:
            while line := await self._process.stdout.readline():
                if line.startswith(HELLO):  # the program could not be stored on the machine
                    why = json.loads(line[len(HELLO) :])["error"]
                    raise ServiceUnavailable(f"on {self._target.title}, {why}")
                if not line.strip():
                    continue
                told = json.loads(line)
                waiter = self._asked.get(told["no"])
                if waiter is None or waiter.done():
                    continue
                if "error" in told:
                    waiter.set_exception(ServiceUnavailable(f"on {self._target.title}, {told['error']}"))
                else:
                    waiter.set_result(told["answer"])
            if said := (await self._process.stderr.read()).decode(errors="replace").strip().splitlines():
                trouble += f": {said[-1]}"
        except ServiceUnavailable as error:
            trouble = str(error)
        except (asyncssh.Error, OSError) as error:
            trouble = self._target.broke(error)
        except (ValueError, KeyError) as error:
            trouble = f"the attendant on {self._target.title} sent an invalid answer: {error}"
        self.fail(trouble)
        self._on_end(trouble)

    def fail(self, trouble: str) -> None:
        """Mark the attendant as unusable: all waiting and later requests fail with this reason."""
        if self._trouble is None:
            self._trouble = trouble
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        for waiter in self._asked.values():
            if not waiter.done():
                waiter.set_exception(ServiceUnavailable(self._trouble))
