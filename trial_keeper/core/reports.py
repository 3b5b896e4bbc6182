"""Reports to the server: collects changes of the attempts, and selects what fits into one call."""

from __future__ import annotations

from trial_keeper import wire
from trial_keeper.core import effects as fx
from trial_keeper.core.attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.wire import GpuReading, ReportedAttempt

_READS = 64  # most reads per report: a long search for the first unsent frame must not block other work


class Flight:
    """Content of one call to the server, which is sent again if the call fails.

    ``ending``: the call says that the host shuts down.
    """

    def __init__(self) -> None:
        self.no = 0
        self.sent_at = 0.0
        self.whole = False
        self.entries: dict[str, ReportedAttempt] = {}
        self.payloads: list[bytes] = []
        self.finals: list[str] = []
        self.gpu: GpuReading | None = None
        self.ending = False


class Reports:
    """Collects changes of all attempts for reports to the server.

    ``urgent``: the keeper itself has something to report, such as an error. ``owed_ack``: number of a command
    that the server does not know to be durable yet.
    """

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
        self._gpu: GpuReading | None = None
        self._gpu_told = True

    # -- news

    def gpus_read(self, reading: GpuReading | None) -> None:
        """Include this reading of the machine's GPUs in the next report.

        None: nothing is known about them.
        """
        self._gpu = reading
        self._tell_gpu()

    def _tell_gpu(self) -> None:
        if self._gpu is not None:
            self._gpu_told = False
            self.urgent = True

    def grown(self, job: str) -> None:
        """Record that the attempt's metrics file may have metrics that were not read yet."""
        self._grown[job] = None

    def tell(self, attempt: Attempt) -> None:
        """Include the attempt in the next report."""
        self._told[attempt.job] = None

    def tell_soon(self, attempt: Attempt, at: float) -> None:
        """Include the attempt in the next report, which is sent at the time ``at`` at the latest."""
        self._soon.setdefault(attempt.job, at)

    def forget(self, job: str) -> None:
        """Discard everything that is still to be reported about the attempt."""
        for queue in (self._grown, self._told, self._soon):
            queue.pop(job, None)

    @property
    def unread(self) -> bool:
        """Return whether some attempt's metrics file may have metrics that were not read yet."""
        return bool(self._grown)

    def due(self, now: float) -> bool:
        """Return whether something must be reported to the server now."""
        at = self.due_at(now)
        return at is not None and at <= now

    def due_at(self, now: float) -> float | None:
        """Return the time of the next report; None if there is nothing to report."""
        if self.urgent or self._grown or self._told:
            return now
        return min(self._soon.values()) if self._soon else None

    # -- one report

    def inventory(self) -> Flight:
        """Return the content of a call that names all attempts, without metrics.

        The server's answer states how many metrics of each attempt it has stored.
        """
        flight = Flight()
        flight.whole = True
        flight.gpu = self._gpu
        for attempt in self._attempts.values():
            flight.entries[attempt.job] = _entry(attempt, attempt.acked, [], final=False)
        self._soon.clear()
        return flight

    def open(self) -> None:
        """Begin to build a report."""
        self._draft = {}
        self._room = (wire.MAX_BYTES, wire.MAX_EVENTS)
        self._reads = _READS

    def next_read(self) -> fx.Read | None:
        """Return the next order to read metrics for the report that is being built.

        Return None if the report is full or no metrics file has grown.
        """
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
        """Add the metrics that were read from an attempt's file to the report that is being built."""
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
        """Finish the report that is being built, and return it; None if there is nothing to report."""
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
        """Return whether the end of this attempt is still unsent, because some of its metrics are unread."""
        attempt = self._attempts.get(job)
        return attempt is not None and not attempt.live and not attempt.final_sent and job in self._grown

    def flushed(self, acked_cmd: int) -> None:
        """Make a report due if it has to confirm commands up to ``acked_cmd``, which are on disk now.

        This is the case if an attempt's end was reported before its last command was on disk.
        """
        if self.owed_ack is not None and acked_cmd >= self.owed_ack:
            self.owed_ack = None
            self.urgent = True

    # -- outcome of a report

    def delivered(self, flight: Flight) -> None:
        """Record that the server has received the content of the call."""
        if flight.gpu is self._gpu:
            self._gpu_told = True
        for job, entry in flight.entries.items():
            attempt = self._attempts.get(job)
            if attempt is not None and entry["started"] is not None:
                attempt.started_sent = True

    def lost(self, flight: Flight) -> None:
        """Mark the content of a failed call as unsent, so that a later report repeats this content."""
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
        """Report everything again, because the server has changed and may lack earlier reports.

        The server's answer then states how many metrics of each attempt it has stored.
        """
        self._tell_gpu()
        for job, attempt in self._attempts.items():
            attempt.seek(attempt.acked)
            attempt.unsure = True
            attempt.final_sent = False
            attempt.started_sent = False  # the new server may lack the start
            self._grown[job] = None
            if not attempt.live or attempt.started is not None:
                self._told[job] = None

    def acknowledged(self, acks: dict[str, int], rewind: dict[str, int]) -> None:
        """Record how many metrics of each attempt the server has stored (``acks``, by job id).

        ``rewind`` has, by job id, the number of the metric from which the server needs the metrics again.
        """
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
        """Report again each end that was sent but not confirmed by the server."""
        for job, attempt in self._attempts.items():
            if attempt.final_sent:
                attempt.final_sent = False
                self._told[job] = None


def _entry(attempt: Attempt, first: int, payloads: list[bytes], *, final: bool) -> ReportedAttempt:
    # Send the start with each end: a new server may lack the start, and cannot get it after the end.
    started = attempt.started if final or not attempt.started_sent else None
    return {
        "from": first,
        "events": list(map(len, payloads)),
        "started": started,
        "note": attempt.note,
        "final": attempt.final if final else None,
    }
