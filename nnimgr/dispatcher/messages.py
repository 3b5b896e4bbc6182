"""Messages between the server and a dispatcher child: frozen records, each sent as one line of JSON.

A child hosts ONE tuner, assessor or scheduler, and processes the lines strictly in order, so a result always
comes before its trial's end. The server sends only new events. ``Start`` and ``CatchUp`` make the child read
earlier events from the database, up to a fact number; the next lines continue from there.

Standard library only: a child is started with every experiment, and its start has to be fast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from nnimgr.dispatcher.scheduler_messages import CheckpointSaved as CheckpointSaved
from nnimgr.dispatcher.scheduler_messages import Decided as Decided
from nnimgr.dispatcher.scheduler_messages import DecisionRefused as DecisionRefused
from nnimgr.dispatcher.scheduler_messages import LegBegan as LegBegan
from nnimgr.dispatcher.scheduler_messages import NoMoreTrials as NoMoreTrials
from nnimgr.dispatcher.scheduler_messages import SlotLent as SlotLent
from nnimgr.dispatcher.scheduler_messages import TrialContinued as TrialContinued
from nnimgr.dispatcher.scheduler_messages import TrialCreated as TrialCreated
from nnimgr.dispatcher.scheduler_messages import TrialPaused as TrialPaused
from nnimgr.dispatcher.scheduler_messages import TrialsAgain as TrialsAgain

# ---- to the child ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Message to a forked child with its environment variables and directory, sent before Start.

    A child with its own interpreter gets its environment from the system instead.
    """

    environ: Mapping[str, str] = field(repr=False)
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """First message to a child: construct the algorithm and restore its state up to fact number
    ``rebuild_to``.

    ``rebuild_to`` is 0 for a new experiment. ``since``: number of the fact by which this algorithm replaced
    an earlier algorithm; 0 for the first algorithm.
    """

    role: str  # tuner, assessor, scheduler
    name: str | None  # name of a built-in or registered algorithm
    class_name: str | None  # "module.Class", to be imported from code_directory
    code_directory: str | None
    class_args: Mapping[str, Any]  # with references to secrets resolved
    search_space: Mapping[str, Any]
    experiment_id: str
    database: str  # path of the SQLite file
    rebuild_to: int
    checkpoint_directory: str
    seed: int  # seed of the experiment, used if classArgs has no seed
    # name -> "maximize" or "minimize" of each objective, see nnimgr.objectives
    objectives: Mapping[str, str] = field(default_factory=dict)
    goal: str | None = None  # default for the algorithm's optimize_mode
    since: int = 0
    constraints: tuple[str, ...] = ()  # constraints on parameter sets (tuner)
    duplicates: str | None = None  # treatment of sets that were tried before: skip, reuse, replicate
    resources: Mapping[str, float] = field(default_factory=dict)  # that a scheduler may change for a trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Message to a tuner: request for one parameter set per id.

    ``fed_to``: the highest fact number that was sent to the child before. ``trial_id``: the request is for a
    further set of this multi-phase trial, not for a new trial.
    """

    parameter_ids: tuple[int, ...]
    fed_to: int
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """Message to any algorithm: a trial has ended. ``text``: JSON text of its final metric's value, if
    any.

    ``value``: the number that the trial's result counts as, if any. ``parameter_id`` is None for a customised
    trial. ``stand_in``: JSON text of the result to use if the trial has no usable result. ``untried``: the
    trial was canceled before it ran, and its set may be suggested again. ``again``: a stop of the experiment
    has ended the trial, and its set runs again as another trial when the experiment is resumed. ``status``:
    the trial's last status.
    """

    number: int
    trial_id: str
    parameter_id: int | None
    parameters: str
    text: str | None
    success: bool
    stand_in: str | None = None
    untried: bool = False
    value: float | None = None
    again: bool = False
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReported:
    """Message to a tuner: result of one parameter set of a running multi-phase trial. ``text``: JSON
    text of the result.
    """

    number: int
    trial_id: str
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDiscarded:
    """Message to a tuner: a further parameter set was not tried, because its multi-phase trial had ended
    already.
    """

    number: int
    trial_id: str
    parameter_id: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Message to a tuner: results from outside the experiment were imported.

    ``records``: JSON text of a list of {"parameter", "value"}.
    """

    number: int
    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceChanged:
    """Message to a tuner or scheduler: the search space or its constraints were replaced.

    ``constraints`` is None if the constraints are unchanged.
    """

    number: int
    search_space: Mapping[str, Any]
    constraints: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTried:
    """Message to a tuner that must not repeat sets: a user has submitted a parameter set.

    ``parameters``: the set as JSON text.
    """

    number: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Message to any algorithm: new intermediate results.

    Each item is (trial_id, attempt, position, sequence, text). ``numbers``: the items' fact numbers, for a
    tuner or scheduler; empty for an assessor, which gets the results before they are committed.
    """

    items: tuple[tuple[str, int, int, int, str], ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """Message to any algorithm: the trial continues from a checkpoint, or starts again, as attempt
    ``attempt``.

    Of its intermediate results, only the first ``reports`` still count. The trial reports the others again.
    ``position``: number of frames up to the checkpoint, from which the new attempt's frames are counted.
    ``resources``, only for schedulers: see the fact AttemptDue.
    """

    number: int
    trial_id: str
    attempt: int
    position: int
    reports: int
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Message to a child: metrics were dropped because the child was slow.

    The child then reads all metrics up to fact ``number`` from the database.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Message to a child: call the algorithm's ``_on_exit``, then exit."""


