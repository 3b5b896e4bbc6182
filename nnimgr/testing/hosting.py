"""Host for a tuner or assessor under test: it works as in an experiment, but in the test's own process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.dispatcher.assessor import AssessorHost
from nnimgr.dispatcher.messages import (
    Answered,
    Ask,
    Imported,
    Judged,
    Metrics,
    Ready,
    RolledBack,
    SpaceChanged,
    Suggestion,
    ToChild,
    TrialFinished,
)
from nnimgr.dispatcher.tuner import TunerHost
from nnimgr.testing.harness import Hosted, Made, start_message
from nnimgr.testing.record import Record

__all__ = ["NO_RESULT", "HostedAssessor", "HostedTuner", "Trial"]

NO_RESULT = object()  # result of a trial that ends normally without a report


@dataclass(frozen=True, slots=True)
class Trial:
    """Running trial of a test.

    ``parameter_id``: None if a user has submitted the trial. ``text``: JSON text of its parameters.
    """

    id: str
    parameter_id: int | None
    text: str

    @property
    def parameters(self) -> Any:
        return json.loads(self.text)


class HostedTuner(Hosted):
    """Experiment with the tuner under test. Every event is recorded before the tuner gets it.

    ``again``: an earlier experiment, from whose record the tuner is restored, up to fact number ``up_to``.
    Afterwards, the two experiments are independent of each other.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        record: Record,
        space: Mapping[str, Any],
        *,
        builtin: bool,
        again: HostedTuner | None = None,
        up_to: int | None = None,
        since: int = 0,
    ) -> None:
        super().__init__()
        self.record, self.space = record, space
        self.trials: list[Trial] = []  # running trials, oldest first
        self.given: list[Trial] = []  # trials of the sets that the tuner has suggested
        self.owed: set[int] = set()  # requested ids that were neither answered nor refused
        self.exhausted = False  # True: the tuner had no more sets at its last answer
        self.next_id: int = 0 if again is None else again.next_id
        # trial id -> its present attempt and the number of its intermediate results
        self._reports: dict[str, tuple[int, int]] = {} if again is None else dict(again._reports)
        self._builtin, self._make, self._since = builtin, make, since
        self._fed_to = record.number if up_to is None else up_to
        self._read = 0
        rebuilt = again is not None or since > 0
        start = start_message(
            "tuner", record.path, space, rebuild_to=self._fed_to if rebuilt else 0, since=since
        )
        self._host = TunerHost(self.heard, start, calls=Made(self.heard, "tuner", make, builtin=builtin))
        self.do(self._host.build)

    def restarted(self, *, up_to: int | None = None) -> HostedTuner:
        """Return the experiment after a restart of the tuner's process.

        ``up_to``: number of the last fact that the restarted tuner gets; None: all facts.
        """
        return HostedTuner(
            self._make,
            self.record,
            self.space,
            builtin=self._builtin,
            again=self,
            up_to=up_to,
            since=self._since,
        )

    def ask(self, count: int = 1) -> list[Trial]:
        """Request more parameter sets. Return a trial for each set that came, also for earlier requests."""
        ids = tuple(range(self.next_id, self.next_id + count))
        self.next_id += count
        self.owed.update(ids)
        return self._tell(Ask(parameter_ids=ids, fed_to=self._fed_to))

    def answer(self, parameter_id: int) -> str | None:
        """Return the JSON text of the parameter set that the tuner gives for this id, or None.

        No trial is created for the set.
        """
        self.do(lambda: self._host.handle(Ask(parameter_ids=(parameter_id,), fed_to=self._fed_to)))
        given = [each for each in self.heard.messages if isinstance(each, Suggestion)]
        return next((each.parameters for each in given if each.parameter_id == parameter_id), None)

    def end(self, trial: Trial, value: Any, *, success: bool = True, untried: bool = False) -> list[Trial]:
        """End a trial with a result, or with ``NO_RESULT``.

        Return a trial for each parameter set that the tuner gave after that.
        """
        if trial in self.trials:
            self.trials.remove(trial)
        text = None if value is NO_RESULT else json.dumps(value)
        self._fed_to = self.record.ended(trial.id, text, success=success, untried=untried)
        return self._tell(
            TrialFinished(
                number=self._fed_to,
                trial_id=trial.id,
                parameter_id=trial.parameter_id,
                parameters=trial.text,
                text=text,
                success=success,
                untried=untried,
            )
        )

    @property
    def wants_metrics(self) -> bool:
        """True: the tuner wants intermediate results."""
        return any(isinstance(each, Ready) and each.wants_metrics for each in self.heard.messages)

    def report(self, trial: Trial, *values: Any) -> list[Trial]:
        """Report intermediate results of a trial. Return a trial for each parameter set that the tuner gave
        after that.
        """
        attempt, first = self._reports.get(trial.id, (1, 0))
        self._reports[trial.id] = attempt, first + len(values)
        items, numbers = [], []
        for position, value in enumerate(values, first):
            text = json.dumps(value)
            self._fed_to = self.record.reported(trial.id, position, text, attempt=attempt)
            items.append((trial.id, attempt, position, position, text))
            numbers.append(self._fed_to)
        return self._tell(Metrics(items=tuple(items), numbers=tuple(numbers)))

    def roll_back(self, trial: Trial, reports: int) -> list[Trial]:
        """Let a trial continue from a checkpoint after its first ``reports`` intermediate results, or start
        again if there are none. Return a trial for each parameter set that the tuner gave after that.
        """
        attempt = self._reports.get(trial.id, (1, 0))[0] + 1
        self._reports[trial.id] = attempt, reports
        self._fed_to = self.record.continued(trial.id, attempt, reports)
        return self._tell(
            RolledBack(
                number=self._fed_to, trial_id=trial.id, attempt=attempt, position=reports, reports=reports
            )
        )

    def submit(self, parameters: Any) -> Trial:
        """Submit a trial with these parameters, as a user can do."""
        text = json.dumps(parameters)
        self.trials.append(Trial(self.record.suggested(None, text), None, text))
        return self.trials[-1]

    def import_data(self, *records: Any) -> None:
        text = json.dumps(records)
        self._fed_to = self.record.imported(text)
        self._tell(Imported(number=self._fed_to, records=text))

    def change_space(self, space: Mapping[str, Any]) -> None:
        self.space = space
        self._fed_to = self.record.space_changed(space)
        self._tell(SpaceChanged(number=self._fed_to, search_space=space))

    def leave(self) -> None:
        self.do(self._host.leave)

    def _tell(self, message: ToChild) -> list[Trial]:
        self.do(lambda: self._host.handle(message))
        fresh, self._read = self.heard.messages[self._read :], len(self.heard.messages)
        began = []
        for each in fresh:
            match each:
                case Suggestion(parameter_id=parameter_id, parameters=text):
                    assert parameter_id in self.owed, (
                        f"the tuner gave set {parameter_id}, which was not requested"
                    )
                    self.owed.remove(parameter_id)
                    fed_to = each.fed_to
                    trial_id = self.record.suggested(parameter_id, text, fed_to=fed_to, state=each.state)
                    began.append(Trial(trial_id, parameter_id, text))
                case Answered(exhausted=exhausted, missing=missing):
                    self.exhausted = exhausted
                    if exhausted:
                        self.owed.difference_update(missing)
        self.trials += began
        self.given += began
        return began


