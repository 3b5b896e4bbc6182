"""Checks of the server's copies of checkpoints, and of machines that leave with checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.curve import Mark
from tests.simulation.evidence import Evidence
from tests.simulation.kernel import Kernel

if TYPE_CHECKING:
    from tests.simulation.copies import StoreDisk
    from tests.simulation.host import Host

CopyFact = f.CheckpointKept | f.CheckpointLost | f.MachineAdded | f.MachineRemoved | f.MachineGone


class CopyCheck:
    """Check of the promises about copies of checkpoints. ``saved_as``: checkpoint by its job and number."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence
        self.disk: StoreDisk | None = None  # the server's copies
        self.saved_as: dict[tuple[str, int], Mark] = {}
        self.enabled = False  # the experiment copies checkpoints
        self._copied: set[tuple[str, int]] = set()  # job and number of each recorded copy
        self._removing: set[str] = set()  # hosts that are being removed
        self._left: set[str] = set()  # hosts that were removed
        # job and number of each checkpoint whose host lacks its files: facts that an older database does not
        # have had them deleted
        self._missing: set[tuple[str, int]] = set()

    def fact(self, fact: CopyFact) -> None:
        match fact:
            case f.CheckpointKept():
                self._copied.add((fact.job_id, fact.number))
                self.whole()
            case f.CheckpointLost():
                self._lost(fact)
            case f.MachineRemoved():
                self._removing.add(fact.keeper_id)
                self._evidence.removed.add(fact.keeper_id)
            case f.MachineGone():
                self._gone(fact.keeper_id)
                if fact.returns:
                    self._left.discard(fact.keeper_id)
            case f.MachineAdded():
                self._left.discard(fact.keeper_id)
                self._removing.discard(fact.keeper_id)

    def pruned(self, job_id: str, number: int) -> None:
        """Record that a copy may be deleted."""
        self._copied.discard((job_id, number))

    def forget(self) -> None:
        """Forget what is recorded, because an older copy replaces the database."""
        for recorded in (self._copied, self._removing, self._left, self._missing):
            recorded.clear()

    def is_copied(self, mark: Mark) -> bool:
        return _name(mark) in self._copied

    def is_on_host(self, mark: Mark) -> bool:
        same = self._evidence.instances.get(mark.keeper_id) == mark.instance
        return same and mark.keeper_id not in self._left and _name(mark) not in self._missing

    def is_usable(self, mark: Mark) -> bool:
        return self.is_on_host(mark) or self.is_copied(mark)

    def _lost(self, fact: f.CheckpointLost) -> None:
        """Check that a checkpoint is reported as lost only if its host is gone, or is removed."""
        trial_id, attempt = trial_of_job(fact.job_id)
        if fact.keeper_id is None:
            if not self._evidence.older:
                self._kernel.fail(f"a copy is lost: {fact}")
            self._copied.discard((fact.job_id, fact.number))
        elif self._evidence.older:
            self._missing.add((fact.job_id, fact.number))
        curve = self._evidence.trials[trial_id].curve
        for mark in [m for m in curve.marks if (m.attempt, m.number) == (attempt, fact.number)]:
            host = self._evidence.hosts[mark.keeper_id]
            there = host.instance == mark.instance and mark.keeper_id not in self._removing
            if fact.keeper_id is not None and there and not self._evidence.older:
                self._kernel.fail(f"{mark} of trial {trial_id} is on its host: {fact}")
            if fact.keeper_id is not None and not self.is_copied(mark):
                curve.marks.remove(mark)
        self._kernel.counts["checkpoint lost"] += 1

    def _gone(self, keeper_id: str) -> None:
        """Check that a machine has left only after the newest checkpoints on it were copied or given up."""
        self._removing.discard(keeper_id)
        self._evidence.silent.discard(keeper_id)  # nothing more is expected from its keeper
        self._kernel.counts["machine gone"] += 1
        if self._evidence.phased is not None or not self.enabled:
            return
        for trial_id, trial in self._evidence.trials.items():
            usable = [mark for mark in trial.curve.marks if self.is_usable(mark)]
            if trial.ended is None and usable and not self._evidence.older:
                if usable[-1].keeper_id == keeper_id and not self.is_copied(usable[-1]):
                    self._kernel.fail(f"{keeper_id} has left with {usable[-1]} of trial {trial_id}")
        self._left.add(keeper_id)

    def left(self, host: Host, *, done: bool) -> None:
        """Check that the checkpoints of the trials that ran last on this host are copied.

        ``done``: the host shuts down, and its keeper has left because the server needs nothing more from
        there. Otherwise there is nothing to check.
        """
        if not done:
            return
        self._kernel.counts["left in time"] += 1
        unchecked = self._evidence.phased is not None or self._evidence.older or host.name in self._removing
        if unchecked or not self.enabled:
            return
        for trial_id, trial in self._evidence.trials.items():
            usable = [mark for mark in trial.curve.marks if self.is_usable(mark)]
            if trial.ended is not None or not usable or self.is_copied(usable[-1]):
                continue
            mark = usable[-1]
            here = (mark.keeper_id, mark.instance) == (host.name, host.instance)
            if here and not self._has_run_since(trial_id, mark.attempt, trial.attempt):
                self._kernel.fail(f"the keeper on {host.name} has left with {mark} of trial {trial_id}")

    def _has_run_since(self, trial_id: str, attempt: int, last: int) -> bool:
        """Return True if an attempt of the trial after this one has a place."""
        jobs = (f"exp-{trial_id}-{number}" for number in range(attempt + 1, last + 1))
        return any(job in self._evidence.attempts and self._evidence.attempts[job].place for job in jobs)

    def whole(self) -> None:
        """Check that all recorded copies are whole and durable, as after a power loss."""
        assert self.disk is not None
        for job_id, number in self._copied if not self._evidence.older else ():
            copy, saved = self.disk.copies.get((job_id, number)), self.disk.find((job_id, number))
            mark = self.saved_as.get((job_id, number))
            if copy is None or not copy.flushed or not copy.named or saved is None:
                self._kernel.fail(f"the copy of {job_id}/{number} is {copy}")
            elif mark is None or (saved.step, saved.state) != (mark.step, mark.state):
                self._kernel.fail(f"the copy of {job_id}/{number} has {saved} in place of {mark}")

    def deleted(self, name: tuple[str, int]) -> None:
        """Check that the deletion of a copy was recorded first."""
        if name in self._copied and not self._evidence.older:
            self._kernel.fail(f"the copy of {name} was deleted before this was recorded")


def _name(mark: Mark) -> tuple[str, int]:
    """Return the job and the number of a checkpoint."""
    return f"exp-{mark.trial_id}-{mark.attempt}", mark.number
