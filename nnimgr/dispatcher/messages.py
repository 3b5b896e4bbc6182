"""The lines between the server and a dispatcher child: frozen records, one JSON object a line.

A child hosts ONE algorithm and serves its calls strictly in the order of its lines: result before end,
always. History never comes by line: ``Start`` and ``CatchUp`` make the child read the database itself,
read-only, up to a fact number; the lines that follow continue from there.

Standard library only: a child starts with every experiment, and its start counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

# ---- to the child ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The line before Start to a child that was forked: what starting a program would have given it."""

    environ: Mapping[str, str] = field(repr=False)
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first line: build the algorithm, then bring it up to fact number ``rebuild_to`` (0: nothing).

    ``since``: the number of the fact by which it has taken another one's place; 0: it is the first.
    """

    role: str  # tuner, assessor
    name: str | None  # built-in or registered
    class_name: str | None  # "module.Class", with code_directory
    code_directory: str | None
    class_args: Mapping[str, Any]  # references to secrets resolved
    search_space: Mapping[str, Any]
    experiment_id: str
    database: str  # path of the SQLite file
    rebuild_to: int
    checkpoint_directory: str
    seed: int  # of the experiment; used where classArgs name none
    objectives: Mapping[str, str] = field(default_factory=dict)  # see nnimgr.objectives
    since: int = 0
    constraints: tuple[str, ...] = ()  # on parameter sets (tuner)
    duplicates: str | None = None  # what becomes of sets that were tried before: skip, reuse, replicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Give one parameter set for each id (tuner). ``fed_to``: the highest fact number fed before.

    ``trial_id``: the set is a further one of this multi-phase trial, not a new trial.
    """

    parameter_ids: tuple[int, ...]
    fed_to: int
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial has ended (tuner and assessor). ``text``: the JSON text of its final metric's value, if any.

    ``value``: the number that the trial's result counts as, if it is one. ``parameter_id`` None: a customised
    trial. ``stand_in``: JSON text of the result to take where the trial has none that can be used.
    ``untried``: it was called off, and its set may be suggested again. ``again``: a stop of the experiment
    has cut it off, and its set runs again as another trial when that goes on.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReported:
    """A parameter set of a multi-phase trial that runs on has its result (tuner). Fields as TrialFinished."""

    number: int
    trial_id: str
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDiscarded:
    """A further parameter set came after its trial had ended (tuner), and was never tried."""

    number: int
    trial_id: str
    parameter_id: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """``records``: JSON text of a list of {"parameter", "value"} (tuner)."""

    number: int
    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceChanged:
    """The search space was replaced, or its constraints were (tuner; None: they stay as they are)."""

    number: int
    search_space: Mapping[str, Any]
    constraints: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTried:
    """A user has submitted a parameter set (tuner that is not to repeat any). ``parameters``: JSON text."""

    number: int
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Intermediate results on arrival (assessor), each (trial_id, attempt, position, sequence, text)."""

    items: tuple[tuple[str, int, int, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Lines were dropped because the child was slow: read everything up to ``number`` from the database."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Call the algorithm's ``_on_exit`` and exit."""


def runs_again(status: str, *, untried: bool, customised: bool) -> bool:
    """Whether a trial that ended in this status is ``again`` (``TrialFinished``)."""
    return status == "SYS_CANCELED" and not untried and not customised


# ---- from the child --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The algorithm is built and rebuilt. ``learns``: its suggestions depend on results.

    ``note``: one sentence when the rebuild could not be exact.
    """

    learns: bool
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """``parameters``: JSON text. ``state``: what dump_state gave, JSON text.

    ``reuse``: the result of a trial with equal parameters, which the set is not tried again for: the trial's
    id, the JSON text of its final metric and the number in it.
    """

    parameter_id: int
    parameters: str
    fed_to: int
    state: str | None = None
    reuse: tuple[str, str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """All that an Ask will bring for now has been sent. ``missing``: ids without a suggestion.

    ``exhausted``: NoMoreTrialError; else the missing ones may still come (NNI's st_callback), and ``why``
    may say what they wait for. An assessor sends one, empty, after its first opinion. ``fed_to`` as in
    Suggestion.
    """

    missing: tuple[int, ...]
    exhausted: bool
    fed_to: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The assessor's answer Bad at this metric; Good is not sent. The rest as in ``facts.Verdict``."""

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """User code raised in ``call``. ``hopeless``: it cannot be built; ``fatal``: the child will exit now."""

    call: str
    sentence: str
    traceback: str
    fatal: bool = False
    hopeless: bool = False
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One sentence on a trial that is no failure of the algorithm (a result that is not a finite number)."""

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A call has run for ``seconds``; ``stack`` is where it is. Sent after one second, then as it doubles."""

    call: str
    seconds: float
    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The call of the last Busy has returned."""


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


_TUPLES = {"parameter_ids", "missing", "constraints", "reuse", "better"}  # JSON has them as lists


def to_line(message: ToChild | FromChild) -> bytes:
    """The line of a message, with its newline: ``["Kind", {field: value}]``.

    Every field is plain JSON as it stands, so this path skips the codec: metrics pass here.
    """
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    text = json.dumps([type(message).__name__, fields], separators=(",", ":"), default=dict)
    return text.encode() + b"\n"


def to_child(line: bytes) -> ToChild:
    """The message in a line to the child. Raises ValueError if it is none."""
    fields = _parsed(line)
    if fields.kind == "Metrics":
        return Metrics(items=tuple((t, a, p, s, x) for t, a, p, s, x in fields.values["items"]))
    return cast("ToChild", _made(_TO_CHILD, fields))


def from_child(line: bytes) -> FromChild:
    """The message in a line from the child. Raises ValueError if it is none."""
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
    """Unknown fields are left out: the child's interpreter may have another version of this package."""
    kind = kinds.get(fields.kind)
    if kind is None:
        raise ValueError(f"no such message: {fields.kind}")
    known = kind.__dataclass_fields__
    found = {name: _storable(value) for name, value in fields.values.items() if name in known}
    for name in _TUPLES & found.keys():
        found[name] = None if found[name] is None else tuple(found[name])
    return kind(**found)


def _storable(value: Any) -> Any:
    """What user code says, a name of a file in an error perhaps, may be no Unicode."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="replace").decode()
    return value
