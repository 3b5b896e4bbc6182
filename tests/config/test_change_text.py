"""Fields of a running experiment as texts: their values, and the lines of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, Problem
from nnimgr.config.change_text import ChangeText, read_changes

SPACE = """\
lr: {_type: uniform, _value: [0, 1]}
a.b:
  _type: choice
  _value: [1e-5, 2]
"""


def test_a_space_is_read_in_either_form() -> None:
    (found,) = read_changes({"searchSpace": '{"x": {"_type": "choice", "_value": [1]}}'}, base=Path("/"))
    assert (found.field, found.value) == ("searchSpace", {"x": {"_type": "choice", "_value": [1]}})


def test_problems_get_their_places_even_with_dots_in_names() -> None:
    (space,) = read_changes({"searchSpace": SPACE}, base=Path("/"))
    found = space.located(Problem(message="wrong", field="searchSpace.a.b._value[0]"))
    assert (found.line, found.column) == (4, 12)
    assert found.message.startswith("wrong; YAML reads 1e-5 as text")
    whole = space.located(Problem(message="wrong", field="searchSpace"))
    assert (whole.line, whole.column) == (1, 1)


@pytest.mark.parametrize("text", ["", "[]", "# none\n"])
def test_no_constraints_remove_those_of_before(text: str) -> None:
    (found,) = read_changes({"searchSpaceConstraints": text}, base=Path("/"))
    assert found.value is None


def test_a_tuner_is_the_text_or_a_field_of_it() -> None:
    inner = "tuner:\n  class_name: mine.Tuner\n  code_directory: code\n  class_args: {seed: x}\n"
    (found,) = read_changes({"tuner": inner}, base=Path("/home/me"))
    assert found.value == {
        "class_name": "mine.Tuner",
        "code_directory": "/home/me/code",
        "class_args": {"seed": "x"},
    }
    placed = found.located(Problem(message="wrong", field="tuner.classArgs.seed"))
    assert placed.line == 4
    (whole,) = read_changes({"tuner": "name: TPE\nclassArgs: {seed: x}\n"}, base=Path("/"))
    assert whole.located(Problem(message="wrong", field="tuner.classArgs.seed")).line == 2


def test_every_text_that_cannot_be_read_is_reported_with_its_field() -> None:
    texts = {"searchSpace": "x: 2024-01-01\n", "searchSpaceConstraints": "- [\n", "tuner": "seed: 1\n"}
    with pytest.raises(ConfigError) as caught:
        read_changes(texts, base=Path("/"))  # type: ignore[arg-type]
    found = [(problem.field, problem.line) for problem in caught.value.problems]
    assert found == [("searchSpace.x", 1), ("searchSpaceConstraints", 2), ("tuner", 1)]


def test_a_problem_concerns_one_field() -> None:
    space = ChangeText("searchSpace", "{}", base=Path("/"))
    assert space.concerns(Problem(message="wrong", field="searchSpace.x"))
    assert not space.concerns(Problem(message="wrong", field="searchSpaceConstraints[0]"))
