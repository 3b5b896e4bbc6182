"""The leader's side of the line between the crews of a gang: it lets the members in, and nobody else.

Everybody who reaches the port can connect. A stranger can neither join nor keep the members out: no
connection is waited for longer than ``GREET_S``, all are served at once, and beyond ``MOST_GUESTS`` the
oldest is closed.
"""

from __future__ import annotations

import select
import socket
import time

from trial_keeper import gang_proof
from trial_keeper.gang_proof import Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GREET_S = 5.0  # longest time between the connection and the proof
MOST_GUESTS = 512  # connections without a proof


class Guest:
    """Connection to the leader. ``talk``: None before its first message. ``processes``: set by its proof."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.until = time.monotonic() + GREET_S
        self.line = b""
        self.talk: Talk | None = None
        self.processes = 0

    def read(self) -> bool:
        """Read what has arrived. Return False if the connection has ended, or sends too much."""
        try:
            piece = self.peer.recv(gang_proof.LONGEST)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.line += piece
        return bool(piece) and len(self.line) <= gang_proof.LONGEST

    def send(self, line: bytes) -> bool:
        """Send a short message. Return False if the other side has gone, or does not read."""
        try:
            return self.peer.send(line) == len(line)
        except OSError:
            return False


class Door:
    """The leader's port, and who has connected there. ``key``: the common secret of the members."""

    def __init__(self, listener: socket.socket, job: str, size: int, key: str) -> None:
        self._listener, self._job, self._size, self._key = listener, job, size, key
        self._port: int = listener.getsockname()[1]
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._guests: dict[int, Guest] = {}  # by descriptor, those that came first before all others
        listener.setblocking(False)

    def members(self) -> dict[int, Guest]:
        """Wait until all other members have joined, and return them by their numbers."""
        joined: dict[int, Guest] = {}
        while len(joined) < self._size - 1:
            for fd, _ in self._poll.poll(self._wait()):
                guest = self._guests.get(fd)
                if guest is None:
                    self._let_in()
                elif not guest.read():
                    self._leave(fd).peer.close()
                elif b"\n" in guest.line:
                    line, _, guest.line = guest.line.partition(b"\n")
                    self._take(fd, guest, gang_proof.decode(line), joined)
            self._close_late()
        for fd in list(self._guests):
            self._leave(fd).peer.close()
        return joined

    def tell(self, guest: Guest, counts: list[int], port: int) -> None:
        """Tell a member what all have to know, and close its connection.

        If the member has gone, the server learns it from its keeper, and ends the leader, too.
        """
        assert guest.talk is not None
        proof = guest.talk.proof(self._key, gang_proof.MET, counts, port)
        guest.send(gang_proof.encode(counts=counts, port=port, proof=proof))
        guest.peer.close()

    def _wait(self) -> int | None:
        """Return the number of milliseconds until a connection has to be closed; None: there is none."""
        first = next(iter(self._guests.values()), None)
        return None if first is None else max(0, int(1000 * (first.until - time.monotonic())) + 1)

    def _let_in(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it has gone meanwhile
            return
        peer.setblocking(False)
        if len(self._guests) == MOST_GUESTS:
            self._leave(next(iter(self._guests))).peer.close()
        self._guests[peer.fileno()] = Guest(peer)
        self._poll.register(peer, select.POLLIN)

    def _leave(self, fd: int) -> Guest:
        """Stop to wait for messages of this connection."""
        self._poll.unregister(fd)
        return self._guests.pop(fd)

    def _close_late(self) -> None:
        now = time.monotonic()
        for fd in [fd for fd, guest in self._guests.items() if guest.until <= now]:
            self._leave(fd).peer.close()

    def _take(self, fd: int, guest: Guest, message: dict[str, Any] | None, joined: dict[int, Guest]) -> None:
        """Answer a message. Close the connection if it is not one of a member."""
        if message is not None and guest.talk is None and self._answer(guest, message):
            return
        self._leave(fd)
        if message is None or guest.talk is None or not self._joins(guest, guest.talk, message):
            guest.peer.close()
            return
        before = joined.get(guest.talk.member)
        if before is not None:  # the member has given up that connection
            before.peer.close()
        joined[guest.talk.member] = guest

    def _answer(self, guest: Guest, message: dict[str, Any]) -> bool:
        """Answer the first message, and prove that this is the leader. Return False if it is not valid."""
        member, theirs = message.get("member"), message.get("number")
        if message.get("job") != self._job or not gang_proof.is_text(theirs):
            return False
        if type(member) is not int or not 0 < member < self._size:
            return False
        ours = gang_proof.random_number()
        talk = Talk(self._job, self._port, member, str(theirs), ours)
        if not guest.send(gang_proof.encode(number=ours, proof=talk.proof(self._key, gang_proof.ANSWER))):
            return False
        guest.talk = talk
        return True

    def _joins(self, guest: Guest, talk: Talk, message: dict[str, Any]) -> bool:
        """Return whether the message proves that this is the member, and not the first one again."""
        processes = message.get("processes")
        if type(processes) is not int or not talk.proves(message, self._key, gang_proof.JOIN, processes):
            return False
        guest.processes = processes
        return True
