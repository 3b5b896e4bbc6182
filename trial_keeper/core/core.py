"""The keeper's decisions as a pure state machine: no I/O, no clock, no threads.

Each method that takes ``now`` is an input, and returns the effects (orders) to carry out, in this order.
``now`` is in seconds, on a clock that does not jump and continues while the machine sleeps. A restart needs
no separate code: the journal's records rebuild the attempts, ``begin`` orders a look at the claim file of
each unfinished attempt, and each result is handled as usual.
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
from trial_keeper.core.saves import Saves
from trial_keeper.core.seals import Seals
from trial_keeper.core.stay import Stay
from trial_keeper.core.stops import Stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from trial_keeper.attempt.claim import Claim
    from trial_keeper.attempt.ending import Ending
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.effects import Channel, Effect
    from trial_keeper.core.identity import Identity
    from trial_keeper.core.records import Record
    from trial_keeper.wire import Answer, GpuReading


class KeeperCore:
    """State machine of one keeper. Its methods pass each input to the part that is responsible for it."""

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
        self._saves = Saves(self._held, self._ledger, self._reports)
        self._stay = Stay(identity, self._held, self._stops)
        self._attempts = Attempts(
            self._held, self._ledger, self._reports, self._lease, self._stay, self._stops, self._saves,
            self._seals,
        )  # fmt: skip
        self._commands = Commands(self._ledger, self._durable, self._attempts.decide)
        self._exchange = Exchange(
            identity, self._durable, self._held, self._ledger, self._reports, self._lease, self._stay,
            self._status,
        )  # fmt: skip

    @property
    def attempts(self) -> dict[str, Attempt]:
        """Return all attempts that the keeper manages or still has to report, by job id."""
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
        """Order the claim file of every unfinished attempt to be read. This must be the first input."""
        self._stay.heard_at = now
        self._attempts.begin(now, self._identity.ending, may_end=self._identity.may_end)
        return self._pump(now)

    # -- journal

    def written(self, now: float) -> list[Effect]:
        """Take the action that waited for the oldest journal record in progress, which is written now.

        The record is in the page cache, so it survives the end of the keeper's process.
        """
        self._ledger.written(now)
        return self._pump(now)

    def write_failed(self, now: float, sentence: str) -> list[Effect]:
        """Drop the oldest journal record in progress and its action, because the record cannot be written.

        If a command of the server caused the record, the command is retried later.
        """
        self._ledger.write_failed(now)
        self._journal_said(sentence)
        return self._pump(now)

    def flushed(self, now: float, number: int) -> list[Effect]:
        """Confirm to the server the commands of all records up to ``number``, which are on disk now."""
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
        """Check an attempt, because its shim has sent a notice or has ended.

        ``told``: the content of the claim file, as the shim has sent it. It is valid even if the file is
        missing.
        """
        self._attempts.notified(now, job, told)
        return self._pump(now)

    def looked(self, now: float, job: str, seen: fx.Seen) -> list[Effect]:
        """Update the attempt's state from the content of its claim file."""
        self._attempts.looked(now, job, seen)
        return self._pump(now)

    def shim_failed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """Handle the failure of an attempt's shim.

        If no shim has claimed the attempt, start another shim later.
        """
        self._attempts.shim_failed(now, job, sentence)
        return self._pump(now)

    def delayed(self, now: float, job: str, sentence: str) -> list[Effect]:
        """Report ``sentence``, the reason why the attempt's shim is not forked yet."""
        self._attempts.delayed(job, sentence)
        return self._pump(now)

    def origin_missing(self, now: float, job: str, sentence: str) -> list[Effect]:
        """End an attempt that was to continue from a checkpoint whose files are missing."""
        self._attempts.origin_missing(job, sentence)
        return self._pump(now)

    def save_seen(self, now: float, job: str, *, waits: bool, asks: bool) -> list[Effect]:
        """Continue the stop of an attempt whose trial was asked to save its state, or the order to save.

        ``waits``: the trial has not answered yet. ``asks``: it looks for such requests.
        """
        attempt = self._held.undecided(job)
        if attempt is not None and attempt.stop is None:
            self._saves.seen(now, attempt, waits=waits, asks=asks)
        else:
            self._stops.save_seen(now, job, waits=waits)
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
        """Check whether the shim of an attempt has ended after SIGKILL.

        If it still runs after several tries, seal the attempt anyway, because the shim hangs in the kernel.
        """
        self._stops.killed(now, order)
        return self._pump(now)

    def swept(self, now: float, job: str, pids: list[int]) -> list[Effect]:
        """Kill the attempt's processes again if some were found; else count the metrics and seal the attempt.

        ``pids``: processes of the attempt that were found and killed this time.
        """
        self._seals.swept(now, job, pids)
        return self._pump(now)

    def counted(self, now: float, job: str, tally: fx.Tally) -> list[Effect]:
        """Add the count of one piece of an attempt's metrics file to its total.

        At the file's end, seal the attempt.
        """
        if self._seals.counted(now, job, tally):
            self._stops.ended(job)
        return self._pump(now)

    def pruned(self, now: float, number: int) -> list[Effect]:
        """Report with the next call that the deletions up to this number are complete."""
        self._exchange.pruned = max(number, self._exchange.pruned)
        return self._pump(now)

    def grown(self, now: float, job: str) -> list[Effect]:
        """Read the attempt's metrics file soon, because the file has grown."""
        if job in self._held.attempts:
            self._reports.grown(job)
        return self._pump(now)

    def frames_read(self, now: float, job: str, chunk: fx.Chunk) -> list[Effect]:
        """Add the metrics that were read from an attempt's file to the report that is being built."""
        self._exchange.frames_read(now, job, chunk)
        return self._pump(now)

    # -- the calls

    def answered(self, now: float, channel: Channel, answer: Answer) -> list[Effect]:
        """Apply the server's answer to the call of this kind (``channel``) that is in flight."""
        trouble = self._exchange.refusal(now, channel, answer)
        if trouble is not None:
            return self.failed(now, channel, trouble)
        flight = self._exchange.answered(now, channel, answer)
        self._stay.answered(now, stay=answer["stay"], ending=flight.ending)
        for job in answer["done"]:
            attempt = self._held.attempts.get(job)
            if attempt is not None and not attempt.live:
                self._seals.forget(attempt)
        for job in answer["kill"]:
            self._stops.doom(now, job)
        self._commands.take(now, answer["cmds"])
        self._held.out += [fx.Serve(*read) for read in answer["reads"]]
        self._held.out += [fx.Prune(*prune) for prune in answer["prunes"][:-1]]
        self._held.out += [fx.Prune(*prune, answer["prune"]) for prune in answer["prunes"][-1:]]
        if answer["lease_s"] is not None:  # after the kills: a killed attempt gets no new lease
            self._extend_lease(now, sent_at=flight.sent_at, seconds=answer["lease_s"])
        if answer["leave"] and not self._held.attempts:
            self._stay.leave("no attempt is left and none will come", clear=True)
        return self._pump(now)

    def _extend_lease(self, now: float, *, sent_at: float, seconds: float) -> None:
        number = self._lease.number
        order = self._lease.extend(now, sent_at=sent_at, seconds=seconds)
        if order is not None:
            self._held.out.append(order)
        if self._lease.number > number:
            self._attempts.hurry(now)

    def extended(self, now: float, order: fx.Extend, trouble: str | None = None) -> list[Effect]:
        """Handle the result of writing the lease's new end to its file.

        ``trouble``: the error; None: success.
        """
        if self._lease.written(order, trouble):
            self._reports.urgent = True
            if trouble is not None:
                self._held.out.append(fx.Say(trouble))
        return self._pump(now)

    def failed(self, now: float, channel: Channel, sentence: str, reason: str | None = None) -> list[Effect]:
        """Handle a failed call: its content will be sent again.

        If the server refuses this keeper, because another keeper has replaced it, stop all attempts.
        ``reason``: the reason of a refusal.
        """
        if self._exchange.failed(now, channel, sentence, reason):
            self._commands.drop()
            self._stops.doom_all(now)
        return self._pump(now)

    def gpus_read(self, now: float, reading: GpuReading) -> list[Effect]:
        """Report this reading of the machine's GPUs to the server.

        The caller passes only changed readings.
        """
        self._exchange.gpus_read(reading)
        return self._pump(now)

    def manager_changed(self, now: float) -> list[Effect]:
        """Call the server at once, because the file with the server's address was rewritten."""
        self._exchange.hurry()
        return self._pump(now)

    # -- time

    def host_ends(self, now: float, order: Ending) -> list[Effect]:
        """Stop all attempts, which count as lost, and exit in time, because the host shuts down."""
        if not self._stay.ending:
            self._attempts.host_ends(now, order)
        return self._pump(now)

    def tick(self, now: float) -> list[Effect]:
        """Do all work whose time has come, such as delayed effects, retries and the keeper's own exit."""
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
        """Start each call to the server that is due; return all effects that this input has caused."""
        if self._exchange.replaced and not self._held.attempts:
            self._stay.leave("another keeper has replaced this keeper, whose attempts have all ended")
        if self._stay.ending:
            self._stay.wind_up(now)
        # Make no call while a command's record is being written: the call would not report that command yet.
        if not (self._stay.leaving or self._exchange.replaced or self._commands.writing):
            self._exchange.pump(now)
        out = self._held.out[:]
        self._held.out.clear()
        return out
