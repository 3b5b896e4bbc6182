"""The built-in algorithms: their names, where they live, and which ``classArgs`` they take. Behind them the
ones that users have registered under names of their own (``registered``).

Checking imports no algorithm, so that a configuration is read fast; classes are imported on use.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnimgr.dispatcher import registered
from nnimgr.dispatcher.registered import Registered, RegistryFileError, registry_file

__all__ = [
    "AlgorithmError",
    "Builtin",
    "check",
    "check_space",
    "find",
    "is_builtin",
    "load",
    "names",
    "resolve",
]

Fault = Callable[[Any], str | None]  # what is wrong with a value: "must be ..."; None if nothing
Arguments = Mapping[str, "Fault | Arguments"]  # arguments within an argument: a mapping of them


class AlgorithmError(ValueError):
    """An algorithm cannot be found or does not take these arguments; one sentence for the user.

    ``path`` leads from the algorithm's configuration to what is at fault.
    """

    def __init__(self, sentence: str, *, path: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.path = path


def _one_of(*valid: str | None) -> Fault:
    shown = ", ".join("null" if each is None else each for each in valid)

    def fault(value: Any) -> str | None:
        return None if value in valid else f"must be one of {shown}"

    return fault


def _integer(*, at_least: int | None = None, or_null: bool = False) -> Fault:
    wanted = "must be an integer" + (f" of at least {at_least}" if at_least is not None else "")
    wanted += " or null" if or_null else ""

    def fault(value: Any) -> str | None:
        if value is None and or_null:
            return None
        fits = isinstance(value, int) and not isinstance(value, bool)
        return None if fits and (at_least is None or value >= at_least) else wanted

    return fault


def _number(*, above: float | None = None, at_least: float | None = None) -> Fault:
    wanted = "must be a finite number"
    wanted += f" above {above:g}" if above is not None else ""
    wanted += f" of at least {at_least:g}" if at_least is not None else ""

    def fault(value: Any) -> str | None:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
        fits = fits and (above is None or value > above) and (at_least is None or value >= at_least)
        return None if fits else wanted

    return fault


_optimize_mode = _one_of("minimize", "maximize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """``target`` is "module:Class". Where ``seed`` is an argument, its default is the experiment's.

    ``space``: what is wrong with a search space that is valid as such; None if nothing.
    """

    role: str
    name: str
    target: str
    arguments: Arguments
    aliases: tuple[str, ...] = ()
    space: Callable[[Mapping[str, Any]], str | None] | None = None


def _fault_of_batch(space: Mapping[str, Any]) -> str | None:
    from nnimgr.tuners.batch import fault_of_space

    return fault_of_space(space)


def _fault_of_grid(space: Mapping[str, Any]) -> str | None:
    return None if space else "GridSearch needs at least one parameter"


BUILTINS = (
    Builtin(
        role="tuner",
        name="Random",
        target="nnimgr.tuners.random:RandomTuner",
        arguments={"optimize_mode": _optimize_mode, "seed": _integer(or_null=True)},
        aliases=("RandomTuner",),
    ),
    Builtin(
        role="tuner",
        name="TPE",
        target="nnimgr.tuners.tpe:TpeTuner",
        arguments={
            "optimize_mode": _optimize_mode,
            "seed": _integer(or_null=True),
            "tpe_args": {
                "constant_liar_type": _one_of("best", "worst", "mean", None),
                "n_startup_jobs": _integer(at_least=0),
                "n_ei_candidates": _integer(at_least=1),
                "linear_forgetting": _integer(at_least=1),
                "prior_weight": _number(at_least=0),
                "gamma": _number(above=0),
            },
        },
        aliases=("TpeTuner",),
    ),
    Builtin(
        role="tuner",
        name="GridSearch",
        target="nnimgr.tuners.gridsearch:GridSearchTuner",
        arguments={"optimize_mode": _optimize_mode},
        aliases=("GridSearchTuner",),
        space=_fault_of_grid,
    ),
    Builtin(
        role="tuner",
        name="Batch",
        target="nnimgr.tuners.batch:BatchTuner",
        arguments={},
        aliases=("BatchTuner",),
        space=_fault_of_batch,
    ),
    Builtin(
        role="assessor",
        name="Medianstop",
        target="nnimgr.assessors.medianstop:MedianstopAssessor",
        arguments={"optimize_mode": _optimize_mode, "start_step": _integer(at_least=0)},
        aliases=("MedianstopAssessor",),
    ),
)

# What NNI has built in and nnimgr has not yet, by name or alias.
_LATER = {
    "tuner": (
        *("TPE_legacy", "Anneal", "Evolution", "SMAC", "GP", "GPTuner", "Metis", "MetisTuner", "DNGO"),
        *("DNGOTuner", "PBT", "PBTTuner", "PPO", "PPOTuner", "NetworkMorphism"),
        "RegularizedEvolutionTuner",
    ),
    "assessor": ("Curvefitting",),
}
_ADVISORS = ("Hyperband", "BOHB")


def names(role: str) -> list[str]:
    """The names of the built-in algorithms of a role."""
    return [builtin.name for builtin in BUILTINS if builtin.role == role]


def find(role: str, name: str) -> Builtin:
    """The built-in of this name or alias, in upper or lower case. Raises AlgorithmError."""
    for builtin in BUILTINS:
        if builtin.role == role and name.lower() in {n.lower() for n in (builtin.name, *builtin.aliases)}:
            return builtin
    available = ", ".join(names(role))
    for each in _ADVISORS:
        if name.lower() == each.lower():
            sentence = (
                f"{each} is an advisor, and advisors cannot be run yet; available {role}s are {available}"
            )
            raise AlgorithmError(sentence, path=("name",))
    for each in _LATER[role]:
        if name.lower() == each.lower():
            sentence = f"NNI's {role} {each} cannot be used yet; available are {available}"
            raise AlgorithmError(sentence, path=("name",))
    raise AlgorithmError(
        f"there is no built-in {role} {name!r}; valid names are {available}{_nearest(name, names(role))}",
        path=("name",),
    )


def is_builtin(role: str, name: str) -> bool:
    return any(
        builtin.role == role and name.lower() in {n.lower() for n in (builtin.name, *builtin.aliases)}
        for builtin in BUILTINS
    )


def resolve(role: str, name: str, *, file: Path | None = None) -> Builtin | Registered:
    """The built-in of this name, else what is registered under it in ``file`` (by default: this process's).

    Raises AlgorithmError.
    """
    if is_builtin(role, name):
        return find(role, name)
    try:
        entry = registered.lookup(role, name, registry_file() if file is None else file)
    except RegistryFileError as error:
        raise AlgorithmError(str(error), path=("name",)) from error
    if entry is None:
        return find(role, name)  # which says that there is none
    if entry.is_advisor:
        raise AlgorithmError(f"{entry.name} is an advisor, and advisors cannot be run yet", path=("name",))
    return entry


def check(role: str, name: str, class_args: Mapping[str, Any], *, file: Path | None = None) -> None:
    """Raise AlgorithmError if there is no such algorithm or it does not take these arguments."""
    builtin = resolve(role, name, file=file)
    if isinstance(builtin, Registered):
        if class_args and not builtin.takes_arguments:
            raise AlgorithmError(f"{builtin.name} takes no arguments", path=("classArgs",))
        return
    _check_arguments(builtin.name, builtin.arguments, class_args, path=("classArgs",))


def check_space(role: str, name: str, space: Mapping[str, Any]) -> None:
    """Raise AlgorithmError if this valid search space is none for the built-in; ``path`` is empty.

    Where there is no such built-in: as ``find``, with another ``path``.
    """
    builtin = find(role, name)
    fault = None if builtin.space is None else builtin.space(space)
    if fault is not None:
        raise AlgorithmError(fault)


def _check_arguments(
    subject: str, arguments: Arguments, given: Mapping[str, Any], *, path: tuple[str, ...]
) -> None:
    for key, value in given.items():
        fault = arguments.get(key)
        at = (*path, key)
        if fault is None:
            valid = sorted(arguments)
            offer = f"valid arguments are {', '.join(valid)}" if valid else "it takes none at all"
            raise AlgorithmError(
                f"{subject} takes no argument {key!r}; {offer}{_nearest(str(key), valid)}", path=at
            )
        if isinstance(fault, Mapping):
            if isinstance(value, Mapping):
                _check_arguments(f"{key} of {subject}", fault, value, path=at)
            elif value is not None:
                raise AlgorithmError(
                    f"the argument {key} of {subject} must be a mapping, not {value!r}", path=at
                )
            continue
        problem = fault(value)
        if problem is not None:
            raise AlgorithmError(f"the argument {key} of {subject} {problem}, not {value!r}", path=at)


def load(target: str, *, code_directory: str | None = None) -> type:
    """Import the class of "module:Class" or, as users write it, "module.Class".

    ``code_directory`` is put at the end of ``sys.path``. Raises AlgorithmError, and what the import raises.
    """
    if code_directory is not None and code_directory not in sys.path:
        sys.path.append(code_directory)
    module_name, _, class_name = target.rpartition(":" if ":" in target else ".")
    if not module_name or not class_name:
        raise AlgorithmError(f'className must be written as "module.Class", not {target!r}')
    module = importlib.import_module(module_name)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise AlgorithmError(
            f"the module {module_name} ({getattr(module, '__file__', 'built in')}) has no class {class_name}"
            f"{_nearest(class_name, classes)}"
        )
    return found


def _nearest(word: str, words: list[str]) -> str:
    import difflib  # only for a message: it would slow the start of every child

    lowered = {each.lower(): each for each in words}
    found = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.5)
    return f"; did you mean {lowered[found[0]]}?" if found else ""