class HostedAssessor(Hosted):
    """Experiment with the assessor under test."""

    def __init__(
        self, make: Callable[[], Any], record: Record, *, builtin: bool, rebuild_to: int = 0
    ) -> None:
        super().__init__()
        self.record = record
        self._reports: dict[str, int] = {}
        self._builtin, self._make = builtin, make
        start = start_message("assessor", record.path, {}, rebuild_to=rebuild_to)
        calls = Made(self.heard, "assessor", make, builtin=builtin)
        self._host = AssessorHost(self.heard, start, calls=calls)
        self.do(self._host.build)

    def restarted(self) -> HostedAssessor:
        """Return the experiment after a restart of the assessor's process."""
        found = HostedAssessor(self._make, self.record, builtin=self._builtin, rebuild_to=self.record.number)
        found._reports = dict(self._reports)
        return found

    def begin(self) -> str:
        """Start a trial and return its id."""
        return self.record.suggested(None, "{}")

    def report(self, trial_id: str, *values: Any, recorded: bool = True) -> bool:
        """Report intermediate results of a trial. Return whether the trial continues.

        With ``recorded=False``, the results are not written to the database.
        """
        items = []
        for value in values:
            position = self._reports.get(trial_id, 0)
            self._reports[trial_id] = position + 1
            if recorded:
                self.record.reported(trial_id, position, json.dumps(value))
            items.append((trial_id, 1, position, position, json.dumps(value)))
        before = len(self.heard.messages)
        self.do(lambda: self._host.handle(Metrics(items=tuple(items))))
        bad = [each for each in self.heard.messages[before:] if isinstance(each, Judged)]
        if bad and recorded:
            self.record.judged(trial_id, bad[0].position)
        return not bad

    def end(self, trial_id: str, *, success: bool = True) -> None:
        number = self.record.ended(trial_id, "1.0" if success else None, success=success)
        self.do(
            lambda: self._host.handle(
                TrialFinished(
                    number=number,
                    trial_id=trial_id,
                    parameter_id=None,
                    parameters="{}",
                    text="1.0" if success else None,
                    success=success,
                )
            )
        )

    def leave(self) -> None:
        self.do(self._host.leave)
