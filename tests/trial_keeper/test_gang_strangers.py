"""Strangers at the ports where the members of a gang meet: they join nothing and keep nobody out."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.trial_keeper.harness import wait_for
from trial_keeper import gang_door, gang_line, gang_proof
from trial_keeper.gang_line import LineError, Met
from trial_keeper.gang_proof import ANSWER, JOIN, MET, Talk

BESIDE = "127.0.0.1"
KEY, OTHER = "1f" * 32, "2e" * 32
NUMBERS = itertools.count(1)
LIMIT_S = 30.0


@pytest.fixture
def job() -> str:
    """Return a job whose ports no other test of this process uses."""
    return f"e-strangers{next(NUMBERS)}-1"


class Meeting:
    """Members that meet, each in a thread of its own. ``met``: what they have got; ``errors``: or why not."""

    def __init__(self, job: str, size: int = 2) -> None:
        self.job, self.hosts = job, [BESIDE] * size
        self.met: dict[int, Met] = {}
        self.errors: dict[int, str] = {}
        self._threads: list[threading.Thread] = []

    def lead(self) -> int:
        """Start the leader, and return its port."""
        before = set(_open_ports(self.job))
        self._start(0, lambda: gang_line.lead(self.job, self.hosts, 1, KEY))
        found: set[int] = wait_for(lambda: set(_open_ports(self.job)) - before, "the leader's port")
        return min(found)

    def join(self, member: int = 1, key: str = KEY) -> None:
        self._start(member, lambda: gang_line.join(self.job, member, self.hosts, 1 + member, key))

    def _start(self, member: int, meet: Callable[[], Met]) -> None:
        def run() -> None:
            try:
                self.met[member] = meet()
            except LineError as error:
                self.errors[member] = str(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)

    def whole(self) -> None:
        """Wait until all have met, and know the same."""
        for thread in self._threads:
            thread.join(LIMIT_S)
        size = len(self.hosts)
        assert not self.errors and len(self.met) == size
        assert {tuple(each.counts) for each in self.met.values()} == {tuple(range(1, size + 1))}
        assert len({each.port for each in self.met.values()}) == 1


def _open_ports(job: str) -> Iterator[int]:
    """Yield the ports of the job on which somebody listens. This connects to none of them."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file]
    listening = {int(line[1].rpartition(":")[2], 16) for line in lines[1:] if line[3] == "0A"}
    yield from (port for port in gang_line.ports(job) if port in listening)


def ask(port: int, **message: object) -> tuple[socket.socket, dict[str, Any]]:
    """Connect and send one message; return the connection and the answer ({} if it was closed)."""
    peer = socket.create_connection((BESIDE, port), timeout=LIMIT_S)
    return peer, tell(peer, **message)


def tell(peer: socket.socket, **message: object) -> dict[str, Any]:
    peer.sendall(gang_proof.encode(**message))
    return gang_line._receive(peer, LIMIT_S) or {}


