"""A wrong search space is refused with the function of ``nnimgr.space`` that describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnimgr import ArgumentError, Experiment, space

OTHERS = (
    'write nnimgr.space.uniform(0, 1), nnimgr.space.choice(["a", "b"]) or another function of nnimgr.space'
)


def refusal(call: Callable[[], object]) -> str:
    """Return the message of the error, as one line."""
    with pytest.raises(ArgumentError) as refused:
        call()
    return " ".join(str(refused.value).split())


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            [0, 1],
            "[0, 1] describes no parameter; write nnimgr.space.choice([0, 1]) for one of these values, "
            "or nnimgr.space.uniform(0, 1) for a number between them",
        ),
        (
            (0.5, 1),
            "(0.5, 1) describes no parameter; write nnimgr.space.choice([0.5, 1]) for one of these values, "
            "or nnimgr.space.uniform(0.5, 1) for a number between them",
        ),
        (
            ["a"],
            "['a'] describes no parameter; write nnimgr.space.choice(['a']) for one of these values",
        ),
        (
            list(range(99)),
            "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11... describes no parameter; "
            "write nnimgr.space.choice([...]) for one of these values",
        ),
        ({"min": 0}, f"{{'min': 0}} has no \"_type\"; {OTHERS}"),
        (None, f"a value of type NoneType describes no parameter; {OTHERS}"),
        (range(3), f"a value of type range describes no parameter; {OTHERS}"),
    ],
)
def test_a_value_that_is_no_parameter(value: Any, sentence: str) -> None:
    found = refusal(lambda: Experiment("true", {"lr": value}, maximize=True))
    assert found == f'space["lr"]: {sentence}'


def test_a_space_that_is_no_mapping() -> None:
    wrong: Any = [1]
    assert refusal(lambda: Experiment("true", wrong, maximize=True)) == (
        'space: must be a mapping of names to parameters, such as {"lr": nnimgr.space.uniform(0, 1)}'
    )
    numbered: Any = {1: space.uniform(0, 1)}
    assert refusal(lambda: Experiment("true", numbered, maximize=True)) == (
        "space: the name of a parameter must be a text, not 1"
    )


def test_a_nested_space() -> None:
    found = refusal(lambda: space.choice({"sgd": {"m": [0, 1]}}))
    assert found.startswith('space["m"]: [0, 1] describes no parameter')


def test_a_scalar_of_numpy_is_a_constant() -> None:
    assert space.plain({"x": np.float64(0.5)}) == {"x": {"_type": "choice", "_value": [0.5]}}


def test_options_that_are_not_in_a_list() -> None:
    with pytest.raises(TypeError, match=r"choice\(\) takes one list of options: choice\(\['a', 'b'\]\)"):
        space.choice("a", "b")
    with pytest.raises(TypeError, match=r"choice\(\) takes a list of options, not 3: choice\(\[3\]\)"):
        space.choice(3)  # type: ignore[arg-type]
