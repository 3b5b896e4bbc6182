"""Search spaces in NNI's format: validation, random parameter sets, and whether a set is in the space.

``parse`` turns plain values (from JSON or YAML) into a ``Space`` once; all other functions work with the
``Space``. Standard library only, because tuners run in their own processes, which must start quickly.

A space is ``{name: {"_type": ..., "_value": [...]}}``. Values that a user has written are kept: an option
stays the same object, ``randint`` gives int, and all other numeric types give float.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from nnimgr.spelling import nearest

__all__ = [
    "Choice",
    "Nested",
    "Numeric",
    "ParameterType",
    "SearchSpaceError",
    "Space",
    "Spec",
    "contains",
    "fill",
    "parse",
    "sample",
    "validate",
]


Path = tuple[str | int, ...]

_LISTED = 10  # most names or options that a sentence lists
_LARGEST = sys.float_info.max


class SearchSpaceError(ValueError):
    """Error: the search space is not valid. The message is one sentence.

    ``path``: the keys and indices that lead to the error in the search space. ``others``: the other errors
    of the search space, if this is the first one.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.others: tuple[SearchSpaceError, ...] = ()

    @property
    def all(self) -> tuple[SearchSpaceError, ...]:
        """This error and the other errors of the search space."""
        return (self, *self.others)

    @property
    def field(self) -> str:
        """Place of the error in the search space as text, such as ``layers._value[1]``."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(".")


class ParameterType(StrEnum):
    CHOICE = "choice"
    RANDINT = "randint"
    UNIFORM = "uniform"
    QUNIFORM = "quniform"
    LOGUNIFORM = "loguniform"
    QLOGUNIFORM = "qloguniform"
    NORMAL = "normal"
    QNORMAL = "qnormal"
    LOGNORMAL = "lognormal"
    QLOGNORMAL = "qlognormal"

    @property
    def quantised(self) -> bool:
        return self.startswith("q")

    @property
    def logarithmic(self) -> bool:
        return "log" in self

    @property
    def gaussian(self) -> bool:
        """True if the type has a mean (mu) and a standard deviation (sigma) instead of bounds."""
        return self.endswith("normal")


@dataclass(frozen=True, slots=True)
class Choice:
    """Parameter whose value is one of ``options``. The options are used unchanged."""

    options: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Nested:
    """Parameter whose value is one of several search spaces, each with a name.

    The value is ``{"_name": name, **parameters of the chosen space}``.
    """

    options: tuple[tuple[Any, Space], ...]


@dataclass(frozen=True, slots=True)
class Numeric:
    """Numeric parameter. ``a`` and ``b``: lower and upper bound, or mu and sigma if ``type.gaussian``.

    ``q``: step between possible values, if any.
    """

    type: ParameterType
    a: float
    b: float
    q: float | None = None

    def quantise(self, x: float) -> float:
        """Round ``x`` to a multiple of ``q`` (half to even, as in NNI). Limit it to the bounds, if any."""
        if self.q is None:
            return float(x)
        x = round(x / self.q) * self.q
        return float(x if self.type.gaussian else min(max(x, self.a), self.b))

    def nearest(self, x: float) -> float:
        """Return the value of this parameter that is nearest to ``x``."""
        if not self.type.gaussian:
            x = min(max(x, self.a), self.b)
        elif self.type.logarithmic:
            x = max(x, 0.0)
        return self.quantise(x)


Spec = Choice | Nested | Numeric


@dataclass(frozen=True, slots=True)
class Space:
    """Search space: its parameters, in the order in which the user wrote them."""

    parameters: tuple[tuple[str, Spec], ...]


# Parsing and validation of search spaces


def parse(space: Any, *, types: frozenset[ParameterType] = frozenset(ParameterType)) -> Space:
    """Return the search space that plain values describe. ``types``: the types that the tuner supports.

    Raise SearchSpaceError, which names the parameter, the field and the valid values of the first error, and
    has all other errors.
    """
    return _space(space, (), types)


def validate(space: Any, *, types: frozenset[ParameterType] = frozenset(ParameterType)) -> None:
    """Raise SearchSpaceError if the plain values are not a valid search space."""
    parse(space, types=types)


def _space(space: Any, prefix: Path, types: frozenset[ParameterType]) -> Space:
    if not isinstance(space, Mapping):
        raise SearchSpaceError(prefix, f"must map parameter names to specifications, not be {_shown(space)}")
    parameters = []
    errors = _Errors()
    for name, spec in space.items():
        if prefix and name == "_name":
            continue
        with errors:
            if not isinstance(name, str):
                raise SearchSpaceError(prefix, f"a parameter's name must be a string, not {_shown(name)}")
            parameters.append((name, _spec(spec, (*prefix, name), types)))
    errors.check()
    return Space(tuple(parameters))


class _Errors:
    """Errors of several parts of a search space. A with block collects the errors that it raises."""

    def __init__(self) -> None:
        self._found: list[SearchSpaceError] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, SearchSpaceError):
            self._found += error.all
            return True
        return False

    def check(self) -> None:
        """Raise the first error that was collected. It has all others."""
        if self._found:
            first, *others = self._found
            first.others = tuple(others)
            raise first


def _spec(spec: Any, path: Path, types: frozenset[ParameterType]) -> Spec:
    if not isinstance(spec, Mapping):
        raise SearchSpaceError(path, f'must be a mapping with "_type" and "_value", not {_shown(spec)}')
    errors = _Errors()
    for field in ("_type", "_value"):
        with errors:
            if field not in spec:
                near = nearest(field, [key for key in spec if isinstance(key, str)])
                instead = f'; did you write "{near}" instead?' if near else ""
                raise SearchSpaceError(path, f'has no "{field}"{instead}')
    if "_type" in spec:
        with errors:
            kind = _type(spec["_type"], (*path, "_type"), types)
    value, path = spec.get("_value", ()), (*path, "_value")
    with errors:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise SearchSpaceError(path, f"must be a list, not {_shown(value)}")
    errors.check()
    if kind is ParameterType.CHOICE:
        return _choice(value, path, types)
    return _numeric(kind, value, path)


def _type(name: Any, path: Path, types: frozenset[ParameterType]) -> ParameterType:
    valid = ", ".join(kind.value for kind in ParameterType if kind in types)
    try:
        kind = ParameterType(name)
    except ValueError:
        near = nearest(name, list(ParameterType)) if isinstance(name, str) else None
        hint = f"; did you mean {near}?" if near else ""
        raise SearchSpaceError(path, f"must be one of {valid}, not {_shown(name)}{hint}") from None
    if kind not in types:
        raise SearchSpaceError(path, f"the tuner supports only {valid}, not {kind}")
    return kind


def _choice(options: Sequence[Any], path: Path, types: frozenset[ParameterType]) -> Choice | Nested:
    if not options:
        raise SearchSpaceError(path, "must hold at least one option")
    errors = _Errors()
    named = [isinstance(option, Mapping) and "_name" in option for option in options]
    if not any(named):
        for index, option in enumerate(options):
            with errors:
                _finite_throughout(option, (*path, index))
        errors.check()
        return Choice(tuple(options))
    if not all(named):
        raise SearchSpaceError(
            (*path, named.index(False)),
            'must be a mapping with "_name", because other options of this choice are',
        )
    names: list[Any] = []
    found: list[tuple[Any, Space]] = []
    for index, option in enumerate(options):
        name, at = option["_name"], (*path, index, "_name")
        with errors:
            if not isinstance(name, str | int | float):
                raise SearchSpaceError(at, f"must be a string or number, not {_shown(name)}")
            if name in names:
                raise SearchSpaceError(at, f"{_shown(name)} is the name of two options")
            names.append(name)
            found.append((name, _space(option, (*path, index), types)))
    errors.check()
    return Nested(tuple(found))


def _numeric(kind: ParameterType, value: Sequence[Any], path: Path) -> Numeric | Choice:
    wanted = ["mu", "sigma"] if kind.gaussian else ["lower bound", "upper bound"]
    wanted += ["q"] if kind.quantised else []
    if len(value) != len(wanted):
        raise SearchSpaceError(
            path, f"{kind} takes {len(wanted)} numbers ({', '.join(wanted)}), not {len(value)}"
        )
    errors = _Errors()
    for index, (number, role) in enumerate(zip(value, wanted, strict=True)):
        with errors:
            _check_number(kind, number, role, path=(*path, index))
    errors.check()
    a, b = value[0], value[1]
    pinned = a == b and not kind.gaussian and kind is not ParameterType.RANDINT
    with errors:
        if kind.gaussian and b <= 0:
            raise SearchSpaceError((*path, 1), f"sigma must be greater than 0, not {b!r}")
        if not (kind.gaussian or pinned) and a >= b:
            raise SearchSpaceError(path, f"the lower bound {a!r} must be less than the upper bound {b!r}")
        if kind.logarithmic and not kind.gaussian and a <= 0:
            raise SearchSpaceError((*path, 0), f"the lower bound of {kind} must be greater than 0, not {a!r}")
    q = value[2] if kind.quantised else None
    with errors:
        if q is not None and q <= 0:
            raise SearchSpaceError((*path, 2), f"q must be greater than 0, not {q!r}")
    errors.check()
    if kind is ParameterType.RANDINT:
        a, b = int(a), int(b)
    elif (far := _farthest(kind, float(a), float(b)) / (q or 1)) > _LARGEST:
        raise SearchSpaceError(path, f"its values lie too far apart to compute with: up to {far:g}")
    return Choice((float(a),)) if pinned else Numeric(kind, a, b, q)


def _farthest(kind: ParameterType, a: float, b: float) -> float:
    """Return the largest number that can occur in the computation of a random value of this parameter."""
    if not kind.gaussian:
        return max(abs(a), abs(b), b - a)
    if kind.logarithmic:
        return math.exp(a + 6 * b) if a + 6 * b < math.log(_LARGEST) else math.inf
    return abs(a) + 6 * b


def _check_number(kind: ParameterType, number: Any, role: str, *, path: Path) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise SearchSpaceError(path, f"the {role} of {kind} must be a number, not {_shown(number)}")
    if not _finite(number):
        raise SearchSpaceError(path, f"the {role} of {kind} must be a finite number, not {number!r}")
    if kind is ParameterType.RANDINT and number != int(number):
        raise SearchSpaceError(path, f"the {role} of randint must be an integer, not {number!r}")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int that is too large for a float
        return False


def _finite_throughout(option: Any, path: Path) -> None:
    if isinstance(option, float) and not math.isfinite(option):
        raise SearchSpaceError(path, f"an option must not hold {option!r}")
    if isinstance(option, Mapping):
        for key, value in option.items():
            _finite_throughout(value, (*path, str(key)))
    elif isinstance(option, list | tuple):
        for index, value in enumerate(option):
            _finite_throughout(value, (*path, index))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(words: Iterable[str]) -> str:
    """Join words with commas. A long list is cut and ends with "..."."""
    first = list(islice(words, _LISTED + 1))
    return ", ".join([*first[:_LISTED], "..."] if len(first) > _LISTED else first)


# Random parameter sets


def sample(space: Space, rng: random.Random) -> dict[str, Any]:
    """Draw one random parameter set. Its keys are in the order of the search space."""
    return {name: _draw(spec, rng) for name, spec in space.parameters}


def fill(space: Space, parameters: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a parameter set with the given values, and random values for all other parameters.

    The given values must be in the search space. They are converted to the parameters' types.
    """
    return {
        name: _filled(spec, parameters[name], rng) if name in parameters else _draw(spec, rng)
        for name, spec in space.parameters
    }


