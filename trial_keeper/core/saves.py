"""Asks running trials to save their state, by order of the server. The trials continue to run."""

from __future__ import annotations

from trial_keeper.core import effects as fx
from trial_keeper.core.recovery import asked_record, save_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.core.attempt import Attempt
    from trial_keeper.core.held import Held
    from trial_keeper.core.ledger import Act, Ledger
    from trial_keeper.core.records import SaveRecord
    from trial_keeper.core.reports import Reports

RETRY_S = 1.0
_ALONE = (
    "the trial was asked to save its state, but its code does not look for such "
    "requests (nni.should_checkpoint), so it saves only when its code does so anyway"
)
_LATE = "the trial was asked to save its state, and has not done so within"
_UNWRITTEN = "the trial could not be asked to save its state yet: the request cannot be written on its host"


class Saves:
    """Asks the trials of running attempts to save their state, and reports those that do not answer."""

    def __init__(self, held: Held, ledger: Ledger, reports: Reports) -> None:
        self._held = held
        self._ledger = ledger
        self._reports = reports

    def order(self, seq: int, attempt: Attempt, within: float) -> tuple[SaveRecord, Act]:
        """Return the journal record of an order to save, and the action after the record is written.

        ``within``: seconds after which a missing answer is reported.
        """

        def ask(now: float) -> None:
            attempt.wish, attempt.wish_until = within, None
            self.begin(attempt)

        record = save_record(attempt.job, within)
        record["seq"] = seq
        return record, ask

    def begin(self, attempt: Attempt) -> None:
        """Ask the attempt's trial, if that is ordered and the trial runs.

        A keeper that was started again asks again, because its predecessor may have died before it asked.
        """
        runs = attempt.shim is not None and not attempt.sealing and self._held.here(attempt)
        if attempt.wish is not None and attempt.stop is None and runs:
            self._held.out.append(fx.AskSave(attempt.job, attempt.directory, True, stays=True))

    def seen(self, now: float, attempt: Attempt, *, waits: bool, asks: bool) -> None:
        """Look again later, or complete the order. ``waits``, ``asks``: see ``KeeperCore.save_seen``."""
        if attempt.wish is None:
            return
        if attempt.wish_until is None and waits:
            attempt.wish_until = now + attempt.wish
            self._held.put_off(attempt.wish_until, fx.AskSave(attempt.job, attempt.directory, False))
        elif attempt.wish_until is None and asks:
            self._note(attempt, _UNWRITTEN)
            self._held.put_off(now + RETRY_S, fx.AskSave(attempt.job, attempt.directory, True, stays=True))
        elif attempt.wish_until is None or now >= attempt.wish_until:
            if waits:
                self._note(attempt, f"{_LATE} {attempt.wish:g} s")
            elif not asks:
                self._note(attempt, _ALONE)
            attempt.wish = attempt.wish_until = None
            self._ledger.append(asked_record(attempt.job), flush=False)

    def _note(self, attempt: Attempt, sentence: str) -> None:
        if attempt.note != sentence:
            attempt.note = sentence
            self._reports.tell(attempt)
