"""Terms used in facts: statuses, roles, kinds of stops, and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

__all__ = [
    "NO_COMMAND",
    "ConfirmBest",
    "DecisionKind",
    "DrainReason",
    "ExperimentStatus",
    "Limits",
    "MemberRange",
    "MemoryGrowth",
    "MetricType",
    "OnFailure",
    "PausedBy",
    "Plateau",
    "Role",
    "RunningTrials",
    "StopKind",
    "StopWhen",
    "SuggestionSource",
    "TrialStatus",
    "TunerTraits",
]


# trialCommand of an experiment that was imported without one. Its trials are only shown.
NO_COMMAND = "echo 'This experiment was imported without a trial command.' >&2; exit 1"


class TrialStatus(StrEnum):
    """Statuses of trials. The names are NNI's, except PAUSED, which the routes for NNI's clients show as
    WAITING.
    """

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    UNKNOWN = "UNKNOWN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    USER_CANCELED = "USER_CANCELED"
    EARLY_STOPPED = "EARLY_STOPPED"
    SYS_CANCELED = "SYS_CANCELED"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        TrialStatus.SUCCEEDED,
        TrialStatus.FAILED,
        TrialStatus.USER_CANCELED,
        TrialStatus.EARLY_STOPPED,
        TrialStatus.SYS_CANCELED,
    }
)


class ExperimentStatus(StrEnum):
    INITIALIZED = "INITIALIZED"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"  # no new trials are created, for the DrainReason
    DONE = "DONE"
    STOPPED = "STOPPED"
    ERROR = "ERROR"
    VIEWED = "VIEWED"


class Role(StrEnum):
    """Roles of the algorithms in an experiment."""

    TUNER = "tuner"
    ASSESSOR = "assessor"
    SCHEDULER = "scheduler"


class DecisionKind(StrEnum):
    """Kinds of a scheduler's decisions about a trial."""

    PAUSE = "pause"
    CONTINUE = "continue"  # a trial that the scheduler has paused
    STOP = "stop"
    EXPLOIT = "exploit"  # continue from a checkpoint with other parameters: the trial's next leg
    RESIZE = "resize"  # continue with other resources


class PausedBy(StrEnum):
    """Who has paused a trial."""

    USER = "user"
    SCHEDULER = "scheduler"


class MetricType(StrEnum):
    """Types of metrics: PERIODICAL is an intermediate metric, FINAL a final metric."""

    PERIODICAL = "PERIODICAL"
    FINAL = "FINAL"


class DrainReason(StrEnum):
    BUDGET = "budget"  # NNI: NO_MORE_TRIAL
    TUNER = "tuner"  # NNI: TUNER_NO_MORE_TRIAL
    USER = "user"  # NNI: STOPPING
    FAILURES = "failures"  # the first trials all failed alike
    RULE = "rule"  # a rule of stopWhen holds; NNI: NO_MORE_TRIAL


class StopKind(StrEnum):
    """Who or what wants to stop a trial. The kind decides the status in which the trial ends."""

    USER = "user"  # USER_CANCELED
    ASSESSOR = "assessor"  # EARLY_STOPPED
    DURATION = "duration"  # EARLY_STOPPED
    RULE = "rule"  # EARLY_STOPPED, by stopWhen
    SYSTEM = "system"  # SYS_CANCELED
    # SYS_CANCELED, because the experiment was stopped; a resume of the experiment runs the trial again
    CUT = "cut"
    PAUSE = "pause"  # PAUSED: the attempt ends, but not the trial
    LEG = "leg"  # WAITING: the trial continues with its next leg, see nnimgr.rules.legs
    RESIZE = "resize"  # WAITING: the trial continues with other resources
    GROW = "grow"  # WAITING: the trial continues with more members
    SHRINK = "shrink"  # WAITING: the trial continues with fewer members, because others wait for places
    PREEMPT = "preempt"  # WAITING: an experiment with a higher priority needs the trial's resources


class SuggestionSource(StrEnum):
    ALGORITHM = "algorithm"
    CUSTOMIZED = "customized"
    RESUMED = "resumed"  # a stop of the experiment has interrupted the trial
    RERUN = "rerun"  # a user retries the failed trial
    FORK = "fork"  # a user has it continue from a checkpoint of another trial
    CONFIRMATION = "confirmation"  # it repeats one of the best trials with another seed

    @property
    def nni_name(self) -> str:
        """Name of this source of a parameter set in NNI's records (``parameter_source``)."""
        match self:
            case SuggestionSource.RERUN:
                return "resumed"
            case SuggestionSource.FORK | SuggestionSource.CONFIRMATION:
                return "customized"
        return self.value


