"""Feed of an experiment: one sentence for each fact that matters to a user.

Each kind of fact is either in ``TOLD``, with the function that makes its sentence, or in ``LEFT_OUT``. Three
kinds of facts are left out: metrics, facts about messages between the server's parts and keepers, and facts
that the next fact explains better (for example, the end of an attempt).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnimgr.api.models.feed import Severity
from nnimgr.rules import facts as f
from nnimgr.rules.growth import why_fewer
from nnimgr.rules.state import trial_of_job
from nnimgr.spelling import capital
from nnimgr.store.reader import TrialRow
from training_services.keepers.names import ASK, IMPORTED, LOCAL, NNI, host_of

__all__ = ["LEFT_OUT", "TOLD", "Names", "mentioned", "tell"]

_INFO, _GOOD, _WARNING, _ERROR = Severity

_SHOWN = 80  # largest number of characters of a configuration value that are shown


class Names:
    """Names of trials for the sentences of the feed, made from the trials' rows in the database."""

    def __init__(self, rows: Mapping[str, TrialRow]) -> None:
        self._rows = rows

    def trial(self, trial_id: str) -> str:
        row = self._rows.get(trial_id)
        return f"trial {trial_id}" if row is None else f"trial #{row.sequence} ({trial_id})"

    def result(self, trial_id: str) -> str:
        """Return the trial's result as a suffix for the word "succeeded", such as " with 0.93"; "" without a
        result.
        """
        row = self._rows.get(trial_id)
        return "" if row is None or row.final_value is None else f" with {row.final_value:.6g}"

    def note(self, trial_id: str) -> str:
        """Return the trial's note as a suffix for the reason why the trial ended; "" without a note."""
        row = self._rows.get(trial_id)
        return "" if row is None or row.note is None else f"; {row.note}"

    def attempt(self, job_id: str) -> str:
        trial_id, attempt = trial_of_job(job_id)
        name = self.trial(trial_id)
        return name if attempt == 1 else f"attempt {attempt} of {name}"


def tell(fact: f.Fact, names: Names) -> tuple[Severity, str]:
    """Return the severity of a fact, and the sentence about it.

    Raise KeyError if there is no sentence for facts of this kind.
    """
    severity, text = TOLD[type(fact)](fact, names)
    text = text.strip()
    return severity, capital(text) + ("" if text.endswith((".", "!", "?")) else ".")


def mentioned(fact: f.Fact) -> tuple[str, ...]:
    """Return the ids of the trials that the fact's sentence names."""
    job_id = getattr(fact, "job_id", None)
    ids = trial_of_job(job_id)[0] if job_id is not None else getattr(fact, "trial_id", None)
    return tuple(
        each
        for each in (ids, getattr(fact, "retry_of", None), getattr(fact, "donor", None))
        if each is not None
    )


# ---- the experiment ---------------------------------------------------------------------------------------


def _opened(fact: f.ExperimentOpened, names: Names) -> tuple[Severity, str]:
    opened = "a user resumed the experiment" if fact.resumed else "a server has opened the experiment"
    if fact.next_sequence is not None:
        return (
            _WARNING,
            f"{opened}; its database was replaced by an older copy: {fact.missing} events are missing",
        )
    return _INFO, opened


def _config_changed(fact: f.ConfigChanged, names: Names) -> tuple[Severity, str]:
    parts = [_changed(name, value) for name, value in fact.changes.items()]
    if fact.search_space is not None:
        parts.append("the search space was replaced")
    return _INFO, f"a user changed the configuration: {'; '.join(parts) or 'nothing is different'}"


def _changed(name: str, value: Any) -> str:
    if value is None:
        return f"{name} was removed"
    if name == "tuner" and isinstance(value, Mapping):
        return (
            f"the tuner is now {value.get('name') or value.get('className')}, which got all earlier results"
        )
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else ""
    return f"{name} is now {text}" if 0 < len(text) <= _SHOWN else f"{name} has changed"


