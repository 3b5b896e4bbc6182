"""What goes into the reports: which attempts have news, and how much of it fits into one call."""

from __future__ import annotations

from trial_keeper import effects as fx
from trial_keeper import wire
from trial_keeper.attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READS = 64  # for one report: a long way to the first unsent frame must not stop everything else


class Flight:
    """One call: what it says, and what has to be said again if it comes to nothing."""

    def __init__(self) -> None:
        self.no = 0
        self.sent_at = 0.0
        self.whole = False
        self.entries: dict[str, dict[str, Any]] = {}
        self.payloads: list[bytes] = []
        self.finals: list[str] = []
        self.gpu: dict[str, Any] | None = None


class Reports:
    """The news of all attempts. ``urgent``: something about the keeper itself has to be said."""

    def __init__(self, attempts: dict[str, Attempt]) -> None:
        self._attempts = attempts
        self._grown: dict[str, None] = dict.fromkeys(attempts)
        self._told: dict[str, None] = {job: None for job, each in attempts.items() if not each.live}
        self._soon: dict[str, float] = {}
        self.urgent = False
        self.owed_ack: int | None = None
        self._draft: dict[str, tuple[int, list[bytes]]] = {}
        self._room = (0, 0)
        self._reads = 0
        self._gpu: dict[str, Any] | None = None
        self._gpu_told = True

    # -- news

    def gpus_read(self, reading: dict[str, Any] | None) -> None:
        """What is known of the GPUs; None: nothing."""
        self._gpu = reading
        self._tell_gpu()

    def _tell_gpu(self) -> None:
        if self._gpu is not None:
            self._gpu_told = False
            self.urgent = True

    def grown(self, job: str) -> None:
        """Frames may be waiting."""
        self._grown[job] = None

    def tell(self, attempt: Attempt) -> None:
        """Mention the attempt in the next report."""
        self._told[attempt.job] = None

    def tell_soon(self, attempt: Attempt, at: float) -> None:
        """Mention it with the next report, or at this time."""
        self._soon.setdefault(attempt.job, at)

    def forget(self, job: str) -> None:
        """The attempt is no more."""
        for queue in (self._grown, self._told, self._soon):
            queue.pop(job, None)

    @property
    def unread(self) -> bool:
        """Frames may be waiting."""
        return bool(self._grown)

    def due(self, now: float) -> bool:
        """There is something to say."""
        at = self.due_at(now)
        return at is not None and at <= now

    def due_at(self, now: float) -> float | None:
        """When the next report is due."""
        if self.urgent or self._grown or self._told:
            return now
        return min(self._soon.values()) if self._soon else None

    # -- one report

    def inventory(self) -> Flight:
        """Everything held, without frames: the answer says how many of them the server has."""
        flight = Flight()
        flight.whole = True
        flight.gpu = self._gpu
        for attempt in self._attempts.values():
            flight.entries[attempt.job] = _entry(attempt, attempt.acked, [], final=False)
        self._soon.clear()
        return flight

    def open(self) -> None:
        """Begin to put a report together."""
        self._draft = {}
        self._room = (wire.MAX_BYTES, wire.MAX_EVENTS)
        self._reads = _READS

    def next_read(self) -> fx.Read | None:
        """The next file to read for it; None: it is complete."""
        size, frames = self._room
        while self._grown and size > 0 and frames > 0 and self._reads > 0:
            job = next(iter(self._grown))
            del self._grown[job]
            attempt = self._attempts[job]
            wanted = frames if attempt.final is None else min(frames, attempt.final["n"] - attempt.sent)
            if wanted > 0:
                self._reads -= 1
                skip = attempt.sent - attempt.position
                return fx.Read(job, attempt.directory, attempt.offset, skip, wanted, size, not self._draft)
        return None

    def add(self, attempt: Attempt, chunk: fx.Chunk) -> None:
        """Frames that were read."""
        attempt.advance(chunk.skipped + len(chunk.payloads), chunk.end)
        if chunk.payloads:
            _first, payloads = self._draft.setdefault(attempt.job, (attempt.sent, []))
            payloads += chunk.payloads
            attempt.sent += len(chunk.payloads)
            size, frames = self._room
            self._room = (size - sum(map(len, chunk.payloads)), frames - len(chunk.payloads))
        if chunk.more:
            self._grown[attempt.job] = None
            if chunk.payloads or not chunk.skipped:
                self._room = (0, 0)  # the next frame does not fit

    def close(self, now: float) -> Flight | None:
        """The report, or None if there is nothing to say yet."""
        soon = any(at <= now for at in self._soon.values())
        if not (self._draft or self._told or self.urgent or soon):
            return None
        flight = Flight()
        flight.gpu = None if self._gpu_told else self._gpu
        for job in [*self._draft, *self._told, *self._soon]:
            attempt = self._attempts.get(job)
            if attempt is None or job in flight.entries:
                continue
            first, payloads = self._draft.get(job, (attempt.sent, []))
            entry = _entry(attempt, first, payloads, final=attempt.told and not attempt.final_sent)
            flight.entries[job] = entry
            flight.payloads += payloads
            if entry["final"] is not None:
                attempt.final_sent = True
                flight.finals.append(job)
        self.urgent = False
        self._told = {job: None for job in self._told if self._untold(job)}
        self._soon.clear()
        return flight

    def _untold(self, job: str) -> bool:
        """Its end still waits for frames that lie before it."""
        attempt = self._attempts.get(job)
        return attempt is not None and not attempt.live and not attempt.final_sent and job in self._grown

    # -- what became of it

    def delivered(self, flight: Flight) -> None:
        """The server has answered."""
        if flight.gpu is self._gpu:
            self._gpu_told = True
        for job, entry in flight.entries.items():
            attempt = self._attempts.get(job)
            if attempt is not None and entry["started"] is not None:
                attempt.started_sent = True

    def lost(self, flight: Flight) -> None:
        """The call came to nothing: everything in it goes again."""
        if flight.gpu is not None:
            self._tell_gpu()
        for job, entry in flight.entries.items():
            attempt = self._attempts.get(job)
            if attempt is None:
                continue
            if entry["events"]:
                attempt.seek(attempt.acked)
                self._grown[job] = None
            attempt.final_sent = False
            self._told[job] = None

    def start_over(self) -> None:
        """Nothing said before is known to the server: it says anew what it has."""
        self._tell_gpu()
        for job, attempt in self._attempts.items():
            attempt.seek(attempt.acked)
            attempt.unsure = True
            attempt.final_sent = False
            attempt.started_sent = False  # the other one may have died with it
            self._grown[job] = None
            if not attempt.live or attempt.started is not None:
                self._told[job] = None

    def acknowledged(self, acks: dict[str, int], rewind: dict[str, int]) -> None:
        """How many frames of each attempt the server has committed, and from where it misses some."""
        for job, count in acks.items():
            attempt = self._attempts.get(job)
            if attempt is not None and attempt.acknowledge(count):
                self._grown[job] = None
        for job, position in rewind.items():
            attempt = self._attempts.get(job)
            if attempt is not None:
                attempt.seek(position)
                attempt.final_sent = False
                self._grown[job] = None
                self._told[job] = None

    def remind(self) -> None:
        """Ends that were delivered but are not done."""
        for job, attempt in self._attempts.items():
            if attempt.final_sent:
                attempt.final_sent = False
                self._told[job] = None


def _entry(attempt: Attempt, first: int, payloads: list[bytes], *, final: bool) -> dict[str, Any]:
    # With the end always: a server that began after it was sent commits the end and asks for nothing more.
    started = attempt.started if final or not attempt.started_sent else None
    return {
        "from": first,
        "events": list(map(len, payloads)),
        "started": started,
        "note": attempt.note,
        "final": attempt.final if final else None,
    }
