"""The line between the crews of a gang: members join their leader before any of them runs the command.

The leader listens on the first free port of a short list that follows from the job's id, so every member
knows the list. A member joins when the server has told it that all members are there. So the leader is there,
too, and a member that cannot reach it within ``REACH_S`` never will. When all have joined, the leader tells
each the number of processes of all members, and the port for the processes' own meeting.

Both sides prove that they know the key of the attempt (``gang_proof``). So a stranger cannot join in place of
a member (``gang_door``), and a member passes over a port where a stranger answers.
"""

from __future__ import annotations

import os
import socket
import time
import zlib

from trial_keeper import gang_proof
from trial_keeper.gang_proof import Talk
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

FIRST_PORT, PORTS = 20000, 10000  # below the ports that Linux gives to outgoing connections
TRIED = 16  # ports on which a leader may listen
REACH_S = 4.5  # so that the sentence about it is there within 5 s
ANSWER_S = 1.0  # longest wait for the answer of one port
LOOK_S = 0.05
LAST_LOOK_S = 0.25
GO = "parameter_1.cfg"  # in the member's folder, from the server: all members are there
_SIOCGIFADDR = 0x8915


class LineError(Exception):
    """Error: the members cannot meet. The message is a sentence for users."""


class Unreached(LineError):
    """Error: this member cannot reach its leader."""


class Met(NamedTuple):
    """What each member knows when all have met. ``counts``: number of processes of each member.

    ``port``: where rank 0 listens for the other processes. ``address``: own address that others reach.
    """

    counts: list[int]
    port: int
    address: str


def ports(job: str) -> list[int]:
    """Return the ports on which the leader of this job may listen, in order."""
    first = FIRST_PORT + zlib.crc32(job.encode()) % (PORTS - TRIED)
    return list(range(first, first + TRIED))


def lead(job: str, hosts: list[str], count: int, key: str) -> Met:
    """Wait until all members have joined, and tell them what they need."""
    from trial_keeper.gang_door import Door  # only the leader needs it

    with _listen(job, hosts[0]) as listener:
        door = Door(listener, job, len(hosts), key)
        joined = door.members()
        counts = [count, *(joined[member].processes for member in sorted(joined))]
        met = Met(counts, free_port(hosts[0]), joined[1].peer.getsockname()[0])
        for guest in joined.values():
            door.tell(guest, met.counts, met.port)
        return met


def join(job: str, member: int, hosts: list[str], count: int, key: str) -> Met:
    """Join the leader, and wait until all members have joined. Raise LineError if that is not possible."""
    peer, talk = _reach(job, member, hosts, key)
    with peer:
        proof = talk.proof(key, gang_proof.JOIN, count)
        told = None
        if _send(peer, processes=count, proof=proof):
            told = _receive(peer, None)
        while told is None:  # the leader has ended. Its keeper says why, and the server stops this member
            time.sleep(60)
        counts, port = told.get("counts"), told.get("port")
        if not talk.proves(told, key, gang_proof.MET, counts, port):
            raise LineError(
                f"what came from the leader at {hosts[0]}, port {talk.port}, was changed on the way"
            )
        return Met(told["counts"], told["port"], peer.getsockname()[0])


def await_go(directory: str) -> None:
    """Wait until the server has told that all members are there."""
    pause = LOOK_S
    while not os.path.exists(f"{directory}/{GO}"):
        time.sleep(pause)
        pause = min(LAST_LOOK_S, 1.2 * pause)


def free_port(address: str) -> int:
    """Return a port on which nobody listens at this address of the machine. Raise LineError."""
    with listen_anywhere(address) as found:
        return int(found.getsockname()[1])


def listen_anywhere(address: str) -> socket.socket:
    """Return a socket that listens on a free port of the range. Raise LineError.

    Attempts of one machine begin to look at different ports.
    """
    begin = int.from_bytes(os.urandom(4), "big")
    for offset in range(PORTS):
        found = _try_server(address, FIRST_PORT + (begin + offset) % PORTS)
        if found is not None:
            return found
    raise LineError(f"all ports from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are in use")