def _filled(spec: Spec, value: Any, rng: random.Random) -> Any:
    match spec:
        case Choice(options):
            return next(option for option in options if _same(value, option))
        case Nested(options):
            name, inner = next(option for option in options if _same(value["_name"], option[0]))
            return {"_name": name, **fill(inner, value, rng)}
        case Numeric(type=ParameterType.RANDINT):
            return int(value)
        case Numeric():
            return float(value)


def _draw(spec: Spec, rng: random.Random) -> Any:
    match spec:
        case Choice(options):
            return options[rng.randrange(len(options))]
        case Nested(options):
            name, inner = options[rng.randrange(len(options))]
            return {"_name": name, **sample(inner, rng)}
        case Numeric(type=ParameterType.RANDINT, a=a, b=b):
            return rng.randrange(int(a), int(b))
        case Numeric():
            return spec.quantise(_raw(spec, rng))


def _raw(spec: Numeric, rng: random.Random) -> float:
    if spec.type.gaussian:
        x = rng.normalvariate(spec.a, spec.b)
        return math.exp(x) if spec.type.logarithmic else x
    if spec.type.logarithmic:
        x = math.exp(rng.uniform(math.log(spec.a), math.log(spec.b)))
    else:
        x = rng.uniform(spec.a, spec.b)
    return min(max(x, spec.a), spec.b)  # exp(log(x)) may miss a bound by one unit in the last place


