"""Checks of the runs that confirm the best trials."""

from __future__ import annotations

from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from tests.simulation.evidence import Evidence, Trial
from tests.simulation.kernel import Kernel
from trial_keeper import wire


class ConfirmationCheck:
    """Check of confirmations: when they are made, with which seeds, and that no algorithm hears of them."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence

    def suggested(self, fact: f.Suggested) -> None:
        """Check a confirmation that is created."""
        assert fact.retry_of is not None
        self._kernel.counts["confirmation"] += 1
        confirmed = self._evidence.trials[fact.retry_of]
        if confirmed.ended is not f.TrialStatus.SUCCEEDED or confirmed.parameters != fact.parameters:
            self._kernel.fail(f"trial {fact.trial_id} confirms another trial: {fact}; {confirmed}")
        if any(trial.ended is None and trial.confirms is None for trial in self._evidence.trials.values()):
            self._kernel.fail(f"trial {fact.trial_id} confirms a trial before the search has ended")
        if fact.seed in [run.seed for run in self._runs(fact.retry_of)]:
            self._kernel.fail(f"trial {fact.retry_of} is confirmed twice with seed {fact.seed}")

    def started(self, trial: Trial, start: wire.Start) -> None:
        """Check that an attempt gets the seed of its trial."""
        given = start["environment"].get("NNI_TRIAL_SEED")
        if given != (None if trial.seed is None else str(trial.seed)):
            self._kernel.fail(f"{start['directory']} was started with seed {given}, not {trial.seed}")

    def told(self, role: str, message: m.ToChild) -> None:
        """Check a message to an algorithm, which must not be about a confirmation."""
        named = {item[0] for item in message.items} if isinstance(message, m.Metrics) else set()
        named.add(getattr(message, "trial_id", None) or "")
        for trial_id in named & self._evidence.trials.keys():
            if self._evidence.trials[trial_id].confirms is not None:
                self._kernel.fail(f"the {role} hears of the confirmation {trial_id}: {message}")

    def done(self, state: ExperimentState) -> None:
        """Check that the best trials have all their runs when the experiment is done."""
        rule = state.limits.confirm_best
        for leader in state.leaders if rule is not None else ():
            seeds = sorted(run.seed or 0 for run in self._runs(leader.trial_id))
            if rule is not None and seeds != list(range(1, rule.runs + 1)):
                self._kernel.fail(f"trial {leader.trial_id} is confirmed with the seeds {seeds} only")

    def _runs(self, trial_id: str) -> list[Trial]:
        """Return the confirmations of a trial, without those that the system has canceled."""
        runs = [trial for trial in self._evidence.trials.values() if trial.confirms == trial_id]
        return [run for run in runs if run.ended is not f.TrialStatus.SYS_CANCELED]