def interface_of(address: str) -> str | None:
    """Return the network interface that has this IPv4 address; None: none, or only the loopback has it."""
    import fcntl
    import struct

    if address.startswith("127."):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode()[:15])
                found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(found[20:24]) == address.rpartition(":")[2]:
                return name
    return None


def _listen(job: str, address: str) -> socket.socket:
    tried = ports(job)
    found = next(filter(None, (_try_server(address, port) for port in tried)), None)
    if found is None:
        raise LineError(f"all ports from {tried[0]} to {tried[-1]} are in use, so the members cannot meet")
    return found


def _try_server(address: str, port: int) -> socket.socket | None:
    """Return a socket that listens on the port; None if the port is in use."""
    try:
        return _server(address, port)
    except OSError:
        return None


def _server(address: str, port: int) -> socket.socket:
    """Return a socket that listens on the port: on all addresses, unless all members are on this machine."""
    if address.startswith("127."):
        return socket.create_server((address, port), backlog=64)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=64, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=64)


def _reach(job: str, member: int, hosts: list[str], key: str) -> tuple[socket.socket, Talk]:
    """Return a connection to the leader, which has proved that it is the leader."""
    address, until = hosts[0], time.monotonic() + REACH_S
    why = "nothing of the trial listens there"
    while True:
        for port in ports(job):
            try:
                peer = socket.create_connection((address, port), timeout=ANSWER_S)
            except OSError as error:
                why = why if isinstance(error, ConnectionRefusedError) else (error.strerror or str(error))
                if time.monotonic() >= until:
                    break
                continue
            talk = _greet(peer, job, member, port, key)
            if talk is not None:
                return peer, talk
            peer.close()
            why = "what listens there does not prove to be the leader"
        if time.monotonic() >= until:
            first, last = ports(job)[0], ports(job)[-1]
            raise Unreached(
                f"{hosts[member]} cannot reach the leader at {address}, ports {first} to {last} ({why}): "
                + _advice(os.environ.get("NNIMGR_PLATFORM"))
            )
        time.sleep(LOOK_S)


def _advice(platform: str | None) -> str:
    """Return what users can do so that members reach the leader."""
    needed = f"ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1}"
    if platform == "kubernetes":
        return f"allow connections between the trial's pods to {needed}, in a NetworkPolicy"
    return f"set gangAddress of that machine, or open its {needed}"


def _greet(peer: socket.socket, job: str, member: int, port: int, key: str) -> Talk | None:
    """Say which member this is. Return None unless the leader answers, with its proof."""
    theirs = gang_proof.random_number()
    answer = None
    if _send(peer, job=job, member=member, number=theirs):
        answer = _receive(peer, ANSWER_S)
    if answer is None or not gang_proof.is_text(answer.get("number")):
        return None
    talk = Talk(job, port, member, theirs, answer["number"])
    return talk if talk.proves(answer, key, gang_proof.ANSWER) else None


def _send(peer: socket.socket, **message: object) -> bool:
    """Send a message; return False if the other end has gone."""
    try:
        peer.sendall(gang_proof.encode(**message))
    except OSError:
        return False
    return True


def _receive(peer: socket.socket, within: float | None) -> dict[str, Any] | None:
    """Return the next message; None if there is none, no valid one, or none in this number of seconds."""
    until = None if within is None else time.monotonic() + within
    line = b""
    try:
        while not line.endswith(b"\n"):
            peer.settimeout(None if until is None else max(0.001, until - time.monotonic()))
            piece = peer.recv(1)  # no more than this message
            if not piece or len(line) > gang_proof.LONGEST or (until and time.monotonic() > until):
                return None
            line += piece
    except OSError:
        return None
    return gang_proof.decode(line)
