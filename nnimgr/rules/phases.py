"""Multi-phase trials: further parameter sets for a trial that runs, each with a result of its own. Pure.

A trial asks (ParametersWanted), the tuner is asked for it (FurtherSuggested binds the answer to the trial,
whichever attempt of it runs), the service is ordered to hand it over (UpdateOrdered), and each set's first
FINAL metric becomes its result (ResultTaken). In an experiment of one set per trial every further request is
answered with a record without parameters, as NNI's SDKs take it: they return None.
"""

from __future__ import annotations

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, JobState, ParameterSet, TrialState
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import job_touched, reindex, trial_touched

PHASE_STEPS = Steps()


def parameter_record(trial: TrialState, index: int = 0) -> str:
    """The text of ``parameter.cfg`` (``parameter_<index>.cfg``), in NNI's form."""
    if index == 0:
        return _record(trial.parameter_id, trial.source, trial.parameters, 0)
    further = trial.sets[index] if index < len(trial.sets) else None
    if further is None or further.parameters is None:
        return _record(None, f.SuggestionSource.ALGORITHM, "null", index)
    return _record(further.parameter_id, f.SuggestionSource.ALGORITHM, further.parameters, index)


def _record(parameter_id: int | None, source: f.SuggestionSource, parameters: str, index: int) -> str:
    shown = "null" if parameter_id is None else str(parameter_id)
    return (
        f'{{"parameter_id": {shown}, "parameter_source": "{source.nni_name}", '
        f'"parameters": {parameters}, "parameter_index": {index}}}'
    )


def is_due(state: ExperimentState, trial: TrialState, index: int) -> bool:
    """Whether the tuner has to be asked for this set; else there is an answer already."""
    return state.limits.multi_phase and index >= len(trial.sets)


def waiting_reason(trial: TrialState) -> str | None:
    """The sentence on a running trial that waits for a parameter set; None: it does not."""
    return f"waits for parameter set {trial.wants[-1] + 1} from the tuner" if trial.wants else None


def take_final(state: ExperimentState, trial: TrialState, metric: f.MetricReported) -> None:
    """A FINAL metric of a multi-phase trial: its set's result if it is the first; the best is the trial's."""
    index = _index_of(trial, metric.parameter_id)
    if index is None:
        trial.note = f"reported a final result for parameter id {metric.parameter_id}, which it was not given"
        return
    if trial.final_text is None or _better(state, metric.value, trial.final_value):
        trial.final_value, trial.final_text = metric.value, metric.text
    if trial.sets[index].result is None:
        trial.sets[index].result = metric.text
        trial.untold.append(index)
        state.reported[trial.id] = None


def _index_of(trial: TrialState, parameter_id: str | None) -> int | None:
    """The number of the set with this id (as JSON text); mostly it is the newest."""
    for index in range(len(trial.sets) - 1, -1, -1):
        held = trial.sets[index]
        if held.parameters is not None and parameter_id == (
            None if held.parameter_id is None else str(held.parameter_id)
        ):
            return index
    return None


def _better(state: ExperimentState, value: float | None, than: float | None) -> bool:
    if value is None or than is None:
        return than is None and value is not None
    return value < than if state.minimises else value > than


# ---- steps of the fold ------------------------------------------------------------------------------------


@PHASE_STEPS.of(f.ParametersWanted)
def _wanted(state: ExperimentState, fact: f.ParametersWanted, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    trial = trial_touched(state, job.trial_id, fact)
    if 0 < fact.index < trial.parameter_sets or fact.index in trial.wants:
        return  # it was given, or somebody of the trial has asked for it
    asked = f"asked for parameter set {fact.index + 1}"
    if fact.index > trial.parameter_sets:
        trial.note = f"{asked}, but set {trial.parameter_sets + 1} is the next"
        return
    if fact.index and not state.limits.multi_phase:
        trial.note = f"{asked}, but the experiment gives one per trial (multiPhase is not set): it gets None"
    trial.wants.append(fact.index)
    _say_why(state, trial, job)


def _say_why(state: ExperimentState, trial: TrialState, job: JobState) -> None:
    """What it waits for has changed."""
    if trial.status is f.TrialStatus.RUNNING and job.stop is None:
        trial.reason = waiting_reason(trial)
    reindex(state, trial)


@PHASE_STEPS.of(f.FurtherSuggested)
def _further(state: ExperimentState, fact: f.FurtherSuggested, r: f.Recorded) -> None:
    if fact.parameter_id is not None:
        state.next_parameter_id = max(state.next_parameter_id, fact.parameter_id + 1)
        state.exhausted = False
    if fact.late:
        return
    trial = trial_touched(state, fact.trial_id, fact)
    trial.sets.append(ParameterSet(parameter_id=fact.parameter_id, parameters=fact.parameters))
    if fact.parameters is None:
        trial.note = f"asked for parameter set {fact.index + 1}, but the tuner has no more: it gets None"


@PHASE_STEPS.of(f.UpdateOrdered)
def _update_ordered(state: ExperimentState, fact: f.UpdateOrdered, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.updates.append((fact, parameter_record(trial, fact.index)))
    trial.parameter_sets = max(trial.parameter_sets, fact.index + 1)
    if fact.index in trial.wants:
        trial.wants.remove(fact.index)
    _say_why(state, trial, job)


@PHASE_STEPS.of(f.ResultTaken)
def _result_taken(state: ExperimentState, fact: f.ResultTaken, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.untold.remove(fact.index)
    reindex(state, trial)
