"""Trial that the program has asked for, and runs itself."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from nnimgr.python.definition import plain_number
from nnimgr.python.errors import ArgumentError, Error, LateResult
from nnimgr.python.exchange import Exchange
from nnimgr.rules.terms import TrialStatus
from trial_keeper.log import said_by_exception

__all__ = ["Array", "AskedTrial", "Value", "takes_trial"]

Value = float | Mapping[str, Any]
"""Result of a trial: a number, or a mapping with a number for each objective and further metrics."""

_LONGEST_ERROR = 2000
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # how JSON texts of Python name such numbers
_NOTHING_RETURNED = "the function returned None: return a number from the function"
_NO_RESULT = "the program left the trial without a result: it did not call trial.tell(value)"


class Array(Protocol):
    """Array of results: of numpy, pandas or torch, for example."""

    def tolist(self) -> Any: ...


class AskedTrial:
    """Trial that this program runs::

        with study.ask() as trial:
            trial.tell(train(trial.params))

    An exception in the ``with`` block ends the trial as FAILED, with the exception as its reason, and Ctrl-C
    cancels it. Without ``tell``, the last report is the result.

    ``params``: the parameters. ``id``, ``number``: the trial's id, and its number from 0. ``seed``: seed for
    its random numbers if it repeats another trial (``confirmBest``); None: any.
    """

    def __init__(self, exchange: Exchange, given: Mapping[str, Any]) -> None:
        self._exchange = exchange
        self.id = str(given["id"])
        self.number = int(given["sequence"])
        self.params: dict[str, Any] = given["parameters"]
        self.attempt = int(given["attempt"])
        self.seed: int | None = given.get("seed")  # a server of an earlier version does not send it
        self.ended = False
        self._reports = 0
        self._last: Any = None
        self._end: Mapping[str, Any] | None = None  # how the trial has ended without this program
        self._lock = threading.Lock()
        exchange.hold(self)

    def __repr__(self) -> str:
        return f"<AskedTrial {self.number} ({self.id}){' ended' if self.ended else ''}: {self.params}>"

    @property
    def held(self) -> dict[str, Any]:
        """The trial and its attempt, in the server's form."""
        return {"trialId": self.id, "attempt": self.attempt}

    @property
    def reason(self) -> str:
        """Why the trial has ended without this program: by its assessor, a user, a limit or its lease.

        An empty text: it has not.
        """
        return "" if self._end is None else f"{self._end['status']}: {self._end['reason']}"

    def report(self, value: Value | None = None, /, **metrics: float) -> None:
        """Report an intermediate result: a number, a mapping, or ``trial.report(accuracy=0.9, loss=0.3)``.

        It is stored when the call returns. The assessor gets it, and may stop the trial: see ``should_stop``.
        """
        result = result_of(value, metrics)
        if isinstance(result, float) and not math.isfinite(result):
            result = _json_name(result)
        with self._lock:
            report = {**self.held, "number": self._reports, "value": result}
            answer = self._exchange.call(reports=[report])
            self._reports += 1
            self._last = result
        for gone in answer["gone"]:
            self.take_end(gone)

    def should_stop(self) -> bool:
        """Return whether the trial was stopped, by its assessor, by a user or by a limit.

        The assessor works beside the program, so its decision may come one report later.
        """
        if self._end is None and not self.ended:
            for gone in self._exchange.call(alive=[self.held])["gone"]:
                self.take_end(gone)
        return self._end is not None

    def tell(self, value: Value | None = None, /, **metrics: float) -> None:
        """End the trial with its result. It is stored when the call returns.

        A result that is not a finite number ends the trial as FAILED. A trial that was stopped early keeps
        that end. Raise LateResult if the trial has ended in another way, for example by its lease. Raise
        ArgumentError if the study has several objectives, and the result lacks one of them.
        """
        self._finish(self.end_with(value, metrics))

    def fail(self, reason: str) -> None:
        """End the trial as FAILED. ``reason``: one sentence."""
        self._finish({"error": reason.strip()[:_LONGEST_ERROR] or "failed without a reason"})

    def cancel(self) -> None:
        """Cancel the trial. The tuner does not learn from it."""
        self._finish({"canceled": True})

    def _finish(self, end: Mapping[str, Any]) -> None:
        self.settle(end, self._exchange.call(tells=[{**self.held, **end}])["gone"])

    def end_with(self, value: Any, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the end of the trial with this result, in the server's form. Raise ArgumentError."""
        return _end_of(result_of(value, metrics), self._exchange.objectives)

    def _end_without_result(self, error: str = _NO_RESULT) -> dict[str, Any]:
        """Return the end of a trial for which the program has told no result.

        ``error``: why it fails if it has reported nothing either.
        """
        if self._last is None:
            return {"error": error}
        last = float(self._last) if isinstance(self._last, str) else self._last
        try:
            return _end_of(last, self._exchange.objectives)
        except ArgumentError as fault:
            return {"error": f"its last report {fault.sentence.removeprefix('value: ')}"}

    def __enter__(self) -> AskedTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ended:
            return
        if error is None:
            if self._end is None:
                self._finish(self._end_without_result())
            return
        try:
            if isinstance(error, Exception):
                self.fail(_reason(error))
            else:
                self.cancel()
        except Error as also:
            error.add_note(f"The end of trial {self.number} could not be recorded: {also}")

    # ---- for the study ------------------------------------------------------------------------------------

    def end_of_call(
        self, function: Callable[..., Value | None], arguments: tuple[Any, ...]
    ) -> dict[str, Any] | None:
        """Call the user's function, and return how its trial ends; None if it has ended already."""
        try:
            value = function(*arguments)
            if self.ended or self._end is not None:
                return None
            if value is None:
                return self._end_without_result(_NOTHING_RETURNED)
            return self.end_with(value, {})
        except Exception as error:
            return None if self.ended else {"error": _reason(error)}
        except BaseException:
            with contextlib.suppress(Error):
                self.cancel()
            raise

    def take_end(self, gone: Mapping[str, Any]) -> None:
        """Note that the trial has ended without this program."""
        self._end = gone
        self._exchange.release(self)

    def settle(self, end: Mapping[str, Any], gone: list[Mapping[str, Any]]) -> None:
        """Note the end that this program has told. ``gone``: the trials that had ended before.

        Raise LateResult if this trial is one of them, and its recorded end is another one.
        """
        again, self.ended = self.ended, True
        self._exchange.release(self)
        for each in gone:
            if each["trialId"] != self.id:
                continue
            if "value" in end and each["status"] == "SUCCEEDED" and each["result"] == end["value"]:
                return  # the first of two equal calls was recorded
            if "value" not in end and each["status"] != "SUCCEEDED":
                return
            self._end = each
            if each["status"] == "EARLY_STOPPED":
                continue
            if again:
                first = "result" if each["status"] == "SUCCEEDED" else f"end, {each['status']},"
                raise LateResult(
                    f"Trial {self.number} ({self.id}) has ended already. Its first {first} counts, and the "
                    "second one is not recorded."
                )
            if each["status"] == "PAUSED":
                raise LateResult(
                    f"Trial {self.number} ({self.id}) was paused, so this result is not recorded. When it is "
                    "resumed, it can be asked for again."
                )
            if not TrialStatus(each["status"]).terminal:
                raise LateResult(
                    f"Trial {self.number} ({self.id}) was taken from this program when its lease ended. "
                    "It is tried again, so this result is not recorded."
                )
            raise LateResult(
                f"Trial {self.number} ({self.id}) had ended before its result came, so the result is not "
                f"recorded. The trial is {self.reason}."
            )


def _end_of(result: Any, objectives: Sequence[str]) -> dict[str, Any]:
    """Return the end of a trial with this result, in the server's form.

    Raise ArgumentError if the study has several objectives, and one of them has no number.
    """
    if isinstance(result, float) and not math.isfinite(result):
        return {"error": f"its result is {result}, which is not a finite number"}
    if len(objectives) < 2:
        return {"value": result}
    for name in objectives:
        number = result.get(name) if isinstance(result, Mapping) else None
        if number in _NOT_FINITE:
            return {"error": f"its result {name!r} is {number}, which is not a finite number"}
        if isinstance(number, bool) or not isinstance(number, int | float):
            example = ", ".join(f"{each!r}: 0.5" for each in objectives)
            raise ArgumentError(
                f"value: must have a number for each objective, as {{{example}}}, not {result!r}"
            )
    return {"value": result}


def result_of(value: Any, metrics: Mapping[str, Any]) -> Any:
    """Return a result as plain numbers. Raise ArgumentError if it is neither a number nor a mapping.

    In a mapping, a number that is not finite becomes a text, such as "NaN", which counts as no number.
    """
    if value is None and "value" in metrics:  # "value" may be the name of a metric, or of this argument
        value = metrics["value"]
        metrics = metrics if len(metrics) > 1 else {}
    if metrics:
        first = value if isinstance(value, Mapping) else {} if value is None else {"default": value}
        value = {**first, **metrics}
    if isinstance(value, Mapping):
        try:
            return json.loads(json.dumps(dict(value), default=plain_number), parse_constant=str)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"value: {error}") from None
    try:
        number = plain_number(value) if not isinstance(value, int | float) else value
    except TypeError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ArgumentError(f"value: must be a number or a mapping with numbers, not {value!r}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def takes_trial(function: Callable[..., Any]) -> bool:
    """Return whether a function to optimize takes the trial as its second argument.

    It does if its second parameter has no default value, or has the name ``trial``, as for the trials that a
    server starts (``nni._running.wants_trial``). Raise ArgumentError if it does not take the parameters.
    """
    signature = inspect.signature(function)
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [each for each in signature.parameters.values() if each.kind in places]
    takes = len(taken) > 1 and (taken[1].default is inspect.Parameter.empty or taken[1].name == "trial")
    try:
        signature.bind(*([None, None] if takes else [None]))
    except TypeError as error:
        called = "function(params, trial)" if takes else "function(params)"
        raise ArgumentError(f"function: cannot be called as {called}: {error}") from None
    return takes


def _reason(error: Exception) -> str:
    """Return an error's type and the first line of its message. Errors of nnimgr have one long line."""
    if isinstance(error, Error):
        return f"{type(error).__name__}: {error.sentence}"[:_LONGEST_ERROR]
    shown = "".join(traceback.format_exception_only(error)).encode(errors="backslashreplace")
    return said_by_exception(shown.splitlines()).decode()[:_LONGEST_ERROR]


def _json_name(number: float) -> str:
    """Return how JSON texts of Python name a number that is not finite."""
    nan, infinity, negative = _NOT_FINITE
    return nan if math.isnan(number) else infinity if number > 0 else negative