@contextlib.contextmanager
def impostor(port: int, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Listen on a port, and serve each connection."""
    with socket.create_server((BESIDE, port)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, contextlib.suppress(OSError):
                        serve(peer)

        threading.Thread(target=accept, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def test_all_members_meet(job: str) -> None:
    meeting = Meeting(job, 4)
    meeting.lead()
    for member in (3, 1, 2):
        meeting.join(member)
    meeting.whole()


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"job": "e-b-1", "member": 1, "number": "5"},
        {"job": None, "member": 0, "number": "5"},
        {"job": None, "member": 2, "number": "5"},
        {"job": None, "member": True, "number": "5"},
        {"job": None, "member": 1},
        {"job": None, "member": 1, "number": 5},
        {"job": None, "member": 1, "number": "5" * 65},
    ],
)
def test_a_stranger_is_closed_and_the_member_joins(job: str, message: dict[str, Any]) -> None:
    """None as the job stands for the leader's own."""
    meeting = Meeting(job)
    port = meeting.lead()
    sent = {**message, **({"job": job} if message.get("job", "") is None else {})}
    peer, answer = ask(port, **sent)
    with peer:
        assert answer == {}
    meeting.join()
    meeting.whole()


def test_bytes_that_are_no_message_are_closed(job: str) -> None:
    meeting = Meeting(job)
    port = meeting.lead()
    for noise in (b"\xff\xfe\n", b"[1]\n", b"[" * 5000 + b"\n", b"x" * 20_000):
        with socket.create_connection((BESIDE, port), timeout=LIMIT_S) as peer:
            with contextlib.suppress(ConnectionError):
                peer.sendall(noise)
                assert peer.recv(1) == b""
    meeting.join()
    meeting.whole()


def test_a_stranger_without_the_key_cannot_join(job: str) -> None:
    meeting = Meeting(job)
    port = meeting.lead()
    peer, answer = ask(port, job=job, member=1, number="5")
    with peer:
        talk = Talk(job, port, 1, "5", answer["number"])
        assert talk.proves(answer, KEY, ANSWER)
        assert tell(peer, processes=7, proof=talk.proof(OTHER, JOIN, 7)) == {}
    meeting.join()
    meeting.whole()


@pytest.mark.parametrize("proof", [None, 5, "", "\udc80", "ü"])
def test_a_proof_of_another_kind_is_closed(job: str, proof: object) -> None:
    meeting = Meeting(job)
    port = meeting.lead()
    peer, _ = ask(port, job=job, member=1, number="5")
    with peer:
        assert tell(peer, processes=7, proof=proof) == {}
    meeting.join()
    meeting.whole()


def test_what_a_member_has_sent_counts_only_once(job: str) -> None:
    """A stranger sends again both messages with which a member has joined an attempt's leader before."""
    meeting = Meeting(job)
    port = meeting.lead()
    peer, answer = ask(port, job=job, member=1, number="5")
    recorded = Talk(job, port, 1, "5", answer["number"]).proof(KEY, JOIN, 7)
    peer.close()
    again, fresh = ask(port, job=job, member=1, number="5")
    with again:
        assert fresh["number"] != answer["number"]
        assert tell(again, processes=7, proof=recorded) == {}
    meeting.join()
    meeting.whole()


def test_the_proof_holds_for_the_number_of_processes(job: str) -> None:
    meeting = Meeting(job)
    port = meeting.lead()
    peer, answer = ask(port, job=job, member=1, number="5")
    with peer:
        proof = Talk(job, port, 1, "5", answer["number"]).proof(KEY, JOIN, 2)
        assert tell(peer, processes=3, proof=proof) == {}
    meeting.join()
    meeting.whole()


def test_silent_strangers_keep_nobody_out(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_door, "MOST_GUESTS", 8)
    monkeypatch.setattr(gang_door, "GREET_S", 3600.0)
    meeting = Meeting(job)
    port = meeting.lead()
    silent = [socket.create_connection((BESIDE, port), timeout=LIMIT_S) for _ in range(12)]
    for oldest in silent[:4]:
        assert oldest.recv(1) == b""
    meeting.join()
    meeting.whole()
    for peer in silent:
        peer.close()


def test_a_stranger_that_stays_silent_is_closed(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_door, "GREET_S", 0.05)
    meeting = Meeting(job)
    with socket.create_connection((BESIDE, meeting.lead()), timeout=LIMIT_S) as peer:
        assert peer.recv(1) == b""
    monkeypatch.undo()
    meeting.join()
    meeting.whole()


def _nothing(peer: socket.socket) -> None:
    peer.recv(1 << 14)


def _half(peer: socket.socket) -> None:
    peer.recv(1 << 14)
    peer.sendall(b'{"number": ')


def _without_the_key(peer: socket.socket) -> None:
    hello = gang_line._receive(peer, LIMIT_S) or {}
    talk = Talk(hello["job"], peer.getsockname()[1], hello["member"], hello["number"], "6")
    peer.sendall(gang_proof.encode(number="6", proof=talk.proof(OTHER, ANSWER)))
    assert gang_line._receive(peer, LIMIT_S) is None, "the member has answered a stranger"


def _echo(peer: socket.socket) -> None:
    peer.sendall(peer.recv(1 << 14))


@pytest.mark.parametrize("serve", [_nothing, _half, _without_the_key, _echo])
def test_a_member_passes_over_a_port_with_another_leader(
    job: str, serve: Callable[[socket.socket], None]
) -> None:
    meeting = Meeting(job, 3)
    first, second, *_ = gang_line.ports(job)
    with impostor(first, serve):
        assert meeting.lead() == second
        meeting.join(1)
        meeting.join(2)
        meeting.whole()


def test_a_stranger_that_passes_messages_on_is_not_the_leader(job: str) -> None:
    first, second, *_ = gang_line.ports(job)
    refused = threading.Event()

    def relay(peer: socket.socket) -> None:
        with socket.create_connection((BESIDE, second), timeout=LIMIT_S) as leader:
            leader.sendall(peer.recv(1 << 14))
            peer.sendall(leader.recv(1 << 14))
            if peer.recv(1) == b"":
                refused.set()

    meeting = Meeting(job)
    with impostor(first, relay):
        assert meeting.lead() == second
        meeting.join()
        meeting.whole()
    assert refused.is_set()


def test_a_changed_message_of_the_leader_is_an_error(job: str) -> None:
    def serve(peer: socket.socket) -> None:
        hello = gang_line._receive(peer, LIMIT_S) or {}
        talk = Talk(job, peer.getsockname()[1], hello["member"], hello["number"], "6")
        peer.sendall(gang_proof.encode(number="6", proof=talk.proof(KEY, ANSWER)))
        gang_line._receive(peer, LIMIT_S)
        peer.sendall(gang_proof.encode(counts=[1, 2], port=4000, proof=talk.proof(KEY, MET, [1, 2], 4001)))

    port = gang_line.ports(job)[0]
    with impostor(port, serve), pytest.raises(LineError) as raised:
        gang_line.join(job, 1, [BESIDE] * 2, 2, KEY)
    assert str(raised.value) == (
        f"what came from the leader at {BESIDE}, port {port}, was changed on the way"
    )


def test_a_member_that_finds_only_strangers_says_so(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_line, "REACH_S", 0.2)
    with impostor(gang_line.ports(job)[3], _echo), pytest.raises(LineError) as raised:
        gang_line.join(job, 1, [BESIDE] * 2, 1, KEY)
    assert "(what listens there does not prove to be the leader)" in str(raised.value)


@pytest.mark.parametrize(
    ("platform", "advice"),
    [
        ("remote", "set gangAddress of that machine, or open its ports 20000 to 29999"),
        (
            "kubernetes",
            "allow connections between the trial's pods to ports 20000 to 29999, in a NetworkPolicy",
        ),
    ],
)
def test_a_leader_that_cannot_be_reached_is_named_with_both_hosts(
    job: str, monkeypatch: pytest.MonkeyPatch, platform: str, advice: str
) -> None:
    monkeypatch.setattr(gang_line, "REACH_S", 0.2)
    monkeypatch.setenv("NNIMGR_PLATFORM", platform)
    with pytest.raises(LineError) as raised:
        gang_line.join(job, 1, [BESIDE, "10.0.0.6"], 1, KEY)
    first, last = gang_line.ports(job)[0], gang_line.ports(job)[-1]
    assert str(raised.value) == (
        f"10.0.0.6 cannot reach the leader at {BESIDE}, ports {first} to {last} (nothing of the trial "
        f"listens there): {advice}"
    )
