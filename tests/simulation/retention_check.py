"""Checks of what is deleted: neither the checkpoints that the configuration keeps, nor pinned ones."""

from __future__ import annotations

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.copy_check import CopyCheck
from tests.simulation.curve import Curve, Mark
from tests.simulation.disk import SIZE
from tests.simulation.evidence import Evidence
from tests.simulation.kernel import Kernel


class RetentionCheck:
    """Check of the orders to delete checkpoints. ``pins``: the pinned checkpoints, by job and number."""

    def __init__(self, kernel: Kernel, evidence: Evidence, copies: CopyCheck) -> None:
        self._kernel, self._evidence, self._copies = kernel, evidence, copies
        self.pins: dict[tuple[str, int], Mark] = {}
        # ended trial -> what it has left on hosts; the trials in the order in which they ended
        self._left: dict[str, list[Mark]] = {}
        self._excess: dict[str, set[Mark]] = {}  # trial that has just ended -> what is to be deleted now
        self._limits = f.Limits(trial_concurrency=1)
        self._minimises = False  # the smallest result is the best

    def configure(self, fact: f.ExperimentCreated | f.ConfigChanged) -> None:
        self._limits = fact.limits
        if fact.traits is not None:
            self._minimises = fact.traits.minimises

    def pinned(self, fact: f.CheckpointPinned) -> None:
        """Record that a user has pinned a checkpoint, or has taken the pin back."""
        name = fact.job_id, fact.number
        if not fact.pinned:
            self.pins.pop(name, None)
            self._kernel.counts["unpinned"] += 1
            return
        mark = self.pins[name] = self._copies.saved_as[name]
        ended = self._evidence.trials[mark.trial_id].ended is not None
        self._kernel.counts["pinned after the end" if ended else "pinned"] += 1

    def pruned(self, fact: f.CheckpointsPruned) -> None:
        """Check that no pinned checkpoint is to be deleted, and nothing of an ended trial without need."""
        trial_id, attempt = trial_of_job(fact.job_id)
        for (job_id, number), mark in self.pins.items():
            if job_id == fact.job_id and number <= fact.up_to and number not in fact.keep:
                self._kernel.fail(f"{mark} is pinned, and it is to be deleted: {fact}")
        if fact.keeper_id is not None and trial_id in self._left:
            deleted = {mark for mark in self._excess.get(trial_id, ()) if _is_named(mark, attempt, fact)}
            if deleted:
                self._excess[trial_id] -= deleted
                self._kernel.counts["deleted at the end"] += 1
            else:
                self._limited(fact)
            self._left[trial_id] = [
                mark
                for mark in self._left[trial_id]
                if mark.attempt != attempt or mark.number > fact.up_to or mark.number in fact.keep
            ]

    def ended(self, trial_id: str) -> None:
        """Record the end of a trial, and what it leaves on hosts."""
        marks = self._evidence.trials[trial_id].curve.marks
        stay = {
            *marks[-self._limits.checkpoints_kept :],
            *self._best_of(marks),
            *self._protected(but=trial_id),
        }
        if self._evidence.phased is None:  # a trial with several parameter sets never continues
            self._excess[trial_id] = {mark for mark in marks if mark not in stay}
        self._left[trial_id] = self._held(trial_id)

    def committed(self) -> None:
        """Check after each turn that trials that have ended leave no more than the configuration keeps."""
        for trial_id, excess in self._excess.items():
            if left := [mark for mark in excess if self._copies.is_on_host(mark)]:
                self._kernel.fail(f"trial {trial_id} has ended, and has left {left}, which nobody needs")
        self._excess.clear()

    def gone(self, keeper_id: str) -> None:
        """Record that a machine is no longer used. What ended trials have left there no longer counts."""
        for trial_id, marks in self._left.items():
            self._left[trial_id] = [mark for mark in marks if mark.keeper_id != keeper_id]

    def forget(self) -> None:
        """Forget what is recorded, because an older copy replaces the database."""
        self.pins.clear()
        self._left.clear()
        self._excess.clear()

    def _limited(self, fact: f.CheckpointsPruned) -> None:
        """Check a deletion because of the limit: it is exceeded, and no trial has ended before this one that
        still has something to delete.
        """
        limit = self._limits.checkpoints_limit
        held = [mark for trial_id in self._evidence.trials for mark in self._held(trial_id)]
        if limit is None or SIZE * len(held) <= limit:
            self._kernel.fail(f"{len(held)} checkpoints do not exceed the limit: {fact}")
        for trial_id in self._left:
            if trial_id == trial_of_job(fact.job_id)[0]:
                break
            for mark in self._held(trial_id):
                if mark not in self._protected():
                    self._kernel.fail(f"{mark} is of a trial that ended earlier, and is not deleted: {fact}")
        self._kernel.counts["deleted by the limit"] += 1

    def _held(self, trial_id: str) -> list[Mark]:
        """Return the checkpoints of a trial that are on hosts."""
        marks = self._left.get(trial_id)
        if marks is None:
            curve = self._evidence.trials[trial_id].curve
            pins = [mark for mark in self.pins.values() if mark.trial_id == trial_id]
            marks = list(dict.fromkeys([*curve.marks, *pins]))
        return [mark for mark in marks if self._copies.is_on_host(mark)]

    def _protected(self, *, but: str = "") -> set[Mark]:
        """Return the checkpoints that are pinned, or from which live trials may continue, except ``but``.

        A trial that has saved a state of its own no longer needs the one with which it began.
        """
        found = set(self.pins.values())
        for trial_id, trial in self._evidence.trials.items():
            if trial.ended is None and trial_id != but:
                origin = None if trial.curve.marks else trial.curve.origin
                found |= {mark for mark in (origin, trial.curve.coming) if mark is not None}
        return found

    def needed(self, curve: Curve) -> set[Mark | None]:
        """Return the checkpoints that a live trial keeps for itself."""
        marks, kept = curve.marks, self._limits.checkpoints_kept
        copied = [mark for mark in marks if self._copies.is_copied(mark)]
        return {*marks[-kept:], curve.origin, *copied[-1:], *self._best_of(marks)}

    def _best_of(self, marks: list[Mark]) -> list[Mark]:
        """Return the checkpoints with the best results; of two equal results, the newer one is better."""
        sign = 1 if self._minimises else -1
        ranked = [(sign * mark.value, -mark.position, mark) for mark in marks if mark.value is not None]
        ordered = sorted(ranked, key=lambda entry: entry[:2])
        return [mark for _, _, mark in ordered[: self._limits.checkpoints_best]]


def _is_named(mark: Mark, attempt: int, fact: f.CheckpointsPruned) -> bool:
    """Return whether the fact allows to delete the checkpoint of an attempt."""
    place = mark.attempt, mark.keeper_id
    return place == (attempt, fact.keeper_id) and mark.number <= fact.up_to and mark.number not in fact.keep
