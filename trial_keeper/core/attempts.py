"""Decides what to do with each attempt: when to start it, and what its claim file says about its state."""

from __future__ import annotations

from trial_keeper import wire
from trial_keeper.core import effects as fx
from trial_keeper.core import ends
from trial_keeper.core.attempt import Attempt
from trial_keeper.core.ledger import nothing
from trial_keeper.core.recovery import baseless_record, claimed_record, start_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trial_keeper.attempt.claim import Claim
    from trial_keeper.attempt.ending import Ending
    from trial_keeper.core.commands import Decision
    from trial_keeper.core.held import Held
    from trial_keeper.core.lease import Lease
    from trial_keeper.core.ledger import Act, Ledger
    from trial_keeper.core.records import UpdateRecord
    from trial_keeper.core.reports import Reports
    from trial_keeper.core.saves import Saves
    from trial_keeper.core.seals import Seals
    from trial_keeper.core.stay import Stay
    from trial_keeper.core.stops import Stops
    from trial_keeper.wire import Start

STARTED_WAIT_S = 0.02  # delay of a report that contains only a start, so that later news can join
RESPAWN_PAUSE_S = 0.5
LAST_RESPAWN_PAUSE_S = 30.0
RETRY_S = 1.0
_CUT_OFF = "the host was restarted while the command ran"
_UNKNOWN = "the attempt had been started before, and its claim file is gone"
_UNBEGUN = "the host was restarted before the command was started"