def runs_again(status: str, *, untried: bool, customised: bool) -> bool:
    """Return whether a resume of the experiment repeats the parameter set of a trial with this last status.

    The result is the value of ``TrialFinished.again``.
    """
    return status == "SYS_CANCELED" and not untried and not customised


# ---- from the child --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Message of a child: the algorithm is constructed and its state is restored.

    ``learns``: its suggestions depend on results. ``wants_metrics``: the tuner wants intermediate results.
    ``note``: one sentence if the state could not be restored exactly.
    """

    learns: bool
    note: str | None = None
    wants_metrics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Message of a tuner: a parameter set. ``parameters``: JSON text of the set.

    ``fed_to``: number of the last fact that the tuner knew. ``state``: the result of dump_state, as JSON
    text. ``reuse``: result of an earlier trial with equal parameters, to use instead of running the set: the
    trial's id, the JSON text of its final metric and the number in this metric.
    """

    parameter_id: int
    parameters: str
    fed_to: int
    state: str | None = None
    reuse: tuple[str, str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Message of a tuner: all suggestions for an Ask that are ready have been sent.

    ``missing``: ids without a suggestion. ``exhausted``: the tuner raised NoMoreTrialError. Otherwise the
    tuner may send the missing sets later, and ``why`` may explain the wait. ``fed_to``: number of
    the last fact that the tuner knew. An assessor or scheduler sends one empty message after its first
    answer.
    """

    missing: tuple[int, ...]
    exhausted: bool
    fed_to: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Message of an assessor or advisor: the trial is judged bad at this metric.

    No message is sent for a trial that is judged good. ``attempt``, ``position``: the metric. ``reason``: one
    sentence, or "". ``rung``: the step at which trials were compared. ``better``: some better trials.
    ``report``: number of the metric among those of the trial that count, from 1; None: ``position`` + 1.
    """

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()
    report: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Message of a child: the algorithm has raised an exception in the method ``call``.

    ``hopeless``: the algorithm cannot be constructed. ``fatal``: the child exits now.
    """

    call: str
    sentence: str
    traceback: str
    fatal: bool = False
    hopeless: bool = False
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Message of a child: a sentence about a trial, for example that its result is NaN.

    This is not an error of the algorithm.
    """

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Message of a child: a call of user code has run for ``seconds``. ``stack``: its present stack.

    Sent after one second, then each time the call's age has doubled.
    """

    call: str
    seconds: float
    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Message of a child: the call that the last Busy message reported has returned."""


ToChild = (
    Environment
    | Start
    | Ask
    | TrialFinished
    | ResultReported
    | RolledBack
    | SetDiscarded
    | SetTried
    | Imported
    | SpaceChanged
    | Metrics
    | TrialCreated
    | CheckpointSaved
    | TrialPaused
    | TrialContinued
    | LegBegan
    | SlotLent
    | NoMoreTrials
    | TrialsAgain
    | DecisionRefused
    | CatchUp
    | Leave
)
FromChild = Ready | Suggestion | Answered | Judged | Decided | Failed | Noted | Busy | Idle

_TO_CHILD = {kind.__name__: kind for kind in ToChild.__args__}
_FROM_CHILD = {kind.__name__: kind for kind in FromChild.__args__}


# fields that are lists in JSON
_TUPLES = {"parameter_ids", "missing", "constraints", "reuse", "better", "checkpoint"}


def to_line(message: ToChild | FromChild) -> bytes:
    """Return a message as one line of JSON with its newline: ``["Kind", {field: value}]``.

    Every field is plain JSON already, so no codec is needed. This saves time, because every metric is sent in
    this way.
    """
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    text = json.dumps([type(message).__name__, fields], separators=(",", ":"), default=dict)
    return text.encode() + b"\n"


def to_child(line: bytes) -> ToChild:
    """Parse a line that the server has sent to the child, and return its message.

    Raise ValueError if the line is not a message.
    """
    fields = _parsed(line)
    if fields.kind == "Metrics":
        items = tuple((t, a, p, s, x) for t, a, p, s, x in fields.values["items"])
        return Metrics(items=items, numbers=tuple(fields.values.get("numbers", ())))
    return cast("ToChild", _made(_TO_CHILD, fields))


def from_child(line: bytes) -> FromChild:
    """Parse a line that the child has sent to the server, and return its message.

    Raise ValueError if the line is not a message.
    """
    return cast("FromChild", _made(_FROM_CHILD, _parsed(line)))


class _Fields(NamedTuple):
    kind: str
    values: dict[str, Any]


def _parsed(line: bytes) -> _Fields:
    match json.loads(line):
        case [str() as kind, dict() as values]:
            return _Fields(kind, values)
    raise ValueError("a line must be a list of a kind and its fields")


def _made(kinds: Mapping[str, Any], fields: _Fields) -> object:
    """Build a message from its fields. Ignore unknown fields, because the child may run another version of
    nnimgr.
    """
    kind = kinds.get(fields.kind)
    if kind is None:
        raise ValueError(f"unknown message: {fields.kind}")
    known = kind.__dataclass_fields__
    found = {name: _storable(value) for name, value in fields.values.items() if name in known}
    for name in _TUPLES & found.keys():
        found[name] = tuple(found[name]) if isinstance(found[name], list) else found[name]
    return kind(**found)


def _storable(value: Any) -> Any:
    """Return the value, with characters replaced that cannot be encoded as UTF-8.

    User code may send such characters, for example in a file name.
    """
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="replace").decode()
    return value
