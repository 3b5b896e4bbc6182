"""Multi-phase trials: a running trial gets further parameter sets, each with its own result.

The functions are pure. The facts have this order: the trial requests a set (ParametersWanted); the tuner's
set is added to the trial (FurtherSuggested); the training service is ordered to send the set (UpdateOrdered);
the first FINAL metric of the set becomes the set's result (ResultTaken).

In an experiment with one set per trial, each further request is answered with a record without parameters,
for which NNI's SDKs return None.
"""

from __future__ import annotations

from nnimgr.rules import facts as f
from nnimgr.rules.indexes import reindex
from nnimgr.rules.phrases import shortened
from nnimgr.rules.state import ExperimentState, JobState, ParameterSet, TrialState
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import job_touched, trial_touched

PHASE_STEPS = Steps()


def parameter_record(trial: TrialState, index: int = 0) -> str:
    """Return the content of the trial's file ``parameter.cfg`` or ``parameter_<index>.cfg``, in NNI's
    format.
    """
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
    """Return whether parameter set number ``index`` of the trial still has to be requested from the tuner."""
    return state.limits.multi_phase and index >= len(trial.sets)


def waiting_reason(trial: TrialState) -> str | None:
    """Return the reason that a running trial waits for a parameter set; None if it does not wait."""
    return f"waits for parameter set {trial.wants[-1] + 1} from the tuner" if trial.wants else None


def take_final(state: ExperimentState, trial: TrialState, metric: f.MetricReported) -> None:
    """Record a FINAL metric of a multi-phase trial.

    The first FINAL metric of a parameter set is the set's result. The best FINAL metric is the trial's
    result.
    """
    index = _index_of(trial, metric.parameter_id)
    if index is None:
        trial.note = (
            f"the trial reported a final result for parameter id {metric.parameter_id}, "
            "which it was not given"
        )
        return
    if trial.final_text is None or _better(state, metric.value, trial.final_value):
        trial.final_value, trial.final_text = metric.value, metric.text
    if trial.sets[index].result is None:
        trial.sets[index].result = metric.text
        trial.untold.append(index)
        reindex(state, trial)
    elif trial.note is None:
        trial.note = (
            f"the trial reported another final result for parameter set {index + 1}, "
            f"{shortened(metric.text)}: the tuner gets the first one"
        )


def _index_of(trial: TrialState, parameter_id: str | None) -> int | None:
    """Return the number of the trial's parameter set with this id (JSON text); None if no set has this id.

    The search begins with the newest set, to which most metrics belong.
    """
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


# ---- functions that apply facts ---------------------------------------------------------------------------


@PHASE_STEPS.of(f.ParametersWanted)
def _wanted(state: ExperimentState, fact: f.ParametersWanted, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    trial = trial_touched(state, job.trial_id, fact)
    if 0 < fact.index < trial.parameter_sets or fact.index in trial.wants:
        return  # the set was already sent or requested
    asked = f"the trial asked for parameter set {fact.index + 1}"
    if fact.index > trial.parameter_sets:
        trial.note = f"{asked}, but set {trial.parameter_sets + 1} is the next one"
        return
    if fact.index and not state.limits.multi_phase:
        trial.note = f"{asked}, but each trial gets only one (multiPhase is not set): the trial gets None"
    trial.wants.append(fact.index)
    _say_why(state, trial, job)


def _say_why(state: ExperimentState, trial: TrialState, job: JobState) -> None:
    """Update the trial's reason and indexes after a change of the list of sets that it waits for."""
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
        trial.note = (
            f"the trial asked for parameter set {fact.index + 1}, but the tuner has no more: "
            "the trial gets None"
        )


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
