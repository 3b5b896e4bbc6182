"""Interface of schedulers, which pause running trials, continue them, stop them, or give them other
parameters.

A scheduler has a method for each event in the life of a trial. The methods are called once an event is
recorded, in the order of the events, and may return decisions. A scheduler runs in its own process, in one
thread, one call at a time.

After the process has died, a new process calls the same methods again, for everything that is recorded. So
the decisions must depend only on these calls: no clock, no files, no random numbers except those of
``Experiment.generator``. A decision that is recorded already is not made twice.

Standard library only, because every experiment with a scheduler imports this module at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

__all__ = [
    "Checkpoint",
    "Continue",
    "Decision",
    "Decisions",
    "Experiment",
    "Exploit",
    "Pause",
    "Resize",
    "Scheduler",
    "Stop",
    "Trial",
]

SCHEDULER = "scheduler"  # value of Trial.paused


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State that a trial has saved: checkpoint ``number`` of the attempt ``attempt``.

    ``reports``: number of the trial's results that the state contains. ``step``: the trial's own count of its
    progress, or None.
    """

    attempt: int
    number: int
    reports: int
    step: int | None = None


@dataclass(slots=True, eq=False)
class Trial:
    """Trial as a scheduler sees it. A scheduler reads it, and does not change it.

    ``parameters``: the parameter set with which the trial runs. ``results``: the intermediate results that
    count, as the trial has reported them. ``numbers``: for each of these results, the finite number of the
    main objective, or None. ``checkpoints``: its checkpoints that belong to these results, oldest first. The
    files of the newest one exist, those of older ones may be deleted.
    """

    id: str
    parameters: Any
    results: list[Any] = field(default_factory=list)
    numbers: list[float | None] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    leg: int = 0  # how often the trial's parameters were replaced
    paused: str | None = None  # who has paused it: "user" or "scheduler"; None: it runs, or waits for a slot
    decided: Decision | None = None  # decision that was neither carried out nor refused so far
    silent: bool = False  # True: its host has been silent for so long that its slot is lent
    status: str | None = None  # status with which it has ended, such as "SUCCEEDED"; None: it has not ended
    # what it gets of each of the ``Experiment.resources``, as trialCpuNumber
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """Number of results that count."""
        return len(self.results)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """Newest checkpoint, or None."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def held(self) -> bool:
        """True: the scheduler has paused the trial, and has made no other decision about it since."""
        return self.paused == SCHEDULER and self.decided is None and self.status is None


@dataclass(frozen=True, slots=True, eq=False)
class Pause:
    """Decision: the trial saves its state and frees its slot, until the scheduler continues it.

    ``reason``: one sentence. ``rung``: number of results at which trials were compared, if they were.
    ``better``: ids of a few trials that were better. The decision is refused if the trial has never saved a
    checkpoint.
    """

    trial: Trial
    reason: str
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Continue:
    """Decision: a trial that the scheduler has paused gets the next free slot, before new trials do."""

    trial: Trial
    reason: str
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """Decision: the trial ends, as one that an assessor stops early. The fields are those of ``Pause``."""

    trial: Trial
    reason: str
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Exploit:
    """Decision: the trial continues from a checkpoint of the trial ``donor``, with the parameter set
    ``parameters``.

    The donor must not have ended. It may be the trial itself. A paused trial continues without another
    decision. ``checkpoint``: None if the donor has saved none. The decision is refused then, and users hear
    that the trials save nothing. ``parameters`` may be a function that returns the parameter set. It is
    called at once, but not if the decision is recorded already.
    """

    trial: Trial
    reason: str
    donor: Trial
    checkpoint: Checkpoint | None
    parameters: Any
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Resize:
    """Decision: the trial continues from its newest checkpoint with other resources.

    ``resources``: fields of ``Experiment.resources`` with their new values. The trial is asked to save its
    state first. A paused trial gets them when it continues. The decision is refused if the trial runs and has
    never saved a checkpoint. If no machine has as much, the trial continues with the resources that it had
    before.
    """

    trial: Trial
    reason: str
    resources: Mapping[str, float]
    rung: int | None = None
    better: tuple[str, ...] = ()


Decision = Pause | Continue | Stop | Exploit | Resize
Decisions = Decision | Iterable[Decision] | None


def _anything(parameters: Any) -> bool:
    return True


@dataclass(slots=True, eq=False)
class Experiment:
    """Experiment as its scheduler sees it. A scheduler reads it, and does not change it.

    ``trials``: trials that have not ended, by id, in the order of their creation. ``feasible`` returns
    whether a parameter set meets the constraints of the search space. ``objectives``: name of each objective
    and its direction. ``goal``: "maximize" or "minimize", or None if the configuration does not state it.
    ``resources``: what each trial gets by the configuration, of the resources that ``Resize`` may change:
    trialGpuNumber, trialCpuNumber, and trialMemorySize in MiB.
    """

    seed: int
    search_space: Mapping[str, Any]
    objectives: Mapping[str, str] = field(default_factory=dict)
    goal: str | None = None
    feasible: Callable[[Any], bool] = _anything
    resources: Mapping[str, float] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    more_trials: bool = True  # False: the experiment creates no more trials
    number: int = 0  # number of the present event in the experiment's log

    def generator(self, key: str = "") -> Random:
        """Return a generator of random numbers. The same event gives the same numbers after a restart.

        ``key`` distinguishes several generators for the same event.
        """
        return Random(f"{self.seed}/{self.number}/{key}")


class Scheduler:
    """Base class of schedulers. Override the methods for the events that matter.

    Every method may return a decision, or several, or None. There is at most one decision for each trial and
    event. A decision about a trial is made later than the event, so that it may be refused:
    ``Trial.decided`` has it until it is carried out, or until ``decision_refused`` is called.

    ``experiment`` is set after the constructor. ``seed``: seed of ``Experiment.generator``; None: a seed of
    the experiment.
    """

    experiment: Experiment
    seed: int | None = None

    def trial_created(self, trial: Trial) -> Decisions:
        """Called for each new trial, which waits for a slot."""
        return None

    def result_reported(self, trial: Trial) -> Decisions:
        """Called for each intermediate result, which is the last one in ``trial.results``."""
        return None

    def checkpoint_saved(self, trial: Trial) -> Decisions:
        """Called when the trial has saved ``trial.checkpoint``."""
        return None

    def trial_paused(self, trial: Trial) -> Decisions:
        """Called when the trial has no process any more, because ``trial.paused`` has paused it."""
        return None

    def trial_continued(self, trial: Trial) -> Decisions:
        """Called when a paused trial is to continue, by a decision or because a user wants it.

        It runs as soon as a slot is free.
        """
        return None

    def trial_rolled_back(self, trial: Trial) -> Decisions:
        """Called when the trial continues from a checkpoint, or starts again.

        Its results after that checkpoint are removed, and are reported again.
        """
        return None

    def leg_began(self, trial: Trial) -> Decisions:
        """Called when an ``Exploit`` was carried out.

        ``trial.parameters`` and ``trial.results`` are those with which it continues. Results that were
        reported by a trial which this process does not know are None.
        """
        return None

    def resources_changed(self, trial: Trial) -> Decisions:
        """Called when the trial continues with other ``trial.resources``, after ``trial_rolled_back`` or
        ``leg_began``.
        """
        return None

    def trial_silent(self, trial: Trial) -> Decisions:
        """Called when the trial's host has been silent for so long that its slot is lent.

        No other trial should wait for it. ``trial.silent`` is False again after its next result.
        """
        return None

    def trial_ended(self, trial: Trial) -> Decisions:
        """Called when the trial has ended with ``trial.status``, for whatever reason."""
        return None

    def decision_refused(self, decision: Decision, reason: str) -> Decisions:
        """Called when a decision was not carried out. The trial continues as without it."""
        return None

    def no_more_trials(self) -> Decisions:
        """Called when the experiment creates no more trials."""
        return None

    def trials_again(self) -> Decisions:
        """Called when the experiment creates trials again, for example because a limit was raised."""
        return None

    def all_paused(self) -> Decisions:
        """Called when no more trials come, and the scheduler has paused all that have not ended.

        If no decision is returned, all of them are stopped, so that the experiment ends.
        """
        return None

    def search_space_changed(self) -> Decisions:
        """Called when a user has replaced the search space or its constraints."""
        return None

    def _on_exit(self) -> None:
        """Called when the experiment stops using the scheduler."""

    def _on_error(self) -> None:
        """Called when the scheduler has raised an exception that ends its process."""
