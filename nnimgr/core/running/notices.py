"""Notices: present conditions that users see and that are not stored."""

from __future__ import annotations

from dataclasses import dataclass

from nnimgr.rules.checkpoint_limit import excess_of
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.terms import TrialStatus

__all__ = ["UNSAVED", "Notice", "notices_of", "unsaved_notice"]

FRUITLESS = 5  # after this number of trials in a row without a result, a notice is shown
UNSAVED = "scheduler without checkpoints"  # name of the notice about trials that save nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Present condition that users see and that is not stored.

    ``seconds``: duration of the condition; None if unknown. ``detail``: a stack trace, or "". ``counted``:
    the subject with a number that changes while the condition remains the same; "" without such a number.
    """

    subject: str
    seconds: float | None = None
    detail: str = ""
    counted: str = ""

    @property
    def sentence(self) -> str:
        if self.counted:
            return self.counted
        return self.subject if self.seconds is None else f"{self.subject} for {self.seconds:.0f} s"


def notices_of(state: ExperimentState) -> dict[str, Notice]:
    """Return the notices that follow from the state of an experiment, by subject."""
    found = {}
    if state.missing:
        sentence = (
            "the database was replaced by an older one, or lost its write-ahead log: "
            f"{state.missing} recorded events are missing; trials without a record were stopped"
        )
        found["database"] = Notice(subject=sentence)
    if state.fruitless >= FRUITLESS:
        found["results"] = _fruitless(state)
    if (excess := excess_of(state)) is not None:
        found["checkpoints"] = Notice(subject=excess)
    return found


def _fruitless(state: ExperimentState) -> Notice:
    """Return the notice that the last trials, or all of them, have ended without a usable result."""
    ended = {status: count for status, count in state.counts.items() if status.terminal}
    judged = sum(ended.get(status, 0) for status in (TrialStatus.SUCCEEDED, TrialStatus.FAILED))
    how = "ended" if sum(ended.values()) == judged else "ended without being stopped"
    sentence = f"trials that {how} have no result that the tuner can use; for example {state.fruitless_since}"
    which = "the last" if state.fruitless < judged else "all"
    return Notice(subject=f"{which} {sentence}", counted=f"{which} {state.fruitless} {sentence}")


def unsaved_notice(scheduler: str) -> Notice:
    """Return the notice that a scheduler could do nothing with trials that had saved nothing.

    ``scheduler``: its name or class name.
    """
    return Notice(
        subject=f"the scheduler {scheduler} left trials as they were, because they had saved no checkpoint "
        "when it compared them; let the trials call nni.save_checkpoint before that"
    )
