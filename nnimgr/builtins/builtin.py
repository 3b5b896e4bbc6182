"""Class for the description of a built-in algorithm, which is available without importing the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.builtins.arguments import Arguments

__all__ = ["Builtin", "Whole"]

Whole = Callable[[Mapping[str, Any], bool], "tuple[tuple[str | int, ...], str] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """Description of a built-in algorithm. ``target`` is the path of its class, "module:Class".

    ``nni`` is the path of its class in NNI, "file.Class". ``arguments`` maps each argument to its check. An
    argument ``seed`` has the experiment's seed as its default. ``whole`` checks, for one or several
    objectives, the combination of arguments that are each valid alone. It returns None, or the path to an
    argument and an error text. ``space`` returns None, or the reason why the algorithm cannot search a valid
    search space. ``several``: the tuner supports several objectives. ``minimises``: the algorithm minimises
    unless ``optimize_mode`` says otherwise. ``needs``: modules that must be installed in addition.

    ``adds``: parameters that the algorithm adds to those of the search space. ``advisor``: the tuner decides
    itself how much each trial may spend, so that it cannot be combined with an assessor. ``judge`` returns
    the arguments for the assessor of the same name that judges the tuner's trials, or None if there is no
    such assessor. ``wraps``: the argument that describes another built-in algorithm of the same role, as
    {name, classArgs}. ``directory``: the argument for the directory in which trials pass checkpoints to each
    other. By default, this is a directory of the server's machine.

    ``required``: arguments without a default. ``file``: the argument whose value may be the name of a YAML or
    JSON file that contains the value. The file is read together with the configuration. ``resizes``: the
    scheduler changes the resources of trials.
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
    required: tuple[str, ...] = ()
    file: str | None = None
    resizes: bool = False
    nni: str | None = None

    @property
    def class_paths(self) -> tuple[str, ...]:
        """Possible values of ``className`` for the algorithm: the import path in nnimgr, and the one in NNI
        if NNI has it.
        """
        ours = self.target.replace(":", ".")
        return (ours,) if self.nni is None else (ours, f"nni.algorithms.hpo.{self.nni}")
