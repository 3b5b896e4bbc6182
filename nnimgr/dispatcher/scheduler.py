"""Child process that hosts a scheduler: reports to it what happens to trials, and sends its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from nnimgr.dispatcher.calls import Calls, short_sentence
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.history import Reported
from nnimgr.dispatcher.members import Event, Members
from nnimgr.dispatcher.messages import (
    Answered,
    Ask,
    CatchUp,
    Decided,
    DecisionRefused,
    Environment,
    Failed,
    Imported,
    Leave,
    Metrics,
    Noted,
    Ready,
    ResultReported,
    SetDiscarded,
    SetTried,
    Start,
    ToChild,
    TrialsAgain,
)
from nnimgr.dispatcher.scheduler_history import SchedulerHistory
from nnimgr.dispatcher.serialization import is_deep, json_text
from nnimgr.scheduler import Continue, Decision, Exploit, Pause, Resize, Scheduler, Stop, Trial

__all__ = ["SchedulerHost"]

MOST_BETTER = 3  # most better trials that a decision names
LEFT = "the scheduler did not continue it before the experiment's end"

_KINDS = {Pause: "pause", Continue: "continue", Stop: "stop", Exploit: "exploit", Resize: "resize"}


class SchedulerHost:
    """Host of one scheduler in its child process.

    Call ``build`` first, then ``handle`` for each message of the server, and ``leave`` at the end. ``calls``:
    object that calls the scheduler's methods; None: create the object.
    """

    def __init__(self, channel: Channel, start: Start, calls: Calls | None = None) -> None:
        self._channel, self._start = channel, start
        self._calls = Calls(channel, "scheduler") if calls is None else calls
        self._fed_to = 0  # number of the last fact that the scheduler knows
        self._unused: set[str] = set()  # methods that the scheduler's class does not override
        self._raised: dict[str, str] = {}  # method -> last error that it raised
        self._proved = False  # True: the scheduler has answered since it was built
        self._recorded: set[tuple[int, str]] = set()  # cause and trial of decisions in the log
        self._unsent: list[Decided] | None = None  # decisions that are not in the log, during a rebuild
        self._given_up: set[str] = set()  # trials that this host has stopped, because none continued

    def build(self) -> None:
        """Construct the scheduler, restore its state, send the decisions that are not recorded, and send
        Ready.

        Raise Doomed if this process must end.
        """
        scheduler, self._builtin = self._calls.build(self._start)
        self._calls.must("constructor", lambda: _check_class(scheduler), hopeless=True)
        self._scheduler: Scheduler = scheduler
        self._unused = {name for name in vars(Scheduler) if name not in _overridden(scheduler)}
        seed = self._start.seed if scheduler.seed is None else scheduler.seed
        self._members = self._calls.must(
            "constraints", lambda: Members(self._start, seed=seed, on_fault=self._note_fault), hopeless=True
        )
        scheduler.experiment = self._members.experiment
        note = self._rebuild() if self._start.rebuild_to else None
        self._channel.send(Ready(learns=True, note=note, wants_metrics=True))

    def handle(self, message: ToChild) -> None:
        """Process one message of the server."""
        match message:
            case Metrics(items=items, numbers=numbers):
                for number, metric in zip(numbers, items, strict=True):
                    self._report(Reported(number, metric))
            case CatchUp(number=number):
                self._catch_up(number)
            case Environment() | Start() | Ask() | ResultReported() | SetDiscarded() | SetTried():
                return  # messages for tuners only
            case Imported() | Leave():
                return
            case _:
                self._report(message)
        if not self._proved:
            # Without this message, the server could not distinguish a scheduler without decisions from one
            # that fails.
            self._proved = True
            self._channel.send(Answered(missing=(), exhausted=False, fed_to=self._fed_to))

    def leave(self) -> None:
        self._calls.report("_on_exit", self._scheduler._on_exit)

    def fail(self) -> None:
        """Call the scheduler's ``_on_error``, because its exception is about to end the process."""
        scheduler = getattr(self, "_scheduler", None)
        if scheduler is not None:
            self._calls.attempt("_on_error", scheduler._on_error)

    # ---- the past -----------------------------------------------------------------------------------------

    def _rebuild(self) -> str | None:
        """Report all events up to the server's last fact. Send the decisions that the log lacks.

        Return a sentence if some of its methods raised an exception.
        """
        self._unsent = []
        with closing(self._open_history()) as history:
            self._recorded = history.decisions()
            with self._calls.collect() as failures, self._channel.calling("rebuild"):
                self._report_all(history, up_to=self._start.rebuild_to)
        unsent, self._unsent = self._unsent, None
        self._recorded.clear()
        for decided in unsent:
            if self._members.awaits(decided.trial_id, decided.cause):
                self._channel.send(decided)
        self._fed_to = max(self._fed_to, self._start.rebuild_to)
        if not failures:
            return None
        return (
            f"{len(failures)} calls raised an exception again while the scheduler was rebuilt: {failures[0]}"
        )

    def _catch_up(self, number: int) -> None:
        """Report the events that the server did not send because this child was slow."""
        if number > self._fed_to:
            with closing(self._open_history()) as history:
                self._report_all(history, up_to=number)
            self._fed_to = number

    def _open_history(self) -> SchedulerHistory:
        return SchedulerHistory(self._start.database, self._start.experiment_id)

    def _report_all(self, history: SchedulerHistory, *, up_to: int) -> None:
        for event in history.messages(self._members.experiment, after=self._fed_to, up_to=up_to):
            self._report(event)

    # ---- events and decisions -----------------------------------------------------------------------------

    def _report(self, event: Event) -> None:
        """Report an event to the scheduler, unless the scheduler knows it already, and send its decisions."""
        if event.number <= self._fed_to:
            return
        self._fed_to = event.number
        if isinstance(event, TrialsAgain):
            self._given_up.clear()
        for call in self._members.hear(event):
            self._call(*call)
        if self._members.all_held:
            self._end_of_trials(event)

    def _end_of_trials(self, event: Event) -> None:
        """Stop all trials that the scheduler has paused, unless it continues some of them now.

        Without this, the experiment would wait for ever.
        """
        members = self._members
        if not isinstance(event, DecisionRefused):  # else the same decision might be refused without end
            self._call("all_paused")
        if not members.all_held:
            return
        for trial_id in [each for each in members.held if each not in self._given_up]:
            self._given_up.add(trial_id)
            pause = members.pauses.get(trial_id)
            reason = LEFT if pause is None else f"{LEFT}; reason of its pause: {pause.reason}"
            rung, better = (None, ()) if pause is None else (pause.rung, pause.better)
            self._decide(Stop(members.trials[trial_id], reason, rung, better), None)

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a method of the scheduler, and send its decisions.

        If it raises an exception, report the same error only once, and make no decision.
        """
        if name in self._unused:  # it would decide nothing, and there may be very many checkpoints
            return
        method = getattr(self._scheduler, name)
        trial_id = arguments[0].id if arguments and isinstance(arguments[0], Trial) else None
        found = self._calls.attempt(name, lambda: self._checked(method(*arguments)), trial_id=trial_id)
        if isinstance(found, Failed):
            if found.sentence != self._raised.get(name):
                self._raised[name] = found.sentence
                self._calls.complain(found)
            return
        for decision, parameters in found:
            self._decide(decision, parameters)

    def _checked(self, found: Any) -> list[tuple[Decision, str | None]]:
        """Return the decisions that a method has returned, with the parameters of an ``Exploit`` as JSON
        text.

        Raise TypeError or ValueError if they are not valid.
        """
        if found is None:
            return []
        decisions = [found] if isinstance(found, Decision) else found
        if not isinstance(decisions, Iterable) or isinstance(decisions, str | bytes):
            raise TypeError(f"a scheduler must return decisions or None, not {found!r:.100}")
        checked: list[tuple[Decision, str | None]] = []
        for decision in decisions:
            self._check(decision)
            if any(decision.trial is other.trial for other, _ in checked):
                raise ValueError(f"there are two decisions about trial {decision.trial.id}")
            checked.append((decision, self._parameters(decision)))
        return checked

    def _check(self, decision: Any) -> None:
        if not isinstance(decision, Decision):
            valid = ", ".join(kind.__name__ for kind in _KINDS)
            raise TypeError(f"a decision must be one of {valid}, not {decision!r:.100}")
        trials = self._members.trials
        if not isinstance(decision.trial, Trial) or trials.get(decision.trial.id) is not decision.trial:
            raise ValueError(f"{_name(decision)} is about a trial that has ended, or that does not exist")
        if self._members.awaits(decision.trial.id, self._members.experiment.number):
            raise ValueError(f"there are two decisions about trial {decision.trial.id}")
        if not isinstance(decision.reason, str) or not decision.reason.strip():
            raise ValueError(f"{_name(decision)} has no reason")
        if not isinstance(decision.rung, int | None):
            raise TypeError(f"{_name(decision)}: rung must be an integer or None, not {decision.rung!r:.100}")
        if not all(isinstance(each, str) for each in decision.better):
            raise TypeError(f"{_name(decision)}: better must be ids of trials, not {decision.better!r:.100}")
        if isinstance(decision, Exploit):
            donor = decision.donor
            if not isinstance(donor, Trial) or trials.get(donor.id) is not donor:
                raise ValueError(f"{_name(decision)} has a donor that has ended, or that does not exist")
            if decision.checkpoint not in (None, *donor.checkpoints):
                raise ValueError(f"{_name(decision)}: {decision.checkpoint} is not of its donor {donor.id}")

        if isinstance(decision, Resize):
            self._check_resources(decision)

    def _check_resources(self, decision: Resize) -> None:
        from nnimgr.needs import FIELDS  # imported here, because most schedulers never need it

        known = self._members.experiment.resources
        wanted: Any = decision.resources
        if not isinstance(wanted, Mapping) or not wanted:
            raise TypeError(f"{_name(decision)}: resources must be a mapping, not {wanted!r:.100}")
        for name, value in wanted.items():
            if name not in known:
                valid = ", ".join(known) or "none"
                raise ValueError(f"{_name(decision)} has the resource {name!r:.100} (valid here: {valid})")
            try:
                fits = not isinstance(value, str) and FIELDS[name](value) == value and value > 0
            except (TypeError, ValueError):
                fits = False
            if not fits:
                raise ValueError(f"{_name(decision)}: {value!r:.100} is not a valid {name}")

    def _parameters(self, decision: Decision) -> str | None:
        """Return the new parameters of an ``Exploit`` as JSON text; None for other or recorded decisions."""
        key = self._members.experiment.number, decision.trial.id
        if not isinstance(decision, Exploit) or key in self._recorded:
            return None
        parameters = decision.parameters() if callable(decision.parameters) else decision.parameters
        text = json_text(parameters, f"the parameter set of {_name(decision)}")
        if is_deep(parameters):
            raise ValueError(f"the parameter set of {_name(decision)} is nested too deeply")
        if (complaint := self._members.complaint(parameters)) is not None:
            raise ValueError(f"{_name(decision)}: {complaint}")
        return text

    def _decide(self, decision: Decision, parameters: str | None) -> None:
        """Record a decision about the present event, and send it unless it is in the log."""
        self._members.decide(decision)
        exploit = decision if isinstance(decision, Exploit) else None
        point = None if exploit is None else exploit.checkpoint
        decided = Decided(
            cause=self._members.experiment.number,
            kind=_KINDS[type(decision)],
            trial_id=decision.trial.id,
            reason=short_sentence(decision.reason),
            parameters=parameters,
            donor=None if exploit is None else exploit.donor.id,
            checkpoint=None if point is None else (point.attempt, point.number),
            rung=decision.rung,
            better=tuple(decision.better)[:MOST_BETTER],
            resources=dict(decision.resources) if isinstance(decision, Resize) else None,
        )
        if self._unsent is None:
            self._channel.send(decided)
        elif (decided.cause, decided.trial_id) not in self._recorded:
            self._unsent.append(decided)

    def _note_fault(self, trial_id: str, sequence: int, fault: str) -> None:
        if self._builtin and self._unsent is None:
            note = (
                f"its intermediate result {sequence + 1} {fault}: the scheduler counts results like this as "
                "the worst"
            )
            self._channel.send(Noted(trial_id=trial_id, note=note))


def _check_class(scheduler: Any) -> None:
    if not isinstance(scheduler, Scheduler):
        raise TypeError(f"{type(scheduler).__name__} must be a subclass of nnimgr.scheduler.Scheduler")


def _overridden(scheduler: Scheduler) -> set[str]:
    """Return the names that the scheduler or one of its classes below ``Scheduler`` defines."""
    classes = [each for each in type(scheduler).__mro__ if each not in Scheduler.__mro__]
    return {name for each in (*classes, scheduler) for name in vars(each)}


def _name(decision: Decision) -> str:
    trial = decision.trial
    return f"{type(decision).__name__} of trial {trial.id if isinstance(trial, Trial) else repr(trial)}"