def _stop_requested(fact: f.ExperimentStopRequested, names: Names) -> tuple[Severity, str]:
    return _INFO, f"a user stops the experiment{'; its trials continue' if fact.detach else ''}"


def _moved(fact: f.ExperimentMoved, names: Names) -> tuple[Severity, str]:
    match fact.status:
        case f.ExperimentStatus.RUNNING:
            return _INFO, "the experiment runs"
        case f.ExperimentStatus.DONE:
            return _GOOD, f"the experiment is done: {fact.reason}"
        case f.ExperimentStatus.ERROR:
            return _ERROR, f"the experiment ended with an error: {fact.reason}"
        case _:
            return _INFO, f"the experiment is {fact.status}: {fact.reason}"


def _exhausted(fact: f.TunerExhausted, names: Names) -> tuple[Severity, str]:
    return _INFO, "the tuner has no more parameter sets"


def _imported(fact: f.DataImported, names: Names) -> tuple[Severity, str]:
    count = len(json.loads(fact.records))
    return _INFO, f"a user gave the tuner {count} {'result' if count == 1 else 'results'} from another source"


def _failed(fact: f.AlgorithmFailed, names: Names) -> tuple[Severity, str]:
    about = f" for {names.trial(fact.trial_id)}" if fact.trial_id is not None else ""
    severity = _ERROR if fact.fatal or fact.hopeless else _WARNING
    return severity, f"the {fact.role} failed in {fact.call}{about}: {fact.sentence}"


def _recovered(fact: f.AlgorithmRecovered, names: Names) -> tuple[Severity, str]:
    return _GOOD, f"the {fact.role} works again"


# ---- trials -----------------------------------------------------------------------------------------------


def _suggested(fact: f.Suggested, names: Names) -> tuple[Severity, str]:
    match fact.source:
        case f.SuggestionSource.ALGORITHM:
            why = "the tuner suggested it"
        case f.SuggestionSource.CUSTOMIZED:
            why = "a user added it"
        case f.SuggestionSource.RESUMED:
            why = f"it repeats {names.trial(fact.retry_of or '')}, which a stop had interrupted"
        case f.SuggestionSource.RERUN:
            why = f"it repeats {names.trial(fact.retry_of or '')}, which had failed"
        case f.SuggestionSource.FORK:
            why = f"a user has forked {names.trial(fact.retry_of or '')}"
        case f.SuggestionSource.CONFIRMATION:
            confirmed = names.trial(fact.retry_of or "")
            why = f"it repeats {confirmed} with seed {fact.seed}, to confirm its result"
    return _INFO, f"{names.trial(fact.trial_id)} was created: {why}"


def _further(fact: f.FurtherSuggested, names: Names) -> tuple[Severity, str]:
    trial = names.trial(fact.trial_id)
    if fact.parameters is None:
        return _INFO, f"{trial} gets no further parameter set: the tuner has no more"
    if fact.late:
        return _INFO, f"parameter set {fact.index + 1} of {trial} came after its end and is not used"
    return _INFO, f"{trial} gets its parameter set {fact.index + 1}"


def _result_taken(fact: f.ResultTaken, names: Names) -> tuple[Severity, str]:
    result = fact.text if len(fact.text) <= _SHOWN else f"{fact.text[:_SHOWN]}..."
    return _INFO, f"parameter set {fact.index + 1} of {names.trial(fact.trial_id)} has a result: {result}"


def _verdict(fact: f.Verdict, names: Names) -> tuple[Severity, str]:
    because = f": {fact.reason}" if fact.reason else ""
    if fact.by is f.Role.SCHEDULER:
        return _INFO, f"the scheduler stops {names.trial(fact.trial_id)}{because}"
    return _INFO, f"the {fact.by} judges {names.trial(fact.trial_id)} bad {fact.when}{because}"