# Checks whether a parameter set is in the search space


def contains(space: Space, parameters: Any, *, partial: bool = False) -> list[str]:
    """Return one sentence for each value of a parameter set that is outside of the search space.

    ``partial``: parameters may be missing from the set.
    """
    return _outside(space, parameters, "", partial)


def wrong_types(space: Space, parameters: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each value of a numeric parameter that is not a number."""
    return [
        f"parameter {name} must be a number, not {_shown(parameters[name])}: the search space has "
        f"{spec.type} {[spec.a, spec.b]}"
        for name, spec in space.parameters
        if name in parameters and isinstance(spec, Numeric) and not _is_number(parameters[name])
    ]


def _outside(space: Space, parameters: Any, prefix: str, partial: bool) -> list[str]:
    if not isinstance(parameters, Mapping):
        where = prefix.rstrip(".") or "the parameter set"
        return [f"{where} must be a mapping of parameters, not {_shown(parameters)}"]
    known = {name for name, _ in space.parameters} | ({"_name"} if prefix else set())
    there = _listed([name for name, _ in space.parameters]) or "no parameters"
    where = f" under {prefix.rstrip('.')}" if prefix else ""
    found = [
        f"{prefix}{name} is not in the search space, which has {there}{where}"
        for name in parameters
        if name not in known
    ]
    for name, spec in space.parameters:
        if name in parameters:
            found += _misfits(spec, parameters[name], f"{prefix}{name}", partial)
        elif not partial:
            found.append(f"{prefix}{name} is missing")
    return found


def _misfits(spec: Spec, value: Any, name: str, partial: bool) -> list[str]:
    match spec:
        case Choice(options):
            if not any(_same(value, option) for option in options):
                return [
                    f"{name} is {_shown(value)}, which is none of its options {_listed(map(_shown, options))}"
                ]
            return []
        case Nested(options):
            chosen = value.get("_name") if isinstance(value, Mapping) else None
            for option, inner in options:
                if _same(chosen, option):
                    return _outside(inner, value, f"{name}.", partial)
            names = ", ".join(str(option) for option, _ in options)
            return [f'{name} must be a mapping with one of {names} as "_name", not {_shown(value)}']
        case Numeric():
            return _misfit_number(spec, value, name)


def _misfit_number(spec: Numeric, value: Any, name: str) -> list[str]:
    if not _is_number(value):
        return [f"{name} must be a finite number, not {_shown(value)}"]
    if spec.type is ParameterType.RANDINT:
        if value != int(value):
            return [f"{name} must be an integer, not {value!r}"]
        inside = spec.a <= value < spec.b
    elif spec.type.gaussian:
        inside = not spec.type.logarithmic or value > 0 or (value == 0 and spec.q is not None)
    else:
        inside = spec.a <= value <= spec.b
    if not inside:
        return [f"{name} is {value!r}, outside {spec.type} {[spec.a, spec.b]}"]
    if spec.q is not None and not math.isclose(
        spec.quantise(value), value, rel_tol=1e-9, abs_tol=spec.q * 1e-9
    ):
        return [f"{name} is {value!r}, which is not a multiple of {spec.q!r}"]
    return []


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and _finite(value)


def _same(value: Any, option: Any) -> bool:
    """Return whether two values are equal. Unlike in Python, True and 1 are different."""
    return bool(value == option) and isinstance(value, bool) == isinstance(option, bool)
