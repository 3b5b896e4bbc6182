"""Errors of the Python API. Problems of a configuration are reported under the names of Python arguments."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping

from nnimgr.client.errors import ClientError
from nnimgr.client.lines import wrapped
from nnimgr.home import HomeError

__all__ = [
    "ArgumentConflict",
    "ArgumentError",
    "Ended",
    "Error",
    "LateResult",
    "NoResult",
    "translated",
    "warn",
    "with_calls",
]

# field of a configuration -> the argument that sets it
ARGUMENTS: Mapping[str, str] = {
    "experimentName": "name",
    "searchSpace": "space",
    "searchSpaceConstraints": "constraints",
    "initialParameters": "initial",
    "trialCommand": "trial",
    "trialCodeDirectory": "trial",
    "trialConcurrency": "at_once",
    "trialGpuNumber": "gpus",
    "trialCpuNumber": "cpus",
    "trialMemorySize": "memory",
    "maxTrialNumber": "trials",
    "maxExperimentDuration": "hours",
    "goal": "maximize",
    "objectives": "maximize",
    "trainingService": "machines",
    "maxRetries": "retries",
    "stopWhen": "stop",
    "confirmBest": "confirm_best",
    **{
        name: name
        for name in (
            *("tuner", "assessor", "scheduler", "checkpoints"),
            *("duplicates", "preload", "resident", "sinks", "value"),
        )
    },
}
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_TRIAL = "NNI_PLATFORM"  # environment variable that all trials have
_WIDTH = 80  # columns from which on a line of a message is broken
_PARTS = {"checkpoints.keepLast": "checkpoints", "gang.processes": "processes", "gang": "processes"}
_CAMEL = {field: argument for field, argument in ARGUMENTS.items() if not field.islower()}
_FIELD = re.compile(rf"\b({'|'.join(_CAMEL)})\b", re.IGNORECASE)
_RUN = r"nnimgr.Run.attach('\1')"  # works in any program; the present one may have no variable for the run
# Commands that the server suggests -> the calls of the Python API that do the same.
_CALLS = (
    (r"nnictl update trialnum (\S+) --value (\d+)", rf"{_RUN}.update(trials=\2)"),
    (r"nnictl update stopwhen (\S+) --filename FILE", rf"{_RUN}.update(stop=...)"),
    (r"nnictl trial checkpoint ls (\S+) -T (\w+)", rf'{_RUN}.trials["\2"].checkpoints'),
    (r"nnictl trial resume (\S+) -T (\w+)", rf'{_RUN}.trials["\2"].resume()'),
    (r"nnictl resume ([\w-]+)", rf"{_RUN}.resume()"),
    (r"\{command\} --port (\d+)", r"server=\1"),
    (r"resume it first$", "resume it first, with resume() of its Run"),
    (r'--raise-limit \("raiseLimit": true in REST\)', "raise_limit=True"),
    (r"; if trialCommand is wrong, start a new experiment instead", ""),
)


class Error(RuntimeError):
    """Error: nnimgr could not do what was asked. Long lines of the message are broken, except in trials.

    ``sentence``: the message without line breaks. ``plain``: further lines, which are not broken. ``hint``:
    what to do next, if it is known.
    """

    def __init__(self, sentence: str, *, plain: str = "", hint: str = "") -> None:
        title = f"{type(self).__module__}.{type(self).__qualname__}: "  # which a traceback shows first
        # In a trial, the first line becomes the reason why the trial has failed.
        width = sys.maxsize if _TRIAL in os.environ else _WIDTH
        shown = wrapped(f"{title}{sentence}", width).removeprefix(title)
        after = wrapped(f"  {hint}", width) if hint else ""
        super().__init__("\n".join(part for part in (shown, plain, after) if part))
        self.sentence = sentence
        self.hint = hint


class ArgumentError(Error, ValueError):
    """Error: an argument cannot be used. The message has a line for each problem."""


class ArgumentConflict(ArgumentError, TypeError):
    """Error: two arguments cannot be given together, because they contradict each other."""


class NoResult(Error):
    """Error: no trial has a usable result, so there is no best trial."""


class Ended(Error):
    """Error: a study gives no more trials, because its experiment has ended."""


class LateResult(Error):
    """Error: a trial had ended before its result came, so the result is not recorded."""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Convert errors of the client within this context to errors of the Python API.

    A hint that names the present ``nnictl`` command is left out, because there is no such command.
    """
    try:
        yield
    except HomeError as error:
        raise Error(str(error)) from None
    except ClientError as error:
        if error.problems:
            raise ArgumentError("\n".join(map(_line, error.problems))) from None
        mend = with_calls(error.mend or "")
        sentence = "\n".join(map(_with_arguments, error.lines))
        raise Error(sentence, plain=error.plain, hint="" if "{" in mend else mend) from None


def warn(sentence: str) -> None:
    """Warn the user, with the line of the program that has called nnimgr."""
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, UserWarning, stacklevel=level)


def argument_of(field: str) -> str:
    """Return the place of a configuration's field in the arguments: ``tuner.name`` or ``space["lr"][0]``."""
    if field in _PARTS:
        return _PARTS[field]
    first, dot, rest = field.partition(".")
    first, bracket, index = first.partition("[")
    if first in ("path", "query"):
        return rest  # an argument of a method, which is a part of a URL
    argument = ARGUMENTS.get(first)
    if argument is None:
        return f"config.{field}"
    if argument == "space" and rest:
        name, _, value = rest.partition("._value")
        return f'space["{name.removesuffix("._type")}"]{value}'
    return argument + bracket + index + dot + rest


def with_calls(text: str) -> str:
    """Return a text with calls of the Python API in place of the ``nnictl`` commands that do the same."""
    for command, call in _CALLS:
        text = re.sub(f'"{command}"', call, text)
        text = re.sub(command, call, text)
    return text


def _line(problem: Mapping[str, object]) -> str:
    from nnimgr.config.problems import Problem

    field = str(problem.get("field") or "")
    message = _with_arguments(str(problem.get("message") or ""))
    known = {**problem, "field": argument_of(field) if field else "", "message": message}
    return str(Problem.of_plain(known))


def _with_arguments(sentence: str) -> str:
    """Return a sentence with calls in place of commands, and names of arguments in place of fields."""
    by_lower = {field.lower(): argument for field, argument in _CAMEL.items()}
    return _FIELD.sub(lambda match: by_lower[match[0].lower()], with_calls(sentence))