class Attempts:
    """Decides which effects follow from the server's commands and from what is observed about attempts."""

    def __init__(
        self,
        held: Held,
        ledger: Ledger,
        reports: Reports,
        lease: Lease,
        stay: Stay,
        stops: Stops,
        saves: Saves,
        seals: Seals,
    ) -> None:
        self._held = held
        self._ledger = ledger
        self._reports = reports
        self._stay = stay
        self._lease = lease
        self._stops = stops
        self._saves = saves
        self._seals = seals
        self._ending: Ending | None = None  # None: the host is not shutting down
        self._may_end = False  # True: the host ends by an order, such as the end of a container
        self.unprepared: str | None = None  # error that prevented the preparation of the latest attempt

    def begin(self, now: float, ending: Ending | None, *, may_end: bool) -> None:
        """Order the claim file of each attempt that an earlier keeper left unfinished to be read.

        ``ending``: order to end that the host got before, because it shuts down, or None. ``may_end``: the
        host can get such an order.
        """
        self._may_end = may_end
        if ending is not None:
            self.host_ends(now, ending)
        for attempt in self._held.live():
            if self._held.here(attempt):
                for index, parameter in attempt.updates.items():
                    self._held.out.append(fx.Update(attempt.job, attempt.directory, index, parameter))
            if self._is_undone(attempt):
                self._held.out.append(fx.Abort(attempt.job, attempt.directory))
            else:
                self._held.look(attempt)

    def _is_undone(self, attempt: Attempt) -> bool:
        """Return whether a shim may still start the attempt, although it was stopped before its start."""
        stopped = attempt.stop is not None or attempt.baseless is not None
        here = self._held.here(attempt) and not self.is_sought(attempt.job)
        return stopped and here and not attempt.claimed

    def host_ends(self, now: float, order: Ending) -> None:
        """Stop all running attempts, and those that the server orders later, because the host shuts down."""
        self._ending = order
        self._stay.host_ends(order.until)
        self._stops.evict(now, order)
        for attempt in self._held.attempts.values():
            if ends.note_eviction(attempt):
                self._reports.tell(attempt)
        self._reports.urgent = True

    # -- commands

    def decide(self, now: float, seq: int, kind: str, job: str, body: Any) -> Decision:
        """Decide about a command of the server: return its journal record and the action that carries it out.

        The action must be called after the record is written.
        """
        attempt = self._held.attempts.get(job)
        if kind == "start" and attempt is None:
            return start_record(job, seq, body, apart=True), self._starter(job, seq, body)
        if attempt is not None and attempt.live and kind == "stop":  # the signal precedes the record
            record = self._stops.order(now, attempt, float(body["grace"]), body.get("save"))
            record["seq"] = seq
            return record, nothing
        if attempt is not None and attempt.live and kind == "update":
            index, parameter = body["index"], body["parameter"]
            update: UpdateRecord = {
                "k": "update", "seq": seq, "job": job, "index": index, "parameter": parameter,
            }  # fmt: skip
            return update, self._updater(attempt, index, parameter)
        if attempt is not None and attempt.live and kind == "save" and attempt.stop is None:
            return self._saves.order(seq, attempt, float(body["within"]))
        return {"k": "nop", "seq": seq}, nothing

    def _starter(self, job: str, seq: int, start: Start) -> Act:
        def begin(now: float) -> None:
            attempt = self._held.attempts[job] = Attempt(job, seq, start)
            if self._ending is not None:
                self._stops.evict(now, self._ending)
            elif self._held.here(attempt) and not self.is_sought(job):
                self._spawn(job, start)
            else:  # ordered for an earlier boot, or started before: never start a second time
                self._held.look(attempt)

        return begin

    def _updater(self, attempt: Attempt, index: int, parameter: str) -> Act:
        def write(now: float) -> None:
            attempt.updates[index] = parameter
            self._held.out.append(fx.Update(attempt.job, attempt.directory, index, parameter))

        return write

    def _spawn(self, job: str, start: Start) -> None:
        self._held.out.append(fx.Spawn(job, start, self._lease.number if start.get("lease") else None))

    def is_sought(self, job: str) -> bool:
        """Return whether the server started this attempt earlier and asks only for its state."""
        attempt = self._held.attempts.get(job)
        return attempt is not None and attempt.start is not None and bool(attempt.start.get("sought"))

    # -- events

    def notified(self, now: float, job: str, told: Claim | None) -> None:
        """Update the attempt's state from the content of its claim file, as its shim has sent it (``told``).

        If the shim has sent no valid content, order the claim file to be read instead.
        """
        attempt = self._held.undecided(job)
        if attempt is None:
            return
        if told is not None and self._held.here(attempt) and attempt.agrees(told):
            self._judge(now, attempt, fx.Seen(told, told.exit is None, now))
        else:
            self._held.look(attempt)

    def looked(self, now: float, job: str, seen: fx.Seen) -> None:
        """Update the attempt's state from the content of its claim file."""
        attempt = self._held.undecided(job)
        if attempt is not None:
            self._judge(now, attempt, seen)

    def shim_failed(self, now: float, job: str, sentence: str) -> None:
        """Handle the failure of an attempt's shim, for the reason ``sentence``.

        If no shim has claimed the attempt yet, another shim is started after a pause.
        """
        attempt = self._held.undecided(job)
        if attempt is None:
            return
        if not attempt.claimed:
            pause = min(LAST_RESPAWN_PAUSE_S, RESPAWN_PAUSE_S * 2.0**attempt.respawns)
            attempt.respawns += 1
            attempt.respawn_at = now + pause
            attempt.note = f"the attempt could not be prepared on its host and is tried again: {sentence}"
            self._reports.tell(attempt)
            self._prepared(f"the keeper cannot prepare any trial at present: {sentence}")
        self._held.look(attempt)

    def hurry(self, now: float) -> None:
        """Retry at once all starts that have failed, because a new lease allows attempts to run again."""
        for attempt in self._held.live():
            if not attempt.claimed and attempt.respawns:
                attempt.respawn_at = now
                self._held.look(attempt)

    def delayed(self, job: str, sentence: str) -> None:
        """Report ``sentence``, the reason why the attempt's shim is not forked yet."""
        attempt = self._held.unsealed(job)
        if attempt is not None and attempt.note != sentence:
            attempt.note = sentence
            self._reports.tell(attempt)

    def origin_missing(self, job: str, sentence: str) -> None:
        """End an attempt that was to continue from a checkpoint whose files are missing."""
        attempt = self._held.undecided(job)
        if attempt is not None and not attempt.claimed:
            attempt.baseless = sentence
            self._ledger.append(baseless_record(attempt), flush=False)
            self._held.out.append(fx.Abort(job, attempt.directory))

    def update_failed(self, now: float, update: fx.Update, sentence: str) -> None:
        """Report that the file of a further parameter set could not be written, and retry later."""
        attempt = self._held.unsealed(update.job)
        if attempt is not None:
            attempt.note = f"parameter set {update.number} could not be written yet: {sentence}"
            self._reports.tell(attempt)
            self._held.put_off(now + RETRY_S, update)

    def _prepared(self, trouble: str | None) -> None:
        """Set the error that prevents attempts from being started here, None without an error.

        Report a change.
        """
        if trouble != self.unprepared:
            self.unprepared = trouble
            self._reports.urgent = True

    # -- judgement

    def _judge(self, now: float, attempt: Attempt, seen: fx.Seen) -> None:
        claim = seen.claim
        here = self._held.here(attempt)
        if not attempt.agrees(claim) and (attempt.claimed or claim is not None):
            if here and self._is_put_off(now, attempt):
                return
            if here:
                self._judge_unread(now, attempt, alive=seen.alive)
            else:
                self._seals.seal(attempt, wire.HOST_LOST, _CUT_OFF)
            return
        if claim is None:
            self._judge_unclaimed(now, attempt)
            return
        if attempt.take(claim) and claim.exit is None and here:
            self._ledger.append(claimed_record(attempt), flush=False)
            self._prepared(None)
        if attempt.started is not None and not attempt.started_sent:
            self._reports.tell_soon(attempt, now + STARTED_WAIT_S)
        if claim.pid is None and attempt.stop is None and not here:
            self._seals.seal(attempt, wire.HOST_LOST, _UNBEGUN)  # the stop was lost with the host's power
        elif claim.pid is None and attempt.baseless is not None and attempt.stop is None:
            self._seals.seal(attempt, wire.CHECKPOINT_LOST, attempt.baseless)
        elif claim.pid is None:
            cause = "the attempt was stopped before its command was started"
            self._seals.seal(attempt, "never_started", cause)
        elif claim.failed is not None:
            cause = f"the command could not be started: {claim.failed[1]}"
            self._seals.seal(attempt, "never_started", cause)
        elif claim.exit is not None:
            if not (here and self._is_put_off(now, attempt)):
                self._seals.seal(attempt)
        elif claim.boot_id != self._held.boot_id or not here:
            self._seals.seal(attempt, wire.HOST_LOST, _CUT_OFF)
        elif not seen.alive:
            cause = f"nnimgr's process beside the command (pid {claim.pid}) was killed: no exit code is known"
            self._seals.sweep(attempt, cause)
        elif not attempt.watched:
            self._watch(now, attempt, (claim.pid, claim.start_time))

    def _is_put_off(self, now: float, attempt: Attempt) -> bool:
        """Return whether the attempt's end is looked at again later, because the host may shut down."""
        until = ends.doubt(attempt, now) if self._may_end else None
        if until is None:
            return False
        self._held.put_off(until, fx.Look(attempt.job, attempt.directory, attempt.shim))
        return True

    def _judge_unclaimed(self, now: float, attempt: Attempt) -> None:
        """Handle an attempt that no shim has claimed: start a shim, wait, or decide that it never starts."""
        if not self._held.here(attempt):
            self._seals.seal(attempt, wire.HOST_LOST, _UNBEGUN)
        elif self.is_sought(attempt.job):
            self._seals.seal(attempt, wire.HOST_LOST, _UNKNOWN)
        elif self._is_undone(attempt):
            self._held.put_off(now + RETRY_S, fx.Abort(attempt.job, attempt.directory))
        elif now < attempt.respawn_at:
            self._held.put_off(attempt.respawn_at, fx.Look(attempt.job, attempt.directory))
        elif attempt.start is not None:
            self._spawn(attempt.job, attempt.start)

    def _judge_unread(self, now: float, attempt: Attempt, *, alive: bool) -> None:
        """Handle a removed or damaged claim file: watch a known shim that runs, else kill all processes."""
        if alive and attempt.shim is not None:
            if not attempt.watched:
                self._watch(now, attempt, attempt.shim)
            return
        shim = "the shim" if attempt.shim is None else f"the shim (pid {attempt.shim[0]})"
        self._held.out.append(fx.Fence(attempt.job, attempt.directory))
        cause = f"the claim file was removed or overwritten, and {shim} has left no other record"
        self._seals.sweep(attempt, cause)

    def _watch(self, now: float, attempt: Attempt, shim: fx.Shim) -> None:
        attempt.watched = True
        self._held.out.append(fx.Watch(attempt.job, attempt.directory, shim))
        self._reports.grown(attempt.job)
        if attempt.stop is not None:
            self._stops.begin(now, attempt, shim)
        else:
            self._saves.begin(attempt)
