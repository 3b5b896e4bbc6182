"""The two kinds of calls to the server: when they are made, what they contain, which answers are valid."""

from __future__ import annotations

from trial_keeper.core import effects as fx
from trial_keeper.core import ends
from trial_keeper.core.backoff import Backoff
from trial_keeper.core.effects import Channel
from trial_keeper.core.reports import Flight
from trial_keeper.core.seals import bad_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator

    from trial_keeper.core.held import Held
    from trial_keeper.core.identity import Identity
    from trial_keeper.core.lease import Lease
    from trial_keeper.core.ledger import Ledger
    from trial_keeper.core.recovery import DurableState
    from trial_keeper.core.reports import Reports
    from trial_keeper.core.stay import Stay
    from trial_keeper.wire import Answer, GpuReading, ReportHeader

RETRY_S = 1.0
REMIND_S = 5.0
REPLACED = "instance"  # the server's reason to refuse a keeper that was replaced


class Exchange:
    """Makes the sync calls to the server, at most one of each kind (``Channel``) at a time.

    ``status`` returns the errors of the keeper itself, as one sentence; None if there are none.
    """

    def __init__(
        self,
        identity: Identity,
        durable: DurableState,
        held: Held,
        ledger: Ledger,
        reports: Reports,
        lease: Lease,
        stay: Stay,
        status: Callable[[], str | None],
    ) -> None:
        self._identity = identity
        self._durable = durable
        self._held = held
        self._ledger = ledger
        self._reports = reports
        self._lease = lease
        self._stay = stay
        self._status = status
        self._backoff = Backoff(identity.jitter)
        self._flights: dict[Channel, Flight] = {}
        self._sync_no = 0
        self._inventory = True
        self._collecting = False
        self._breather = False  # True after a round that read no frame: the next round waits for a tick
        self._wait_at = 0.0
        self._remind_at: float | None = None
        self._surveys = False
        self.replaced = False
        self.pruned = 0  # number of the last order to delete checkpoints that is carried out

    # -- answers

    def refusal(self, now: float, channel: Channel, answer: Answer) -> str | None:
        """Return the reason to ignore this answer; None if the answer is valid."""
        trouble = "this keeper has been replaced" if self.replaced else self._disobeyed(answer)
        flight = self._flights[channel]
        held_back = self._lease.refuses(now, sent_at=flight.sent_at, whole=flight.whole)
        if answer["lease_s"] is not None and held_back:
            trouble = (
                trouble
                or "the answer came after the end of the lease: the next call lists all attempts first"
            )
            self._inventory = True
        return trouble

    def _disobeyed(self, answer: Answer) -> str | None:
        if answer["instance"] != self._identity.instance:
            return "the answer is for another instance of this keeper"
        known = self._durable
        if known.db_id is not None and answer["db_id"] != known.db_id:
            return f"the server has another database ({answer['db_id']}) than this keeper's ({known.db_id})"
        if answer["m_epoch"] < known.m_epoch:
            return (
                f"the answer is from an older server: epoch {answer['m_epoch']}, but {known.m_epoch} is known"
            )
        return None

    def answered(self, now: float, channel: Channel, answer: Answer) -> Flight:
        """Handle a valid answer: mark the content of its call as received, and return this content."""
        flight = self._flights.pop(channel)
        if channel is Channel.WAIT and self._ledger.retry_at > now:
            self._wait_at = now + RETRY_S  # else the server would repeat the unwritten commands at once
        self._backoff.answered()
        another = (answer["db_id"], answer["m_epoch"]) != (self._durable.db_id, self._durable.m_epoch)
        if another:
            self._durable.db_id, self._durable.m_epoch = answer["db_id"], answer["m_epoch"]
            self._ledger.append({"k": "server", "db_id": answer["db_id"], "m_epoch": answer["m_epoch"]})
        if another or answer["all"]:
            self._inventory = True
            self._reports.start_over()
        if flight.whole:
            self._inventory = False
        self._reports.delivered(flight)
        self._survey(on=bool(answer["gpu"]))
        if flight.finals:
            self._remind_at = now + REMIND_S
        self._reports.acknowledged(answer["acks"], answer["rewind"])
        return flight

    def failed(self, now: float, channel: Channel, sentence: str, reason: str | None) -> bool:
        """Mark the content of a failed call as unsent. Return True if the server has replaced this keeper.

        It returns True only once, for the first answer that says so.
        """
        flight = self._flights.pop(channel)
        self._reports.lost(flight)
        self._backoff.failed(now, call=flight.no, last=self._sync_no)
        if self._backoff.is_news(sentence):
            self._held.out.append(fx.Say(f"sync failed: {sentence}"))
        if reason != REPLACED or self.replaced:
            return False
        self.replaced = True
        self._remind_at = None
        return True

    def hurry(self) -> None:
        """End the pause after a failed call, so that the next call is made at once."""
        self._backoff.hurry()

    # -- GPUs

    def _survey(self, *, on: bool) -> None:
        if on != self._surveys:
            self._surveys = on
            self._reports.gpus_read(None)
            self._held.out.append(fx.Survey(on))

    def gpus_read(self, reading: GpuReading) -> None:
        """Report a reading of the GPUs if the server still asks for readings."""
        if self._surveys:
            self._reports.gpus_read(reading)

    # -- calls

    def pump(self, now: float) -> None:
        """Make each call to the server that is due, unless a call of its kind is in flight."""
        if now < self._backoff.retry_at:
            return
        free = Channel.REPORT not in self._flights and not self._collecting
        if self._inventory:
            if free:
                self._send(now, Channel.REPORT, self._reports.inventory())
            return
        if free and not self._breather and self._reports.due(now):
            self._collecting = True
            self._reports.open()
            self._collect(now)
        if Channel.WAIT not in self._flights and now >= self._wait_at:
            self._send(now, Channel.WAIT, Flight())

    def frames_read(self, now: float, job: str, chunk: fx.Chunk) -> None:
        """Add the metrics that were read from an attempt's file to the report that is being built."""
        attempt = self._held.attempts.get(job)
        if attempt is not None:  # None: the attempt was dropped after the read was ordered
            self._reports.add(attempt, chunk)
            if chunk.bad and attempt.note is None:
                attempt.note = bad_header(chunk.end)
                self._reports.tell(attempt)
            if not chunk.more:
                ends.note_losses(attempt)
        self._collect(now)

    def _collect(self, now: float) -> None:
        read = self._reports.next_read()
        if read is not None:
            self._held.out.append(read)
            return
        self._collecting = False
        flight = self._reports.close(now)
        self._breather = flight is None and self._reports.unread
        if flight is not None:
            last = max((self._held.attempts[job].seq for job in flight.finals), default=0)
            if last > self._ledger.acked_cmd:
                self._reports.owed_ack = last
            self._send(now, Channel.REPORT, flight)

    def _send(self, now: float, channel: Channel, flight: Flight) -> None:
        self._sync_no += 1
        flight.no = self._sync_no
        flight.sent_at = now
        self._flights[channel] = flight
        header: ReportHeader = {
            "instance": self._identity.instance, "k_epoch": self._durable.k_epoch, "sync_no": self._sync_no,
            "boot_id": self._identity.boot_id, "db_id_seen": self._durable.db_id,
            "m_epoch_seen": self._durable.m_epoch, "acked_cmd": self._ledger.acked_cmd,
            "seen_cmd": self._durable.applied, "all": flight.whole,
            "wait": channel is Channel.WAIT, "status": self._status(), "attempts": flight.entries,
        }  # fmt: skip
        if self.pruned:
            header["pruned"] = self.pruned
        if flight.gpu is not None:
            header["gpu"] = flight.gpu
        if self._stay.ending:
            flight.ending = True
            header["ending"] = {"stays": self._stay.copying}
        host = self._identity.host() if flight.whole else None
        if host is not None:
            header["host"] = host
        self._held.out.append(fx.Send(channel, header, flight.payloads))

    # -- time

    def tick(self, now: float) -> None:
        """Repeat reports of ends that the server has not confirmed, if it is time for that.

        Also allow reads of metrics files again, which pause after a round that found no new metric.
        """
        self._breather = False
        if self._remind_at is not None and now >= self._remind_at:
            self._remind_at = None
            self._reports.remind()

    def times(self, now: float) -> Iterator[float]:
        """Yield the times at which the next calls, or repeated reports of ends, are due."""
        if self._remind_at is not None:
            yield self._remind_at
        if self.replaced:
            return
        if Channel.REPORT not in self._flights:
            soon = now if self._inventory else self._reports.due_at(now)
            if soon is not None:
                yield max(self._backoff.retry_at, soon)
        if Channel.WAIT not in self._flights and not self._inventory:
            yield max(self._backoff.retry_at, self._wait_at)