def _decided(fact: f.Decided, names: Names) -> tuple[Severity, str]:
    trial = names.trial(fact.trial_id)
    match fact.kind:
        case f.DecisionKind.PAUSE:
            what = f"pauses {trial}"
        case f.DecisionKind.CONTINUE:
            what = f"continues {trial}"
        case f.DecisionKind.RESIZE:
            given = ", ".join(f"{name} {value:g}" for name, value in (fact.resources or {}).items())
            what = f"gives {trial} other resources ({given})"
        case _:
            number, _ = reversed(fact.checkpoint or (0, 0))
            donor = "its own" if fact.donor == fact.trial_id else f"{names.trial(fact.donor or '')}'s"
            what = f"gives {trial} other parameters, from {donor} checkpoint {number}"
    return _INFO, f"the scheduler {what}: {fact.reason}"


def _decision_refused(fact: f.DecisionRefused, names: Names) -> tuple[Severity, str]:
    trial = names.trial(fact.trial_id)
    return _INFO, f"the scheduler wanted to {fact.kind} {trial}, which is not possible: {fact.reason}"


def _stop_wanted(fact: f.StopRequested, names: Names) -> tuple[Severity, str]:
    return (
        _INFO,
        f"a user {'pauses' if fact.kind is f.StopKind.PAUSE else 'stops'} {names.trial(fact.trial_id)}",
    )


def _target_moved(fact: f.TargetMoved, names: Names) -> tuple[Severity, str]:
    more = ", and continues with more members" if fact.kind is f.StopKind.GROW else ""
    return _INFO, f"{names.trial(fact.trial_id)} will be stopped{more}: {fact.reason}"


def _attempt_due(fact: f.AttemptDue, names: Names) -> tuple[Severity, str]:
    severity = _WARNING if fact.lost or fact.failed else _INFO
    return severity, f"{names.trial(fact.trial_id)} gets attempt {fact.attempt}: {fact.reason}"


