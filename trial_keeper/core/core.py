"""The keeper's side of the protocol as a pure state machine: no I/O, no clock, no threads.

``now`` is in seconds, on a clock that does not jump and continues while the machine sleeps. Every input
returns the effects to carry out, in order. Recovery needs no separate code: the journal's records rebuild the
attempts, ``begin`` asks for a look at each unfinished attempt, and the results of the looks are judged as
usual.
"""

from __future__ import annotations

from trial_keeper.core import effects as fx
from trial_keeper.core.attempts import Attempts
from trial_keeper.core.commands import Commands
from trial_keeper.core.exchange import Exchange
from trial_keeper.core.held import Held
from trial_keeper.core.lease import Lease
from trial_keeper.core.ledger import Ledger
from trial_keeper.core.recovery import DurableState
from trial_keeper.core.reports import Reports
from trial_keeper.core.seals import Seals
from trial_keeper.core.stay import Stay
from trial_keeper.core.stops import Stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from trial_keeper.attempt.claim import Claim
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.effects import Channel, Effect
    from trial_keeper.core.identity import Identity
    from trial_keeper.core.records import Record
    from trial_keeper.wire import Answer, GpuReading


class KeeperCore:
    """State machine of one keeper. Each method is an input, which the responsible part handles."""

    def __init__(self, identity: Identity, records: Iterable[Record]) -> None:
        self._identity = identity
        self._durable = DurableState(records)
        self._durable.k_epoch += 1
        self._held = Held(self._durable.attempts, identity.boot_id)
        self._ledger = Ledger(self._held.out, self._durable.applied)
        self._lease = Lease(*identity.lease)
        self._reports = Reports(self._held.attempts)
        self._seals = Seals(self._held, self._ledger, self._reports)
        self._stops = Stops(self._held, self._ledger, self._reports, self._seals)
        self._attempts = Attempts(
            self._held, self._ledger, self._reports, self._lease, self._stops, self._seals
        )
        self._commands = Commands(self._ledger, self._durable, self._attempts.decide)
        self._exchange = Exchange(
            identity, self._durable, self._held, self._ledger, self._reports, self._lease, self._status
        )
        self._stay = Stay(identity, self._held, self._stops)

    @property
    def attempts(self) -> dict[str, Attempt]:
        """Return the attempts that the keeper holds, by job id."""
        return self._held.attempts

    @property
    def k_epoch(self) -> int:
        """Return the epoch: the number of times that the keeper was started, including this start."""
        return self._durable.k_epoch

    @property
    def status(self) -> str | None:
        """Return the errors of the keeper itself, as one sentence; None without an error."""
        return self._status()

    def _status(self) -> str | None:
        unprepared = self._attempts.unprepared
        troubles = self._identity.status, self._ledger.trouble, self._lease.trouble, unprepared
        return "; ".join(filter(None, troubles)) or None

    def is_sought(self, job: str) -> bool:
        """Return whether the server started this attempt earlier and asks only for its state."""
        return self._attempts.is_sought(job)

    def records(self) -> list[Record]:
        """Return the records that must be durable in the journal before ``begin`` is called."""
        return self._durable.records()

    def begin(self, now: float) -> list[Effect]:
        """Look at every unfinished attempt. This must be the first input."""
        self._stay.heard_at = now
        self._attempts.begin(now, self._identity.ending)
        return self._pump(now)

    # -- journal

    def written(self, now: float) -> list[Effect]:
        """Take the action of the oldest pending record.

        The record is in the page cache, so it survives the end of the keeper's process.
        """
        self._ledger.written(now)
        return self._pump(now)

    def write_failed(self, now: float, sentence: str) -> list[Effect]:
        """Drop the oldest pending record without its action, because the record could not be written."""
        self._ledger.write_failed(now)
        self._journal_said(sentence)
        return self._pump(now)

    def flushed(self, now: float, number: int) -> list[Effect]:
        """Acknowledge the commands of all records up to ``number``, which now survive power loss."""
        self._ledger.flushed(number)
        self._reports.flushed(self._ledger.acked_cmd)
        self._journal_said(None)
        return self._pump(now)

    def flush_failed(self, now: float, sentence: str) -> list[Effect]:
        """Report that the journal could not be flushed. The caller retries until the flush succeeds."""
        self._journal_said(sentence)
        return self._pump(now)

    def _journal_said(self, sentence: str | None) -> None:
        if self._ledger.say(sentence):
            self._reports.urgent = True

    # -- attempts

    def notified(self, now: float, job: str, told: Claim | None = None) -> list[Effect]:
        """Handle an event on the attempt's claim or shim.

        ``told``: the claim that the shim itself has sent. This claim is valid even without a claim file.
        """
        self._attempts.notified(now, job, told)
        return self._pump(now)

    def looked(self, now: float, job: str, seen: fx.Seen) -> list[Effect]:
        """Judge the attempt by the content of its claim file."""
        self._attempts.looked(now, job, seen)
        return self._pump(now)

    def shim_failed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """Handle the failure of a shim, which may have failed before its claim on the attempt."""
        self._attempts.shim_failed(now, job, sentence)
        return self._pump(now)

    def delayed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """Report ``sentence``, the reason why the attempt's shim is not forked yet."""
        self._attempts.delayed(job, sentence)
        return self._pump(now)

    def update_failed(self, now: float, update: fx.Update, sentence: str) -> list[Effect]:
        """Report that the file of a further parameter set could not be written, and retry later."""
        self._attempts.update_failed(now, update, sentence)
        return self._pump(now)

    def signal_failed(self, now: float, signal: fx.Signal, sentence: str) -> list[Effect]:
        """Retry a stop that failed, until the attempt ends: the signal or the grace was not delivered."""
        self._stops.signal_failed(now, signal, sentence)
        return self._pump(now)

    def killed(self, now: float, order: fx.Kill) -> list[Effect]:
        """Look whether a shim has ended after SIGKILL; seal the attempt if the shim hangs in the kernel."""
        self._stops.killed(now, order)
        return self._pump(now)

    def swept(self, now: float, job: str, pids: list[int]) -> list[Effect]:
        """Sweep again, or seal the attempt. ``pids``: processes with the attempt's mark that were killed."""
        self._seals.swept(now, job, pids)
        return self._pump(now)

    def counted(self, now: float, job: str, tally: fx.Tally) -> list[Effect]:
        """Add a counted piece of the metrics file; seal the attempt at the end of the file."""
        if self._seals.counted(now, job, tally):
            self._stops.ended(job)
        return self._pump(now)

    def grown(self, now: float, job: str) -> list[Effect]:
        """Read the attempt's metrics file soon, because the file has grown."""
        if job in self._held.attempts:
            self._reports.grown(job)
        return self._pump(now)

    def frames_read(self, now: float, job: str, chunk: fx.Chunk) -> list[Effect]:
        """Add the frames of a read to the report that is being built."""
        self._exchange.frames_read(now, job, chunk)
        return self._pump(now)

    # -- the calls

    def answered(self, now: float, channel: Channel, answer: Answer) -> list[Effect]:
        """Apply the server's answer to the call in flight on this channel."""
        trouble = self._exchange.refusal(now, channel, answer)
        if trouble is not None:
            return self.failed(now, channel, trouble)
        flight = self._exchange.answered(now, channel, answer)
        self._stay.heard_at = now
        for job in answer["done"]:
            attempt = self._held.attempts.get(job)
            if attempt is not None and not attempt.live:
                self._seals.forget(attempt)
        for job in answer["kill"]:
            self._stops.doom(now, job)
        self._commands.take(now, answer["cmds"])
        self._held.out += [fx.Serve(*read) for read in answer["reads"]]
        if answer["lease_s"] is not None:  # after the kills: a killed attempt gets no new lease
            self._extend_lease(now, sent_at=flight.sent_at, seconds=answer["lease_s"])
        if answer["leave"] and not self._held.attempts:
            self._stay.leave("no job is left and none will come", clear=True)
        return self._pump(now)

    def _extend_lease(self, now: float, *, sent_at: float, seconds: float) -> None:
        number = self._lease.number
        order = self._lease.extend(now, sent_at=sent_at, seconds=seconds)
        if order is not None:
            self._held.out.append(order)
        if self._lease.number > number:
            self._attempts.hurry(now)

    def extended(self, now: float, order: fx.Extend, trouble: str | None = None) -> list[Effect]:
        """Record that the new end of the lease is written, or report the error ``trouble``."""
        if self._lease.written(order, trouble):
            self._reports.urgent = True
            if trouble is not None:
                self._held.out.append(fx.Say(trouble))
        return self._pump(now)

    def failed(self, now: float, channel: Channel, sentence: str, reason: str | None = None) -> list[Effect]:
        """Send the content of a failed call again; stop all attempts if the server replaced this keeper."""
        if self._exchange.failed(now, channel, sentence, reason):
            self._end_all(now)
        return self._pump(now)

    def _end_all(self, now: float) -> None:
        """Stop all attempts: another keeper replaces this keeper, whose attempts count as lost."""
        self._held.out.append(
            fx.Say("the server has another keeper in this one's place: all attempts are stopped")
        )
        self._commands.drop()
        for job in list(self._held.attempts):
            self._stops.doom(now, job)

    def gpus_read(self, now: float, reading: GpuReading) -> list[Effect]:
        """Report the first reading or a changed reading of the GPUs (``gpu`` of ``trial_keeper.wire``)."""
        self._exchange.gpus_read(reading)
        return self._pump(now)

    def manager_changed(self, now: float) -> list[Effect]:
        """Call the server at once, because the file with the server's address was rewritten."""
        self._exchange.hurry()
        return self._pump(now)

    # -- time

    def host_ends(self, now: float, grace: float) -> list[Effect]:
        """Stop all attempts with ``grace`` seconds: the host shuts down, so the attempts count as lost."""
        if self._attempts.ending is None:
            self._attempts.host_ends(now, grace)
        return self._pump(now)

    def tick(self, now: float) -> list[Effect]:
        """Do the work that is due at ``now``."""
        self._held.release(now)
        self._stops.release(now)
        self._exchange.tick(now)
        self._commands.go_on(now)
        self._stay.tick(now)
        return self._pump(now)

    def deadline(self, now: float) -> float | None:
        """Return the time of the next ``tick``, which may be in the past; None if no tick is needed."""
        if self._stay.leaving:
            return None
        times = [*self._held.times(), *self._stops.times(), *self._exchange.times(now), *self._stay.times()]
        if self._commands:
            times.append(self._ledger.retry_at)
        return min(times, default=None)

    def _pump(self, now: float) -> list[Effect]:
        """Start the missing calls to the server; return the collected effects."""
        if self._exchange.replaced and not self._held.attempts:
            self._stay.leave("another keeper has its place, and nothing that it started runs any more")
        if self._attempts.ending is not None:
            self._stay.wind_up(now)
        # Wait while a record is being written: a call would not yet report its command as seen.
        if not (self._stay.leaving or self._exchange.replaced or self._commands.writing):
            self._exchange.pump(now)
        out = self._held.out[:]
        self._held.out.clear()
        return out
