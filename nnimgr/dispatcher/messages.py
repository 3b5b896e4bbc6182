"""Messages between the server and a dispatcher child: frozen records, each sent as one line of JSON.

A child hosts ONE algorithm and serves its calls strictly in the order of its lines, so a result always comes
before its trial's end. History is never sent by line. ``Start`` and ``CatchUp`` make the child read the
database itself, read-only, up to a fact number; the lines that follow continue from there.

Standard library only: a child is started with every experiment, and its start has to be fast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

# ---- to the child ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Environment of a forked child, sent before Start.

    A program that is started gets it from the system instead.
    """

    environ: Mapping[str, str] = field(repr=False)
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """First message: build the algorithm, then bring it up to fact number ``rebuild_to`` (0: nothing to do).

    ``since``: number of the fact that put this algorithm in the place of an earlier one; 0 for the first
    algorithm.
    """

    role: str  # tuner, assessor
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
    # name -> mode of each objective, see nnimgr.objectives
    objectives: Mapping[str, str] = field(default_factory=dict)
    goal: str | None = None  # default for the algorithm's optimize_mode
    since: int = 0
    constraints: tuple[str, ...] = ()  # constraints on parameter sets (tuner)
    duplicates: str | None = None  # treatment of sets that were tried before: skip, reuse, replicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Request for one parameter set per id (tuner). ``fed_to``: the highest fact number that was sent
    before.

    ``trial_id``: the set is a further set for this multi-phase trial, not for a new trial.
    """

    parameter_ids: tuple[int, ...]
    fed_to: int
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial has ended (tuner and assessor). ``text``: the JSON text of its final metric's value, if any.

    ``value``: the number that the trial's result counts as, if any. ``parameter_id`` is None for a customised
    trial. ``stand_in``: JSON text of the result to use if the trial has no usable one. ``untried``: the trial
    was canceled before it ran, and its set may be suggested again. ``again``: a stop of the experiment has
    ended the trial, and its set runs again as another trial when the experiment is resumed. ``status``: the
    trial's last status.
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
    """Result of a parameter set of a running multi-phase trial (tuner). For the fields, see TrialFinished."""

    number: int
    trial_id: str
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDiscarded:
    """A further parameter set was never tried, because its trial had ended before the set came (tuner)."""

    number: int
    trial_id: str
    parameter_id: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Results from outside the experiment (tuner).

    ``records``: JSON text of a list of {"parameter", "value"}.
    """

    number: int
    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceChanged:
    """The search space or its constraints were replaced (tuner).

    ``constraints`` is None if they are unchanged.
    """

    number: int
    search_space: Mapping[str, Any]
    constraints: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTried:
    """A user has submitted a parameter set (only for a tuner that must not repeat sets).

    ``parameters``: the set as JSON text.
    """

    number: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """New intermediate results (assessor, advisor), each as (trial_id, attempt, position, sequence, text)."""

    items: tuple[tuple[str, int, int, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Lines were dropped because the child was slow.

    The child reads all metrics up to fact ``number`` from the database.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Request to call the algorithm's ``_on_exit`` and exit."""


def runs_again(status: str, *, untried: bool, customised: bool) -> bool:
    """Return the value of ``TrialFinished.again`` for a trial that ended in this status."""
    return status == "SYS_CANCELED" and not untried and not customised


# ---- from the child --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The algorithm is built and its state restored. ``learns``: its suggestions depend on results.

    ``judges``: it wants intermediate results, and may have trials stopped. ``note``: one sentence if the
    state could not be restored exactly.
    """

    learns: bool
    note: str | None = None
    judges: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A parameter set. ``parameters``: JSON text. ``state``: the result of dump_state, as JSON text.

    ``reuse``: the result to use instead of running the set, from a trial with equal parameters: the trial's
    id, the JSON text of its final metric and the number in it.
    """

    parameter_id: int
    parameters: str
    fed_to: int
    state: str | None = None
    reuse: tuple[str, str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """All suggestions for an Ask that are ready have been sent. ``missing``: ids without a suggestion.

    ``exhausted``: the tuner raised NoMoreTrialError. Otherwise the missing sets may still come (NNI's
    st_callback), and ``why`` may explain the wait. An assessor sends one empty message after its first
    judgement. For ``fed_to``, see Suggestion.
    """

    missing: tuple[int, ...]
    exhausted: bool
    fed_to: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The assessor or advisor has judged the trial Bad at this metric.

    Good is not sent. For the other fields, see ``facts.Verdict``.
    """

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """User code has raised an exception in ``call``.

    ``hopeless``: the algorithm cannot be built. ``fatal``: the child exits now.
    """

    call: str
    sentence: str
    traceback: str
    fatal: bool = False
    hopeless: bool = False
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Sentence about a trial, such as a result that is NaN. It is not an error of the algorithm."""

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A call has run for ``seconds`` and is now at ``stack``.

    Sent after one second, then each time the age doubles.
    """

    call: str
    seconds: float
    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The call that the last Busy reported has returned."""


ToChild = (
    Environment
    | Start
    | Ask
    | TrialFinished
    | ResultReported
    | SetDiscarded
    | SetTried
    | Imported
    | SpaceChanged
    | Metrics
    | CatchUp
    | Leave
)
FromChild = Ready | Suggestion | Answered | Judged | Failed | Noted | Busy | Idle

_TO_CHILD = {kind.__name__: kind for kind in ToChild.__args__}
_FROM_CHILD = {
    kind.__name__: kind for kind in (Ready, Suggestion, Answered, Judged, Failed, Noted, Busy, Idle)
}


_TUPLES = {"parameter_ids", "missing", "constraints", "reuse", "better"}  # fields that are lists in JSON


def to_line(message: ToChild | FromChild) -> bytes:
    """Return a message as one line with its newline: ``["Kind", {field: value}]``.

    Every field is plain JSON already, so no codec is needed. This saves time, because every metric is sent in
    this way.
    """
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    text = json.dumps([type(message).__name__, fields], separators=(",", ":"), default=dict)
    return text.encode() + b"\n"


def to_child(line: bytes) -> ToChild:
    """Return the message in a line to the child. Raise ValueError if the line is not a message."""
    fields = _parsed(line)
    if fields.kind == "Metrics":
        return Metrics(items=tuple((t, a, p, s, x) for t, a, p, s, x in fields.values["items"]))
    return cast("ToChild", _made(_TO_CHILD, fields))


def from_child(line: bytes) -> FromChild:
    """Return the message in a line from the child. Raise ValueError if the line is not a message."""
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
    """Build a message. Ignore unknown fields, because the child may run another version of this package."""
    kind = kinds.get(fields.kind)
    if kind is None:
        raise ValueError(f"unknown message: {fields.kind}")
    known = kind.__dataclass_fields__
    found = {name: _storable(value) for name, value in fields.values.items() if name in known}
    for name in _TUPLES & found.keys():
        found[name] = None if found[name] is None else tuple(found[name])
    return kind(**found)


def _storable(value: Any) -> Any:
    """Replace characters that cannot be encoded as UTF-8.

    User code may send them, for example in a file name.
    """
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="replace").decode()
    return value
