"""Seals attempts at their end: kills remaining processes, counts the metrics, and reports the end."""

from __future__ import annotations

from trial_keeper.core import effects as fx
from trial_keeper.core import ends
from trial_keeper.core.recovery import final_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.held import Held
    from trial_keeper.core.ledger import Ledger
    from trial_keeper.core.reports import Reports

SWEEP_PAUSE_S = 0.05
SWEEPS = 200


def bad_header(offset: int) -> str:
    """Return the error message for a metrics file that is unreadable from byte ``offset`` on."""
    return f"the metrics file holds no frame header at byte {offset}; nothing from there on is read"


class Seals:
    """Seals attempts: kills their remaining processes, counts their metrics and records their ends."""

    def __init__(self, held: Held, ledger: Ledger, reports: Reports) -> None:
        self._held = held
        self._ledger = ledger
        self._reports = reports

    def sweep(self, attempt: Attempt, cause: str) -> None:
        """Kill the remaining processes of an attempt, because its shim has ended unexpectedly.

        Then seal the attempt. ``cause``: sentence that explains the end.
        """
        attempt.sealing = True
        attempt.cause = cause
        self._held.out.append(fx.Sweep(attempt.job, attempt.directory))

    def swept(self, now: float, job: str, pids: list[int]) -> None:
        """Kill the attempt's processes again if some were found; else count the metrics and seal the attempt.

        ``pids``: processes of the attempt that were found and killed this time.
        """
        attempt = self._held.unsealed(job)
        if attempt is None:
            return
        attempt.sweeps += 1
        attempt.empty_sweeps = 0 if pids else attempt.empty_sweeps + 1
        if attempt.empty_sweeps >= 2 or attempt.sweeps >= SWEEPS:
            cause = attempt.cause
            if pids:
                cause = f"{cause}; processes that could not be killed: {', '.join(map(str, pids))}"
            self.seal(attempt, None, cause)
        else:
            pause = SWEEP_PAUSE_S if pids else 0.0
            self._held.put_off(now + pause, fx.Sweep(job, attempt.directory))

    def seal(self, attempt: Attempt, verdict: str | None = None, cause: str | None = None) -> None:
        """Begin to count the metrics of an attempt whose processes have ended.

        After the count, the attempt is sealed. ``verdict``: reason of the end; None: the claim file decides.
        ``cause``: sentence that explains the reason.
        """
        attempt.sealing = True
        attempt.verdict = verdict
        attempt.cause = cause
        attempt.tally_position, attempt.tally_offset = attempt.position, attempt.offset
        self._held.out.append(fx.Count(attempt.job, attempt.directory, attempt.tally_offset))

    def counted(self, now: float, job: str, tally: fx.Tally) -> bool:
        """Add the count of one piece of the metrics file to the attempt's total.

        Return whether the attempt is sealed now.
        """
        attempt = self._held.unsealed(job)
        if attempt is None:
            return False
        attempt.tally_position += tally.frames
        attempt.tally_offset = tally.end
        if tally.more:
            self._held.out.append(fx.Count(job, attempt.directory, tally.end))
            return False
        self._sealed(now, attempt, tally)
        return True

    def _sealed(self, now: float, attempt: Attempt, tally: fx.Tally) -> None:
        here = self._held.here(attempt)
        at = attempt.instant(now, tally.at, here=here)
        attempt.final = ends.final_of(attempt, size=tally.size, at=at, here=here)
        attempt.start = None
        attempt.updates.clear()
        if tally.bad:
            attempt.note = bad_header(tally.end)
        elif tally.printed:
            attempt.note = (
                'no results: NNI\'s SDK has printed them, because NNI_PLATFORM is not "local" any more'
            )
        elif tally.end < tally.size:
            attempt.note = f"the metrics file ends in an incomplete frame of {tally.size - tally.end} bytes"
        elif tally.end > tally.size:
            attempt.note = "the metrics file was deleted or cut while the trial ran: metrics may be lost"
        self._held.out.append(fx.Unwatch(attempt.job, attempt.directory))
        self._ledger.append(
            final_record(attempt, attempt.final), flush=False
        )  # no flush: the files allow to derive a lost record again
        if attempt.doomed:
            self.forget(attempt)
        else:
            self._reports.tell(attempt)
            self._reports.grown(attempt.job)

    def forget(self, attempt: Attempt) -> None:
        """Drop the attempt from the keeper's state, but keep its files.

        If the journal loses the record of this step, the next keeper only has more work at its start.
        """
        self._ledger.append({"k": "gone", "job": attempt.job}, flush=False)
        del self._held.attempts[attempt.job]
        self._reports.forget(attempt.job)
