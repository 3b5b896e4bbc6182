"""What is known of a built-in algorithm without importing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.builtins.arguments import Arguments

__all__ = ["Builtin", "Whole"]

Whole = Callable[[Mapping[str, Any], bool], "tuple[tuple[str, ...], str] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """``target`` is "module:Class". Where ``seed`` is an argument, its default is the experiment's.

    ``nni`` is where NNI has it, "file.Class". ``space``: what is wrong with a search space that is valid as
    such; None if nothing. ``whole``: the same of arguments that are each valid, and where, given whether
    there are several objectives, which only a tuner with ``several`` takes. ``minimises``: what it does
    unless its ``optimize_mode`` says otherwise.

    ``adds``: what the parameter sets have beside the parameters of the search space. ``advisor``: a tuner
    that decides itself how much is spent on each trial, so that no assessor goes with it. ``judge``: the
    arguments of the assessor of the same name that makes its decisions about running trials, given its own;
    None if none does. ``wraps``: the argument that holds another built-in of the role, {name, classArgs}.
    """

    role: str
    name: str
    target: str
    arguments: Arguments
    aliases: tuple[str, ...] = ()
    space: Callable[[Mapping[str, Any]], str | None] | None = None
    several: bool = False
    minimises: bool = False
    whole: Whole | None = None
    adds: tuple[str, ...] = ()
    advisor: bool = False
    judge: Callable[[Mapping[str, Any]], dict[str, Any] | None] | None = None
    wraps: str | None = None
    nni: str | None = None

    @property
    def class_paths(self) -> tuple[str, ...]:
        """What a user may write for ``className`` to mean it: our import path and, if it has one, NNI's."""
        ours = self.target.replace(":", ".")
        return (ours,) if self.nni is None else (ours, f"nni.algorithms.hpo.{self.nni}")
