"""Tests that our named tuples behave like those of ``typing``."""

from __future__ import annotations

import pickle
import typing

import pytest

from trial_keeper import lean
from trial_keeper.core.effects import Leave


class Ours(lean.NamedTuple):
    """Two fields."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        """Return both fields in one text."""
        return f"{self.first}{self.second}"

    def again(self) -> Ours:
        """Return a copy with another first field."""
        return self._replace(first=self.first + 1)


class Theirs(typing.NamedTuple):
    """Two fields."""

    first: int
    second: str = "b"


def test_fields_defaults_and_methods() -> None:
    made = Ours(1)
    assert made == (1, "b") == Theirs(1)
    assert (made.first, made.second, made.both) == (1, "b", "1b")
    assert made.again() == Ours(first=2, second="b")
    assert isinstance(made, Ours) and not isinstance(made, Theirs)
    assert (Ours.__doc__, Ours._fields, Ours._field_defaults) == (
        "Two fields.",
        Theirs._fields,
        {"second": "b"},
    )
    assert repr(made) == "Ours(first=1, second='b')"
    assert made._asdict() == Theirs(1)._asdict()


def test_what_is_missing_or_unknown_is_an_error() -> None:
    for wrong in ((), (1, "b", 3)):
        with pytest.raises(TypeError):
            Ours(*wrong)
    with pytest.raises(AttributeError):
        Ours(1).third = 3  # type: ignore[attr-defined]


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Leave("done", clear=True))) == Leave("done", clear=True)
