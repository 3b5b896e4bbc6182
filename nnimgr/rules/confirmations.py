"""Runs that confirm the best trials (``confirmBest``), with the same parameters and other seeds.

The best result of a search is the best of many numbers, so it is partly luck. A trial's *confirmations* are
new runs of its parameters, made when the search has ended. Each is a trial of its own, whose ``retry_of``
names the confirmed trial. The tuner, the assessor and the scheduler never hear of confirmations, and
confirmations count for no limit and no rule of the search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.phrases import trial_count
from nnimgr.rules.state import ExperimentState, Leader, Touched, TrialState, trial_of_job

__all__ = [
    "about_confirmation",
    "confirm",
    "count_canceled",
    "is_confirmation",
    "missing_runs",
    "note_result",
    "outcome",
]

_ENDS_OF_SEARCH = (f.DrainReason.BUDGET, f.DrainReason.TUNER, f.DrainReason.RULE)


def is_confirmation(trial: TrialState) -> bool:
    return trial.source is f.SuggestionSource.CONFIRMATION


def about_confirmation(state: ExperimentState, fact: f.Fact, touched: Touched | None = None) -> bool:
    """Return whether a fact is about a confirmation, which the fact may have ended.

    ``touched``: trials that the fact's turn has changed; None: the turn is not committed yet.
    """
    if state.limits.confirm_best is None:
        return False
    job_id = getattr(fact, "job_id", None)
    trial_id = getattr(fact, "trial_id", None) if job_id is None else trial_of_job(job_id)[0]
    if trial_id is None:
        return False
    changed = (touched or state.touched).trials
    trial = state.trials.get(trial_id) or changed.get(trial_id)
    return trial is not None and is_confirmation(trial)


def confirm(state: ExperimentState) -> Iterator[f.Suggested]:
    """Yield the confirmations that are missing, if all other trials of an ended search have ended.

    The first runs of all confirmed trials come first, then all second runs, and so on.
    """
    if state.status is not f.ExperimentStatus.DRAINING or state.drain not in _ENDS_OF_SEARCH:
        return
    if state.searching or state.asks_exhausted:
        return
    for sequence, (leader, seed) in enumerate(missing_runs(state), state.next_sequence):
        yield f.Suggested(
            trial_id=state.trial_id(sequence),
            sequence=sequence,
            source=f.SuggestionSource.CONFIRMATION,
            parameter_id=None,
            parameters=leader.parameters,
            retry_of=leader.trial_id,
            seed=seed,
        )


def missing_runs(state: ExperimentState) -> list[tuple[Leader, int]]:
    """Return the runs that the best trials still lack, each as the confirmed trial and the run's seed."""
    rule = state.limits.confirm_best
    if rule is None:
        return []
    return [
        (leader, seed)
        for seed in range(1, rule.runs + 1)
        for leader in state.leaders[: rule.top]
        if seed not in state.confirmations.get(leader.trial_id, ())
    ]


def outcome(state: ExperimentState) -> str:
    """Return which trials were confirmed, for the end of a reason; "" without ``confirmBest``."""
    if state.limits.confirm_best is None:
        return ""
    if not state.leaders:
        return "; no trial could be confirmed, because none has a result that a new run could repeat"
    confirmed, lacking = len(state.confirmations), len(missing_runs(state))
    text = "; no trial was confirmed"
    if confirmed:
        made = sum(map(len, state.confirmations.values()))
        best = "trial" if confirmed == 1 else trial_count(confirmed)
        text = f"; {_runs(made)} repeated the best {best}{_better_one(state)}"
    return f"{text}, and {_runs(lacking)} did not start" if lacking else text


def _better_one(state: ExperimentState) -> str:
    """Return why the best trial of all is not among the confirmed ones; "" if it is."""
    best = state.best
    if best is None or not _is_better(state, best.value, state.leaders[0].value):
        return ""
    why = "began with a checkpoint of another trial, so no run can repeat it"
    return f" (trial {best.sequence} is better, but it {why})"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


# ---- steps of the fold ------------------------------------------------------------------------------------


def note_result(state: ExperimentState, trial: TrialState) -> None:
    """Update the best trials with a trial that has succeeded. They have different parameters.

    A trial whose result depends on a checkpoint of another trial cannot be repeated from its beginning.
    """
    rule, value = state.limits.confirm_best, trial.final_value
    if rule is None or value is None or trial.leg or trial.forked:
        return
    leaders = state.leaders
    if len(leaders) >= rule.top and not _is_better(state, value, leaders[-1].value):
        return
    parameters = json.loads(trial.parameters)
    same = next((each for each in leaders if json.loads(each.parameters) == parameters), None)
    if same is not None:
        if same.trial_id in state.confirmations or not _is_better(state, value, same.value):
            return
        leaders.remove(same)
    place = next(
        (at for at, each in enumerate(leaders) if _is_better(state, value, each.value)), len(leaders)
    )
    leaders.insert(place, Leader(trial.id, value, trial.parameters))
    del leaders[rule.top :]


def _is_better(state: ExperimentState, value: float, other: float) -> bool:
    return value < other if state.minimises else value > other


def count_canceled(state: ExperimentState, trial: TrialState) -> None:
    """Forget a confirmation that the system has canceled, so that another trial makes the run again."""
    seeds = state.confirmations.get(trial.retry_of or "", [])
    if trial.seed in seeds:
        seeds.remove(trial.seed)
    if not seeds:
        state.confirmations.pop(trial.retry_of or "", None)
