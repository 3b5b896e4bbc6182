"""Description of a built-in algorithm, available without importing the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.builtins.arguments import Arguments

__all__ = ["Builtin", "Whole"]

Whole = Callable[[Mapping[str, Any], bool], "tuple[tuple[str, ...], str] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """Description of a built-in algorithm. ``target`` is "module:Class".

    If ``seed`` is an argument, its default is the experiment's seed. ``nni`` is the class in NNI,
    "file.Class". ``space`` returns the error in a valid search space that the algorithm cannot search, or
    None. ``whole`` returns the path and the error in arguments that are valid one by one, or None; its second
    argument is whether there are several objectives. ``several``: the tuner takes several objectives.
    ``minimises``: the algorithm minimises unless its ``optimize_mode`` says otherwise. ``needs``: modules of
    libraries that an installation may lack.

    ``adds``: parameters that the algorithm adds to those of the search space. ``advisor``: a tuner that
    decides itself how much is spent on each trial, so that it cannot be combined with an assessor. ``judge``
    maps the tuner's arguments to those of the assessor of the same name that judges its running trials, or to
    None if no assessor does. ``wraps``: the argument that holds another built-in algorithm of the role,
    {name, classArgs}. ``directory``: the argument with the directory in which the trials of a tuner pass
    checkpoints to each other; by default, a directory of the server's machine.
    """

    role: str
    name: str
    target: str
    arguments: Arguments
    aliases: tuple[str, ...] = ()
    space: Callable[[Mapping[str, Any]], str | None] | None = None
    several: bool = False
    minimises: bool = False
    needs: tuple[str, ...] = ()
    whole: Whole | None = None
    adds: tuple[str, ...] = ()
    advisor: bool = False
    directory: str | None = None
    judge: Callable[[Mapping[str, Any]], dict[str, Any] | None] | None = None
    wraps: str | None = None
    nni: str | None = None

    @property
    def class_paths(self) -> tuple[str, ...]:
        """Valid values of ``className`` for the algorithm: our import path and, if it has one, NNI's."""
        ours = self.target.replace(":", ".")
        return (ours,) if self.nni is None else (ours, f"nni.algorithms.hpo.{self.nni}")
