"""Stops attempts: by order of the server, without contact to the server, or when the host shuts down."""

from __future__ import annotations

from trial_keeper.core import effects as fx
from trial_keeper.core.recovery import stop_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from trial_keeper.attempt.ending import Ending
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.held import Held
    from trial_keeper.core.ledger import Ledger
    from trial_keeper.core.records import StopRecord
    from trial_keeper.core.reports import Reports
    from trial_keeper.core.seals import Seals

RETRY_S = 1.0
SAVE_LOOK_S = 0.005  # pause between two looks whether a trial has saved its state
KILL_GRACE_S = 10.0
OBEY_S = 12.0  # after the grace, a shim needs at most this time to kill all processes or give up
KILLS = 5  # most tries to kill a shim, one per second


class Stops:
    """Stops attempts, and kills the shims that do not obey a stop."""

    def __init__(self, held: Held, ledger: Ledger, reports: Reports, seals: Seals) -> None:
        self._held = held
        self._ledger = ledger
        self._reports = reports
        self._seals = seals
        self._kills: dict[str, tuple[float, fx.Kill]] = {}  # by job: when to kill its shim

    def order(self, now: float, attempt: Attempt, grace: float, save: float | None) -> StopRecord:
        """Stop the attempt unless a stop is already ordered; return the journal record of the stop.

        ``save``: seconds in which the trial may first save its state, or None.
        """
        if attempt.stop is None:
            attempt.save = save
            self._stop(now, attempt, grace)
        return stop_record(attempt)

    def doom_all(self, now: float) -> None:
        """Stop all attempts: another keeper replaces this keeper, whose attempts count as lost."""
        self._held.out.append(
            fx.Say("the server has replaced this keeper by another keeper: all attempts are stopped")
        )
        for job in list(self._held.attempts):
            self.doom(now, job)

    def doom(self, now: float, job: str) -> None:
        """Stop and forget an attempt that the server does not know."""
        attempt = self._held.attempts.get(job)
        if attempt is None:
            return
        if not attempt.live:
            self._seals.forget(attempt)
        elif not attempt.doomed:
            attempt.doomed = True
            self._stop(now, attempt, KILL_GRACE_S)
            self._ledger.append(stop_record(attempt))

    def orphans(self) -> list[Attempt]:
        """Return the live attempts for which no stop is ordered."""
        return [attempt for attempt in self._held.live() if attempt.stop is None]

    def stop_orphans(self, now: float) -> None:
        """Stop all attempts because the server has not answered for too long."""
        for attempt in self.orphans():
            attempt.orphaned = True
            self._stop(now, attempt, KILL_GRACE_S)
            self._ledger.append(stop_record(attempt))

    def evict(self, now: float, order: Ending) -> None:
        """Stop all attempts because the host shuts down.

        Trials get time to save their state only if the order to end has come early enough.
        """
        if order.save is None:
            for attempt in self._held.live():
                attempt.save = None
                self.save_seen(now, attempt.job, waits=False)
        for attempt in self.orphans():
            self._held.out.append(fx.Say(f"{attempt.job} is stopped because the host is about to shut down"))
            attempt.evicted = True
            attempt.save = order.save
            self._stop(now, attempt, order.grace)
            self._ledger.append(stop_record(attempt))

    def _stop(self, now: float, attempt: Attempt, grace: float) -> None:
        if attempt.stop is None:
            attempt.stop = grace
        if attempt.sealing or not self._held.here(attempt):
            return
        if attempt.doubted_until is not None:
            self._held.look(attempt)  # its command has ended, and now it is known why
        elif attempt.shim is not None:
            self.begin(now, attempt, attempt.shim)
        else:
            self._held.out.append(fx.Abort(attempt.job, attempt.directory))

    def begin(self, now: float, attempt: Attempt, shim: fx.Shim) -> None:
        """Begin an ordered stop of a running attempt: ask its trial to save, or signal its shim at once."""
        assert attempt.stop is not None
        if attempt.save is None or attempt.doomed:
            attempt.save_until = None
            self.signal(now, attempt, shim, attempt.stop)
        elif attempt.save_until is None:
            attempt.save_until = now + attempt.save
            self._held.out.append(fx.AskSave(attempt.job, attempt.directory, True))

    def save_seen(self, now: float, job: str, *, waits: bool) -> None:
        """Signal the shim if the trial has saved its state, cannot save it, or has used up its time.

        ``waits``: the trial has been asked, and has not answered yet.
        """
        attempt = self._held.undecided(job)
        if attempt is None or attempt.shim is None or attempt.stop is None or attempt.save_until is None:
            return
        if waits and now < attempt.save_until:
            again = fx.AskSave(job, attempt.directory, False)
            self._held.put_off(min(now + SAVE_LOOK_S, attempt.save_until), again)
        else:
            attempt.save_until = None
            self.signal(now, attempt, attempt.shim, attempt.stop)

    def signal(self, now: float, attempt: Attempt, shim: fx.Shim, grace: float) -> None:
        """Order the shim to stop its attempt's command within ``grace`` seconds.

        If the shim still runs OBEY_S after that, it is killed.
        """
        self._held.out.append(fx.Signal(attempt.job, attempt.directory, shim, grace))
        self._kills[attempt.job] = now + grace + OBEY_S, fx.Kill(attempt.job, attempt.directory, shim)

    def signal_failed(self, now: float, signal: fx.Signal, sentence: str) -> None:
        """Retry a stop that failed, until the attempt ends: the signal or the grace was not delivered."""
        attempt = self._held.undecided(signal.job)
        if attempt is None:
            return
        note = f"the order to stop could not be passed to the attempt's shim at first: {sentence}"
        if attempt.note != note:
            attempt.note = note
            self._reports.tell(attempt)
            self._held.out.append(fx.Say(f"{attempt.job}: {note}"))
        self._held.put_off(now + RETRY_S, signal)

    def killed(self, now: float, order: fx.Kill) -> None:
        """Check whether the shim of an attempt has ended after SIGKILL.

        If it still runs after KILLS tries, seal the attempt anyway, because the shim hangs in the kernel.
        """
        attempt = self._held.undecided(order.job)
        if attempt is None:
            return
        attempt.kills += 1
        if attempt.kills > KILLS:
            self._seals.sweep(attempt, f"the shim (pid {order.shim[0]}) did not end although it was killed")
        else:
            self._kills[order.job] = now + RETRY_S, order
            self._held.look(attempt)

    def release(self, now: float) -> None:
        """Kill each shim that did not obey its stop in time."""
        for job, (at, kill) in list(self._kills.items()):
            if at <= now:
                del self._kills[job]
                self._held.out.append(kill)

    def times(self) -> Iterable[float]:
        """Return an iterator over the times at which to kill shims that have not obeyed."""
        return (at for at, _ in self._kills.values())

    def ended(self, job: str) -> None:
        """Cancel the scheduled kill of an attempt's shim, because the attempt is sealed."""
        self._kills.pop(job, None)