class OnFailure(StrEnum):
    """Policies for the result that the tuner gets for a failed trial."""

    SKIP = "skip"  # no result
    PENALTY = "penalty"  # the worst result so far
    VALUE = "value"  # the value given in the configuration


class RunningTrials(StrEnum):
    """What happens to running trials when a rule of stopWhen holds."""

    FINISH = "finish"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """Rule: the best result has not improved by at least ``improvement`` within the last ``trials`` finished
    trials.
    """

    trials: int
    improvement: float = 0.0  # 0: any better result is an improvement


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWhen:
    """Rules from the configuration that end the experiment. None: the experiment does not have this rule."""

    metric: float | None = None  # a result that is good enough
    plateau: Plateau | None = None
    total_trial_time: timedelta | None = None  # running time of all attempts together
    failures: int | None = None  # number of trials in a row that have failed
    running_trials: RunningTrials = RunningTrials.FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmBest:
    """Rule: when the search has ended, each of the ``top`` best trials is run again ``runs`` times."""

    top: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """Rule: an attempt that ran out of memory is followed by one with ``factor`` times as much memory.

    ``start``: MiB of the first attempt; ``limit``: most MiB of an attempt.
    """

    start: int
    factor: float
    limit: int

    def after(self, retries: int) -> int:
        """Return the MiB of the attempt after this number of retries for a lack of memory."""
        memory = self.start
        for _ in range(retries):
            if memory >= self.limit:
                break
            memory = min(self.limit, math.ceil(memory * self.factor))
        return memory

    @property
    def steps(self) -> int:
        """Number of retries after which the memory no longer grows."""
        memory, steps = self.start, 0
        while memory < self.limit:
            memory = min(self.limit, math.ceil(memory * self.factor))
            steps += 1
        return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRange:
    """Rule: an attempt has from ``least`` to ``most`` members, as many as have room when it is placed.

    ``grow_after``: a trial that could have more members, and has saved its state, continues with more when
    there has been room for them for this time.
    """

    least: int
    most: int
    grow_after: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits from the configuration that the server enforces. None: unlimited."""

    trial_concurrency: int
    max_trial_number: int | None = None
    max_experiment_duration: timedelta | None = None
    max_trial_duration: timedelta | None = None
    suggestions_ahead: int | None = None  # None: depends on how fast the tuner answers
    max_lost_attempts: int = 3  # most new attempts of a trial after its machine was lost
    multi_phase: bool = False
    max_failed_attempts: int = 0  # most new attempts of a trial after its command failed
    max_memory_attempts: int | None = None  # after it ran out of memory; None: as after any other failure
    memory_growth: MemoryGrowth | None = None
    max_preempted_attempts: int | None = None  # after the platform took its host away
    on_failure: OnFailure = OnFailure.SKIP
    failure_value: float | Mapping[str, float] | None = None  # result for VALUE, or one per objective
    slot_held_for: timedelta = timedelta(minutes=10)  # then the slot of a silent trial is lent
    exit_barrier: timedelta = timedelta(minutes=5)  # for a gang's other members, after the leader's good end
    keeps_copies: bool = True  # the newest checkpoint of each trial is copied from its host to the server
    stores_copies: bool = False  # the server puts its copies of checkpoints into a storage, too
    checkpoints_kept: int = 2  # newest checkpoints of each trial whose files are kept, at least 1
    checkpoints_best: int = 0  # checkpoints of each trial with the best results whose files are kept, too
    checkpoints_limit: int | None = None  # bytes; then checkpoints of ended trials are deleted
    save_within: timedelta = timedelta(seconds=30)  # for a trial to save its state before it is paused
    stop_when: StopWhen = StopWhen()
    confirm_best: ConfirmBest | None = None
    resizable: tuple[str, ...] = ()  # fields of resources that the scheduler may change for a trial
    members: MemberRange | None = None  # None: all trials have the same number of members
    fail_fast: int = 0  # number of first trials that stop the experiment if all fail alike; 0: never


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerTraits:
    """Properties of the tuner that the server needs. They are stored with the fact that names the tuner.

    ``minimises``: the smallest result is the best, unless the experiment has objectives with their own modes.
    ``own``: the tuner is the user's code, which may use results that are not numbers.
    """

    minimises: bool = False
    own: bool = False
