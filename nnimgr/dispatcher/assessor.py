"""Child process that hosts an assessor.

It keeps the intermediate results of running trials, and asks the assessor to judge the trials.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnimgr.algorithm import AssessResult
from nnimgr.dispatcher.calls import Calls, short_sentence
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.history import History, Metric
from nnimgr.dispatcher.messages import (
    Answered,
    CatchUp,
    Failed,
    Judged,
    Metrics,
    Noted,
    Ready,
    RolledBack,
    Start,
    ToChild,
    TrialFinished,
)
from nnimgr.dispatcher.results import fault_of_result
from nnimgr.objectives import with_default

__all__ = ["AssessorHost"]

MOST_DEFERRED = 64  # most lines of metrics that are read before their trials are judged
MOST_BETTER = 3  # most better trials that a verdict names


class _Reports:
    """Intermediate results of a trial's latest attempt, in the order of their sequence numbers and without
    gaps.

    A trial that continues from a checkpoint of a trial with more results lacks the results in between. The
    first result after the gap stands in for them.
    """

    __slots__ = ("_early", "_gap_to", "assessed", "attempt", "fault_told", "position", "raised", "values")

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.values: list[Any] = []
        self._early: dict[int, Any] = {}  # values that came too early: sequence number -> value
        self._gap_to = 0  # sequence number of the first result after a gap that stays
        self.position = -1  # position of the newest value in the attempt's metrics file
        self.assessed = 0  # number of values that the assessor has seen
        self.fault_told = False
        self.raised: str | None = None  # last error that the assessor raised for this trial

    def add(self, position: int, sequence: int, value: Any, *, past: bool = False) -> None:
        """Add a result. ``past``: it was read from the database, where gaps stay."""
        self.position = max(self.position, position)
        values = self.values
        if sequence > len(values) and (past or sequence == self._gap_to):
            values += [value] * (sequence - len(values))
        if sequence == len(values):
            values.append(value)
            while self._early and len(values) in self._early:
                values.append(self._early.pop(len(values)))
        elif sequence > len(values):
            self._early[sequence] = value
        elif sequence >= 0:
            # if a sequence number is reported twice, the last value counts, as in NNI
            values[sequence] = value

    def continue_as(self, attempt: int, *, position: int, count: int) -> None:
        """Keep the first ``count`` values as the beginning of another attempt."""
        self.attempt, self.position = attempt, position - 1
        del self.values[count:]
        self._gap_to = count
        self._early.clear()
        self.assessed = min(self.assessed, len(self.values))


class AssessorHost:
    """Host of one assessor in its child process.

    Call ``build`` first, then ``handle`` for each message of the server, and ``leave`` at the end. ``calls``:
    object that calls the assessor's methods; None: create the object.
    """

    def __init__(self, channel: Channel, start: Start, calls: Calls | None = None) -> None:
        self._channel, self._start = channel, start
        self._calls = Calls(channel, "assessor") if calls is None else calls
        self._assessor: Any = None
        self._builtin = False
        self._running: dict[str, _Reports] = {}
        # trials judged Bad: id -> attempt. Later attempts are judged again, because the verdict came too late
        self._judged: dict[str, float] = {}
        self._finished: set[str] = set()
        self._fresh: dict[str, None] = {}  # trials with reports that were not judged yet
        self._deferred = 0
        self._read_to = start.rebuild_to
        self._proved = False  # True: the assessor has judged a trial since it was built

    def build(self) -> None:
        """Construct the assessor, restore its state, judge earlier trials that still run, and send Ready.

        Raise Doomed if this process must end.
        """
        self._assessor, self._builtin = self._calls.build(self._start)
        note = self._rebuild() if self._start.rebuild_to else None
        self._judge_fresh()  # before Ready, because an assessor that fails on its past is not ready
        self._channel.send(Ready(learns=True, note=note))

    def handle(self, message: ToChild) -> None:
        """Process one message of the server.

        Judge trials with new results once no more metrics are waiting, or after MOST_DEFERRED messages with
        metrics.
        """
        if isinstance(message, Metrics):
            for item in message.items:
                self._take(item)
            self._deferred += 1
            if self._channel.waiting and self._deferred < MOST_DEFERRED:
                return
        elif isinstance(message, TrialFinished):
            self._fresh.pop(message.trial_id, None)
        elif isinstance(message, RolledBack):
            self._judge_fresh()
            self._roll_back(message)
        elif isinstance(message, CatchUp):
            self._catch_up(message.number)
        self._judge_fresh()
        if isinstance(message, TrialFinished):
            self._end(message.trial_id, message.success)

    def leave(self) -> None:
        exit_hook = getattr(self._assessor, "_on_exit", None)
        if exit_hook is not None:
            self._calls.report("_on_exit", exit_hook)

    def fail(self) -> None:
        """Call the assessor's ``_on_error``, because its exception is about to end the process."""
        error_hook = getattr(self._assessor, "_on_error", None)
        if error_hook is not None:
            self._calls.attempt("_on_error", error_hook)

    # ---- rebuilding ---------------------------------------------------------------------------------------

    def _rebuild(self) -> str | None:
        """Report the ended trials to the assessor, and read the intermediate results of the other trials.

        Return a sentence if the assessor's state could not be restored exactly.
        """
        up_to = self._start.rebuild_to
        history = History(self._start.database, self._start.experiment_id)
        try:
            ended = history.ended(up_to=up_to)
            self._finished = {trial_id for trial_id, _ in ended}
            self._judged = dict.fromkeys(history.judged(up_to=up_to), math.inf)  # these are being stopped
            recall = getattr(self._assessor, "recall", None)
            failures: list[str] = []
            replayable = bool(getattr(self._assessor, "replayable", False))
            if replayable:
                self._replay(history)
            elif callable(recall):
                successes = dict(ended)
                for trial_id, items in history.metrics_of(list(successes), up_to=up_to):
                    if items:
                        reports = self._reports_of(items)
                        failures += self._recall(recall, trial_id, reports, successes[trial_id])
            elif ended:
                self._calls.report("load_checkpoint", getattr(self._assessor, "load_checkpoint", _nothing))
            others = [] if replayable else history.others(self._finished)
            for _, items in history.metrics_of(others, up_to=up_to):
                for item in items:
                    self._take(item, past=True)
            for message in history.continued(up_to=up_to):
                self._continue(message)
            for trial_id, attempt in history.waiting(up_to=up_to).items():
                if trial_id in self._running and self._running[trial_id].attempt < attempt:
                    self._fresh.pop(trial_id, None)
        finally:
            history.close()
        if failures:
            return f"{len(failures)} calls raised an exception while the assessor was rebuilt: {failures[0]}"
        if ended and not callable(recall) and not replayable:
            return (
                f"the assessor has no recall method: it knows nothing of the {len(ended)} trials that ended"
            )
        return None

    def _replay(self, history: History) -> None:
        """Repeat all earlier calls of the assessor. Send its verdicts that are not in the log yet."""
        known, self._judged, self._finished = self._judged, {}, set()
        verdicts: dict[str, Judged] = {}
        for event in history.reports_and_ends(up_to=self._start.rebuild_to):
            if len(event) == 2:
                self._end(*event)
                verdicts.pop(event[0], None)
                continue
            self._take(event, past=True)
            for trial_id in self._fresh:
                reports = self._running[trial_id]
                if not self._opinion(trial_id, reports):
                    self._judged[trial_id] = reports.attempt
                    verdicts[trial_id] = self._verdict(trial_id, reports)
            self._fresh.clear()
        waiting = history.waiting(up_to=self._start.rebuild_to)
        for trial_id, verdict in verdicts.items():
            if trial_id not in known and verdict.attempt >= waiting.get(trial_id, 0):
                self._channel.send(verdict)
        self._judged |= known

    def _recall(self, recall: Any, trial_id: str, reports: _Reports, success: bool) -> list[str]:
        result = self._calls.attempt("recall", lambda: recall(trial_id, reports.values, success))
        return [result.sentence] if isinstance(result, Failed) else []

    def _catch_up(self, number: int) -> None:
        """Read the metrics that the server did not send because this child was slow, from the database.

        Metrics that were read here are ignored if they arrive in later messages.
        """
        history = History(self._start.database, self._start.experiment_id)
        try:
            for item in history.metrics(after=self._read_to, up_to=number):
                self._take(item)
        finally:
            history.close()
        self._read_to = max(self._read_to, number)

    def _roll_back(self, message: RolledBack) -> None:
        """Forget the results of a trial that it reports again, because it continues from a checkpoint.

        A fork begins with the checkpoint of another trial, whose results it lacks.
        """
        reports = self._running.get(message.trial_id)
        if reports is None and message.reports:
            reports = self._running[message.trial_id] = _Reports(message.attempt)
        if reports is not None:
            assessed = reports.assessed
            reports.continue_as(message.attempt, position=message.position, count=message.reports)
            self._discard(message.trial_id, assessed, message.reports)

    def _discard(self, trial_id: str, assessed: int, kept: int) -> None:
        """Tell the assessor that of ``assessed`` results that it has seen, the first ``kept`` still count."""
        hook = getattr(self._assessor, "trial_rolled_back", None)
        if assessed > kept and hook is not None:
            self._calls.report("trial_rolled_back", lambda: hook(trial_id, kept), trial_id=trial_id)

    def _continue(self, message: RolledBack) -> None:
        """Let a trial continue that had not reported anything since it was rolled back, or forked.

        It is judged with its next report, and not because this process was started.
        """
        reports = self._running.get(message.trial_id)
        if message.trial_id not in self._finished and (
            reports is None or (reports.attempt <= message.attempt and reports.position < message.position)
        ):
            self._roll_back(message)
            self._fresh.pop(message.trial_id, None)

    # ---- reports and verdicts -----------------------------------------------------------------------------

    def _take(self, item: Metric, *, past: bool = False) -> None:
        """Take a metric. ``past``: it was read from the database when the assessor was built."""
        trial_id, attempt, position, sequence, text = item
        if trial_id in self._finished:
            return
        reports = self._running.get(trial_id)
        if reports is None or reports.attempt < attempt:
            assessed = 0 if reports is None else reports.assessed
            reports = self._running[trial_id] = _Reports(attempt)
            self._discard(trial_id, assessed, 0)
        elif reports.attempt > attempt:
            return
        value = self._read(text)
        reports.add(position, sequence, value, past=past)
        if self._builtin and not reports.fault_told:
            fault = fault_of_result(value, numeric=True)
            if fault is not None:
                reports.fault_told = True
                note = (
                    f"its intermediate result {sequence + 1} {fault}: the assessor ignores results like this"
                )
                self._channel.send(Noted(trial_id=trial_id, note=note))
        if self._judged.get(trial_id, 0) < attempt and len(reports.values) > reports.assessed:
            self._fresh[trial_id] = None

    def _judge_fresh(self) -> None:
        self._deferred = 0
        fresh, self._fresh = self._fresh, {}
        for trial_id in fresh:
            self._judge(trial_id, self._running[trial_id])
        if fresh and not self._proved:
            # Verdicts other than Bad are not sent. Without the message Answered, the server could not
            # distinguish a working assessor from one that fails.
            self._proved = True
            self._channel.send(Answered(missing=(), exhausted=False))

    def _judge(self, trial_id: str, reports: _Reports) -> None:
        if not self._opinion(trial_id, reports):
            self._judged[trial_id] = reports.attempt
            self._channel.send(self._verdict(trial_id, reports))

    def _verdict(self, trial_id: str, reports: _Reports) -> Judged:
        """Return the message that the trial is judged bad, with the assessor's reason."""
        attempt, position = reports.attempt, reports.position
        verdict = Judged(trial_id=trial_id, attempt=attempt, position=position, report=len(reports.values))
        why = getattr(self._assessor, "why", None)
        if not callable(why):
            return verdict
        said = self._calls.report("why", lambda: why(trial_id), trial_id=trial_id)
        if isinstance(said, str):
            return replace(verdict, reason=short_sentence(said))
        if not isinstance(said, Mapping):
            return verdict
        rung, better = said.get("rung"), said.get("better")
        return replace(
            verdict,
            reason=short_sentence(said.get("reason") or ""),
            rung=rung if isinstance(rung, int) else None,
            better=tuple(map(str, better))[:MOST_BETTER] if isinstance(better, list | tuple) else (),
        )

    def _opinion(self, trial_id: str, reports: _Reports) -> bool:
        """Ask the assessor about a trial; return whether the trial continues.

        If the assessor raises an exception, report it to the server and return True.
        """
        reports.assessed = len(reports.values)
        # User code gets a copy, because it may store or change the list.
        values = reports.values if self._builtin else list(reports.values)
        result = self._calls.attempt(
            "assess_trial", lambda: self._assess(trial_id, values), trial_id=trial_id
        )
        if isinstance(result, Failed):
            if result.sentence != reports.raised:  # report the same error only once, and not at every metric
                reports.raised = result.sentence
                self._channel.send(result)
            return True
        return result

    def _assess(self, trial_id: str, values: list[Any]) -> bool:
        result = self._assessor.assess_trial(trial_id, values)
        if isinstance(result, AssessResult):
            return bool(result.value)
        if isinstance(result, bool):
            return result
        raise TypeError(f"assess_trial must return an AssessResult or a bool, not {result!r:.100}")

    def _end(self, trial_id: str, success: bool) -> None:
        self._finished.add(trial_id)
        self._judged.pop(trial_id, None)
        reports = self._running.pop(trial_id, None)
        if reports is not None:
            if len(reports.values) > reports.assessed:
                # NNI's assessors learn about a trial only through calls. So call the assessor, although its
                # answer has no effect.
                self._opinion(trial_id, reports)
            self._calls.report(
                "trial_end", lambda: self._assessor.trial_end(trial_id, success), trial_id=trial_id
            )

    def _reports_of(self, items: Sequence[Metric]) -> _Reports:
        """Return the intermediate results of the last attempt in ``items``."""
        reports = _Reports(items[-1][1])
        for _, attempt, position, sequence, text in items:
            if attempt == reports.attempt:
                reports.add(position, sequence, self._read(text), past=True)
        return reports

    def _read(self, text: str) -> Any:
        """Decode the JSON text of an intermediate result. For a built-in assessor, return only the main
        objective's number.
        """
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return with_default(value, self._start.objectives) if self._builtin else value


def _nothing() -> None:
    pass
