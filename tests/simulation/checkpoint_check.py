"""Checks of checkpoints: what hosts keep and attempts load, against what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.copy_check import CopyCheck, CopyFact
from tests.simulation.curve import Mark, beginning, link, shown
from tests.simulation.database import Shown
from tests.simulation.deletion_check import DeletionCheck
from tests.simulation.disk import Saved
from tests.simulation.evidence import Attempt, Evidence, Trial
from tests.simulation.kernel import Kernel
from tests.simulation.retention_check import RetentionCheck
from training_services.keepers.host import attempt_folder
from trial_keeper import wire

if TYPE_CHECKING:
    from tests.simulation.host import Host

CheckedFact = (
    f.ExperimentCreated
    | f.ConfigChanged
    | f.CheckpointsPruned
    | f.CheckpointPinned
    | f.Decided
    | f.DecisionRefused
    | CopyFact
)


class CheckpointCheck:
    """Check of the promises about checkpoints."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence
        # trial -> the first step of its present leg, and its state before each step from there on
        self._states: dict[str, tuple[int, list[int]]] = {}
        self.deletions = DeletionCheck(kernel, evidence)
        self.copies = CopyCheck(kernel, evidence)
        self._retention = RetentionCheck(kernel, evidence, self.copies)

    def _state(self, trial_id: str, step: int) -> int:
        """Return the state before this step in a run of the trial's present leg without interruption."""
        first, states = self._states.setdefault(trial_id, (0, [beginning(trial_id)]))
        while first + len(states) <= step:
            states.append(link(states[-1], first + len(states) - 1))
        return states[step - first]

    # ---- on the hosts -------------------------------------------------------------------------------------

    def loaded(
        self, job: str, host: Host, instance: str | None, start: wire.Start, saved: Saved | None
    ) -> None:
        """Check that an attempt starts from its recorded origin. ``saved``: what its program has found."""
        trial_id, number = trial_of_job(job)
        attempt, trial = self._evidence.attempts[job], self._evidence.trials.get(trial_id)
        if attempt.place is None or trial is None or trial.attempt != number:
            return
        origin = trial.curve.origin
        if origin is None or "origin" not in start:
            if origin is not None or "origin" in start:
                self._kernel.fail(f"attempt {job} starts from {start.get('origin')}, recorded is {origin}")
            return
        named = start["origin"]["directory"], start["origin"]["number"]
        if named != (_folder(origin.trial_id, origin.attempt), origin.number):
            self._kernel.fail(f"attempt {job} starts from {named}, recorded is {origin}")
        elif saved is None and (instance != host.instance or self._evidence.older):
            return
        elif saved is None or (saved.step, saved.state) != (origin.step, origin.state):
            self._kernel.fail(f"attempt {job} continues from {saved}, recorded is {origin}")

    def host(self, host: Host) -> None:
        """Check that all recorded checkpoints on the host are whole, as after a power loss."""
        for trial in self._evidence.trials.values():
            for mark in (*trial.curve.marks, *self._borrowed(trial)):
                self._check_whole(mark, host)
        for mark in self._retention.pins.values():
            self._check_whole(mark, host)

    def _borrowed(self, trial: Trial) -> list[Mark]:
        """Return the checkpoints that this trial may continue from, and that are not on its own branch."""
        if trial.ended is not None:
            return []
        curve = trial.curve
        origin = curve.origin if not curve.marks else None
        return [mark for mark in (origin, curve.coming) if mark is not None]

    def _check_whole(self, mark: Mark, host: Host) -> None:
        if host.name != mark.keeper_id or host.instance != mark.instance or self._evidence.older:
            return
        saved = host.files(_folder(mark.trial_id, mark.attempt)).checkpoints.get(mark.number)
        if saved is None or (saved.step, saved.state) != (mark.step, mark.state):
            self._kernel.fail(f"checkpoint {mark} is {saved} on {host.name}")

    # ---- what is recorded ---------------------------------------------------------------------------------

    def frame(self, trial_id: str, fact: f.Fact, step: int | None) -> None:
        """Check that a frame continues the trial's curve. ``step``: the trial's step that has written it."""
        curve = self._evidence.trials[trial_id].curve
        if step is not None and step != curve.step:
            self._kernel.fail(f"trial {trial_id} shows step {step} in place of step {curve.step}: {fact}")
        elif isinstance(fact, f.MetricReported):
            expected = shown(self._state(trial_id, curve.step + 1), curve.step)
            if abs(float(fact.text)) != expected:
                self._kernel.fail(f"trial {trial_id} shows {fact.text} in place of {expected}: {fact}")
            phased = self._evidence.phased is not None
            if fact.type == "PERIODICAL" and fact.sequence != curve.reports and not phased:
                self._kernel.fail(f"trial {trial_id} shows {fact} as number {curve.reports}")
        curve.take(fact if isinstance(fact, f.MetricReported) else None, step)

    def reported(self, fact: f.CheckpointReported) -> None:
        """Check a checkpoint that becomes durable: it is on its host. Its frame was taken."""
        trial_id, number = trial_of_job(fact.job_id)
        attempt, curve = self._evidence.attempts[fact.job_id], self._evidence.trials[trial_id].curve
        assert attempt.place is not None
        if fact.number <= attempt.saved:
            self._kernel.fail(f"attempt {fact.job_id} has saved number {fact.number} again: {fact}")
        if fact.step != curve.step:
            self._kernel.fail(f"trial {trial_id} has saved step {fact.step} in place of {curve.step}: {fact}")
        attempt.saved = fact.number
        place = attempt.place
        mark = Mark(
            trial_id=trial_id,
            state=self._state(trial_id, curve.step),
            attempt=number,
            number=fact.number,
            keeper_id=place.keeper_id,
            instance=place.instance,
            position=len(curve.frames),
            reports=curve.reports,
            step=curve.step,
            value=curve.latest,
        )
        if fact.reports != curve.reports:
            self._kernel.fail(f"{fact} is recorded after {curve.reports} results")
        curve.marks.append(mark)
        self.copies.saved_as[fact.job_id, fact.number] = mark
        self._check_whole(mark, self._evidence.hosts[place.keeper_id])

    def fact(self, fact: CheckedFact) -> None:
        match fact:
            case f.CheckpointsPruned():
                self._pruned(fact)
            case f.CheckpointPinned():
                self._retention.pinned(fact)
            case f.Decided(kind=f.DecisionKind.EXPLOIT):
                self._exploited(fact)
            case f.DecisionRefused():
                self._refused(fact)
            case f.ExperimentCreated() | f.ConfigChanged():
                self._retention.configure(fact)
                self.copies.enabled = fact.limits.keeps_copies
            case f.Decided():
                return  # a pause or its end
            case _:
                self.copies.fact(fact)
                if isinstance(fact, f.MachineGone) and not fact.returns:
                    self._retention.gone(fact.keeper_id)

    def committed(self) -> None:
        """Check after each turn that is durable."""
        self._retention.committed()

    def forget(self) -> None:
        """Forget what is recorded, because an older copy replaces the database."""
        self._states.clear()
        self._retention.forget()
        self.copies.forget()

    def _pruned(self, fact: f.CheckpointsPruned) -> None:
        """Check that nothing is ordered to be deleted that a live trial may need."""
        trial_id, attempt = trial_of_job(fact.job_id)
        trial = self._evidence.trials[trial_id]
        curve = trial.curve
        for number in range(1, fact.up_to + 1):
            if number not in fact.keep:
                self.copies.pruned(fact.job_id, number)
        self._retention.pruned(fact)
        if fact.keeper_id is None:
            if trial.ended is None:
                self._kernel.fail(f"trial {trial_id} has not ended, and its copies are to be deleted: {fact}")
            return
        needed = self._retention.needed(curve) if trial.ended is None else set()
        for other in self._evidence.trials.values():
            for mark in self._borrowed(other):
                if (mark.trial_id, mark.attempt, mark.keeper_id) == (trial_id, attempt, fact.keeper_id):
                    if mark.number <= fact.up_to and mark.number not in fact.keep:
                        self._kernel.fail(f"{mark} is to be deleted, and another trial needs it: {fact}")
        for mark in list(curve.marks):
            if mark.attempt != attempt or mark.number > fact.up_to or mark.number in fact.keep:
                continue
            curve.marks.remove(mark)
            if mark in needed:
                self._kernel.fail(f"trial {trial_id} needs {mark}, which is to be deleted: {fact}")
        origin = curve.origin
        own = trial.ended is None and origin is not None and origin.trial_id == trial_id
        if own and origin is not None and (origin.attempt, origin.keeper_id) == (attempt, fact.keeper_id):
            if origin.number <= fact.up_to and origin.number not in fact.keep:
                self._kernel.fail(f"trial {trial_id} continues from {origin}, which is to be deleted: {fact}")
        self.deletions.ordered(fact)

    def _exploited(self, fact: f.Decided) -> None:
        """Check the scheduler's decision that a trial continues from a checkpoint: it exists."""
        assert fact.donor is not None
        donor, trial = self._evidence.trials[fact.donor], self._evidence.trials[fact.trial_id]
        held = [*donor.curve.marks, *([donor.curve.origin] if donor.curve.origin else [])]
        found = [
            mark
            for mark in held
            if (mark.attempt, mark.number) == fact.checkpoint and mark.trial_id == fact.donor
        ]
        if not found or donor.ended is not None or trial.ended is not None:
            self._kernel.fail(f"{fact} is recorded, and the checkpoint is none of {held}")
            return
        trial.curve.coming = found[0]
        self._kernel.counts["exploit"] += 1

    def _refused(self, fact: f.DecisionRefused) -> None:
        """Take back a leg that cannot begin."""
        trial = self._evidence.trials.get(fact.trial_id)
        coming = None if trial is None else trial.curve.coming
        if trial is None or coming is None or fact.kind is not f.DecisionKind.EXPLOIT:
            return
        if not self.copies.is_usable(coming):
            trial.curve.coming = None

    def _begin_leg(self, fact: f.AttemptDue, trial: Trial) -> None:
        """Check the beginning of a leg: from the checkpoint that the scheduler has named."""
        curve, mark, origin = trial.curve, trial.curve.coming, fact.origin
        if mark is None or origin is None:
            self._kernel.fail(f"trial {fact.trial_id} begins a leg without a decision: {fact}")
            return
        own = mark.trial_id == fact.trial_id
        recorded = origin.trial_id or fact.trial_id, origin.attempt, origin.number, origin.keeper_id
        if recorded != (mark.trial_id, mark.attempt, mark.number, mark.keeper_id):
            self._kernel.fail(f"trial {fact.trial_id} continues from {origin}, decided was {mark}")
        position = mark.position if own else len(curve.frames)
        if (origin.position, origin.reports, origin.step) != (position, mark.reports, mark.step):
            self._kernel.fail(f"trial {fact.trial_id} continues from {origin} after {position} frames")
        if fact.rolled_back != max(0, curve.reports - mark.reports):
            self._kernel.fail(f"{curve.reports} results of {fact.trial_id} become {mark.reports}: {fact}")
        curve.begin_leg(mark, own=own)
        trial.leg_frames = len(curve.frames)
        self._states[fact.trial_id] = mark.step, [mark.state]
        self._kernel.counts["leg"] += 1

    def due(self, fact: f.AttemptDue, trial: Trial) -> None:
        """Check where a new attempt starts: from the newest checkpoint that is usable, or with a leg."""
        if fact.leg is not None:
            self._begin_leg(fact, trial)
            return
        curve, evidence = trial.curve, self._evidence
        if curve.coming is not None:
            self._kernel.fail(f"trial {fact.trial_id} does not begin its leg from {curve.coming}: {fact}")
        lent = curve.origin if curve.origin is not None and curve.origin.trial_id != fact.trial_id else None
        if lent is not None and curve.marks and not self.copies.is_copied(lent):
            lent = None  # nobody keeps its files on the host any more
        held = [*([lent] if lent else []), *curve.marks] if evidence.phased is None else []
        usable = [mark for mark in held if self.copies.is_usable(mark)]
        heard = [
            mark for mark in usable if mark.keeper_id not in evidence.silent or self.copies.is_copied(mark)
        ]
        newest = next(reversed(heard or usable), None)
        origin = None
        if fact.origin is not None:
            key = fact.origin.trial_id or fact.trial_id, fact.origin.attempt, fact.origin.number
            same = (mark for mark in usable if (mark.trial_id, mark.attempt, mark.number) == key)
            origin = next(same, None)
            if origin is None:
                self._kernel.fail(f"trial {fact.trial_id} continues from an unusable checkpoint: {fact}")
        silent = newest is not None and not heard
        if origin != newest and not (origin is None and silent) and not evidence.older:
            self._kernel.fail(f"trial {fact.trial_id} does not continue from {newest}: {fact}")
        if origin is not None and fact.origin is not None:
            position = trial.leg_frames if origin is lent else origin.position
            recorded = fact.origin.position, fact.origin.reports, fact.origin.step, fact.origin.keeper_id
            if recorded != (position, origin.reports, origin.step, origin.keeper_id):
                self._kernel.fail(f"trial {fact.trial_id} continues from {fact.origin}, saved was {origin}")
        before = curve.reports
        if origin is not None and origin is lent:
            curve.restart_leg(trial.leg_frames)
        else:
            curve.go_back(origin)
        if origin is None:
            self._states.pop(fact.trial_id, None)
        if fact.rolled_back != max(0, before - curve.reports):
            self._kernel.fail(f"{before - curve.reports} results of {fact.trial_id} no longer count: {fact}")

    def decided(self, fact: f.AttemptDue | f.TrialPaused | f.TrialEnded, trial: Trial) -> None:
        """Check what follows the end of an attempt whose command has exited with code 0."""
        if isinstance(fact, f.TrialEnded):
            self._retention.ended(fact.trial_id)
        if (end := trial.exited) is None:
            return
        trial.exited = None
        attempt = self._evidence.attempts[end.job_id]
        succeeded = isinstance(fact, f.TrialEnded) and fact.status is f.TrialStatus.SUCCEEDED
        if succeeded == attempt.left:
            self._kernel.fail(f"attempt {end.job_id} exited with code 0, left={attempt.left}: {fact}")
        if isinstance(fact, f.TrialEnded) and succeeded and self._evidence.phased is None:
            if trial.curve.final != fact.reason.startswith("exited with code 0"):
                self._kernel.fail(f"trial {fact.trial_id} has a final result: {trial.curve.final}; {fact}")

    def paused(self, fact: f.TrialPaused) -> None:
        """Check that a paused trial holds nothing."""
        for job, attempt in self._evidence.attempts.items():
            if trial_of_job(job)[0] == fact.trial_id and attempt.place is not None:
                if attempt.over is None:
                    self._kernel.fail(f"trial {fact.trial_id} is paused, and attempt {job} holds its place")
                trial = self._evidence.trials[fact.trial_id]
                present = trial_of_job(job)[1] == trial.attempt and not trial.declared
                attempt.parked = attempt.parked or (fact.parked and present)
                if self._evidence.runs(job) and not self._excused(attempt):
                    self._kernel.fail(f"trial {fact.trial_id} is paused, and attempt {job} runs")
        self._kernel.counts["parked" if fact.parked else "paused"] += 1

    def stored(self, curves: Shown) -> None:
        """Check the metrics that readers of the database find for the last attempt of each trial."""
        for trial_id, trial in self._evidence.trials.items():
            found = [(at, text) for attempt, at, text in curves.get(trial_id, ()) if attempt == trial.attempt]
            shown = [(at, each.text) for at, each in enumerate(trial.curve.frames) if each is not None]
            if found != shown:
                self._kernel.fail(f"trial {trial_id} shows {found} in place of {shown}")

    def _excused(self, attempt: Attempt) -> bool:
        """Return True if the attempt was given up without proof, or its shim was killed under a lease."""
        return attempt.forsaken or (self._evidence.leased and attempt.shim_killed)


def _folder(trial_id: str, attempt: int) -> str:
    return "/".join(attempt_folder(trial_id, attempt))