def _paused(fact: f.TrialPaused, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{names.trial(fact.trial_id)} is paused: {fact.reason}"


def _resume_wanted(fact: f.ResumeRequested, names: Names) -> tuple[Severity, str]:
    return _INFO, f"a user resumes {names.trial(fact.trial_id)}"


def _save_wanted(fact: f.SaveRequested, names: Names) -> tuple[Severity, str]:
    return _INFO, f"a user asks {names.trial(fact.trial_id)} to save its state"


def _loss_declared(fact: f.LossDeclared, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"a user declared {names.trial(fact.trial_id)} lost"


def _slot_lent(fact: f.SlotLent, names: Names) -> tuple[Severity, str]:
    trial = names.trial(fact.trial_id)
    return _WARNING, f"another trial uses the slot of {trial} until the machine of {trial} is connected again"


def _trial_noted(fact: f.TrialNoted, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"{names.trial(fact.trial_id)}: {fact.note}"


_ENDS: Mapping[f.TrialStatus, tuple[Severity, str]] = {
    f.TrialStatus.SUCCEEDED: (_GOOD, "succeeded"),
    f.TrialStatus.FAILED: (_ERROR, "failed"),
    f.TrialStatus.EARLY_STOPPED: (_INFO, "was stopped early"),
    f.TrialStatus.USER_CANCELED: (_INFO, "was canceled by a user"),
    f.TrialStatus.SYS_CANCELED: (_INFO, "was canceled"),
}


def _ended(fact: f.TrialEnded, names: Names) -> tuple[Severity, str]:
    severity, how = _ENDS[fact.status]
    result = names.result(fact.trial_id) if fact.status is f.TrialStatus.SUCCEEDED else ""
    note = names.note(fact.trial_id) if fact.status is f.TrialStatus.FAILED else ""
    return severity, f"{names.trial(fact.trial_id)} {how}{result}: {fact.reason}{note}"


# ---- attempts and machines --------------------------------------------------------------------------------


def _placed(fact: f.JobPlaced, names: Names) -> tuple[Severity, str]:
    places = [fact.place, *(member.place for member in fact.members)]
    if without := {ASK: "was taken by a program", IMPORTED: "was imported"}.get(fact.place.keeper_id):
        return _INFO, f"{names.attempt(fact.job_id)} {without}"
    on = [f"{_host(each.keeper_id)}{_with_gpus(each.gpus)}" for each in places]
    why = "" if fact.reason is None else f": {fact.reason}"
    return _INFO, f"{names.attempt(fact.job_id)} was placed on {', '.join(on)}{why}"


def _with_gpus(gpus: Sequence[int]) -> str:
    return f" with GPU {', '.join(map(str, gpus))}" if gpus else ""


def _member_lost(fact: f.MemberLost, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"{names.attempt(fact.job_id)}: member {fact.member} is lost: {fact.reason}"


def _waiting(fact: f.JobWaiting, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{names.attempt(fact.job_id)} has no place yet: {fact.reason}"


def _started(fact: f.JobStarted, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{names.attempt(fact.job_id)} has started"


def _skipped(fact: f.FrameSkipped, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"{names.attempt(fact.job_id)}: {fact.reason}"


def _job_noted(fact: f.JobNoted, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"{names.attempt(fact.job_id)}: {fact.note}"


def _preemption_wanted(fact: f.PreemptionWanted, names: Names) -> tuple[Severity, str]:
    trial = names.attempt(fact.job_id)
    why = f"trials of experiment {fact.by}, which has a higher priority, need its resources"
    return _INFO, f"{trial} will be stopped, and continues later: {why}"


def _fewer_wanted(fact: f.FewerMembersWanted, names: Names) -> tuple[Severity, str]:
    trial = names.attempt(fact.job_id)
    return _INFO, f"{trial} will be stopped, and continues with fewer members: {why_fewer(fact)}"


def _growth_begun(fact: f.GrowthBegun, names: Names) -> tuple[Severity, str]:
    trial = names.attempt(fact.job_id)
    return _INFO, f"{trial} is asked to save its state, to continue with {fact.members} members"


def _growth_ended(fact: f.GrowthEnded, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{names.attempt(fact.job_id)} continues with the members that it has: {fact.reason}"


def _checkpoint_lost(fact: f.CheckpointLost, names: Names) -> tuple[Severity, str]:
    what = "the server's copy of checkpoint" if fact.keeper_id is None else "checkpoint"
    return _WARNING, f"{names.attempt(fact.job_id)}: {what} {fact.number} is lost: {fact.reason}"


def _pinned(fact: f.CheckpointPinned, names: Names) -> tuple[Severity, str]:
    what = "has pinned" if fact.pinned else "has taken back the pin of"
    return _INFO, f"{names.attempt(fact.job_id)}: a user {what} checkpoint {fact.number}"


def _bound(fact: f.KeeperBound, names: Names) -> tuple[Severity, str]:
    without = {ASK: "programs can ask for trials", IMPORTED: "trials of another program were imported"}
    if fact.keeper_id in without:
        return _INFO, without[fact.keeper_id]
    return (
        _INFO,
        f"the keeper on {_host(fact.keeper_id)} has called the server for the first time since it started",
    )


def _silent(fact: f.KeeperSilent, names: Names) -> tuple[Severity, str]:
    return _WARNING, f"{_host(fact.keeper_id)} is silent: {fact.reason}"


def _heard(fact: f.KeeperHeard, names: Names) -> tuple[Severity, str]:
    return _GOOD, f"{_host(fact.keeper_id)} is connected again"


def _machine_added(fact: f.MachineAdded, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{_host(fact.keeper_id)} was added"


def _machine_drained(fact: f.MachineDrained, names: Names) -> tuple[Severity, str]:
    return _INFO, f"{_host(fact.keeper_id)} is being drained: it gets no more trials"


def _machine_removed(fact: f.MachineRemoved, names: Names) -> tuple[Severity, str]:
    how = "its trials are requeued" if fact.force else "the machine leaves after its last trial has ended"
    return _INFO, f"{_host(fact.keeper_id)} is being removed: {how}"


def _machine_gone(fact: f.MachineGone, names: Names) -> tuple[Severity, str]:
    note = "" if fact.note is None else f", but {fact.note}"
    end = "was removed, and is used again" if fact.returns else "is no longer used"
    return _WARNING if note else _INFO, f"{_host(fact.keeper_id)} {end}{note}"


def _host(keeper_id: str) -> str:
    known = {LOCAL: "the server's machine", NNI: "a machine of NNI"}
    return known.get(keeper_id) or f"the machine {host_of(keeper_id) or keeper_id}"


TOLD: Mapping[type[Any], Callable[[Any, Names], tuple[Severity, str]]] = {
    f.ExperimentCreated: lambda fact, names: (_INFO, "the experiment was created"),
    f.ExperimentOpened: _opened,
    f.ConfigChanged: _config_changed,
    f.ExperimentStopRequested: _stop_requested,
    f.ExperimentMoved: _moved,
    f.TunerExhausted: _exhausted,
    f.DataImported: _imported,
    f.AlgorithmFailed: _failed,
    f.AlgorithmRecovered: _recovered,
    f.Suggested: _suggested,
    f.FurtherSuggested: _further,
    f.ResultTaken: _result_taken,
    f.Verdict: _verdict,
    f.Decided: _decided,
    f.DecisionRefused: _decision_refused,
    f.StopRequested: _stop_wanted,
    f.TargetMoved: _target_moved,
    f.AttemptDue: _attempt_due,
    f.TrialPaused: _paused,
    f.ResumeRequested: _resume_wanted,
    f.LossDeclared: _loss_declared,
    f.SaveRequested: _save_wanted,
    f.SlotLent: _slot_lent,
    f.TrialNoted: _trial_noted,
    f.TrialEnded: _ended,
    f.JobPlaced: _placed,
    f.JobWaiting: _waiting,
    f.JobStarted: _started,
    f.FrameSkipped: _skipped,
    f.JobNoted: _job_noted,
    f.MemberLost: _member_lost,
    f.PreemptionWanted: _preemption_wanted,
    f.FewerMembersWanted: _fewer_wanted,
    f.GrowthBegun: _growth_begun,
    f.GrowthEnded: _growth_ended,
    f.CheckpointLost: _checkpoint_lost,
    f.CheckpointPinned: _pinned,
    f.KeeperBound: _bound,
    f.KeeperSilent: _silent,
    f.KeeperHeard: _heard,
    f.MachineAdded: _machine_added,
    f.MachineDrained: _machine_drained,
    f.MachineRemoved: _machine_removed,
    f.MachineGone: _machine_gone,
}

LEFT_OUT: frozenset[type[Any]] = frozenset(
    {
        f.MetricReported,
        f.CheckpointReported,  # the page of the trial lists its checkpoints
        f.CheckpointKeepBegun,
        f.CheckpointKept,
        f.CheckpointStored,
        f.CheckpointsPruned,
        f.CheckpointsDeleted,
        f.HostVanished,  # the facts about its jobs have sentences
        f.ParametersWanted,  # FurtherSuggested has the sentence about the set
        f.UpdateOrdered,
        f.SaveOrdered,  # the fact that requested the save has a sentence
        f.StopOrdered,  # the fact that requested the stop has a sentence
        f.ResultReused,  # the end of the trial has a sentence
        f.JobEnded,  # another fact of the same turn describes the trial's next step
        f.JobLost,
        f.MemberStarted,  # JobStarted follows when all members have started
        f.GangGathered,
        f.MembersStopped,
        f.RoomForMembers,  # a growth that follows has a sentence
        f.MemberEnded,  # the end of the attempt names the member that failed
        f.KeeperEnrolled,
        f.KeeperAcknowledged,
        f.KeeperGone,
    }
)
