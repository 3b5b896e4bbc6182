"""Finding algorithms by name: the built-in ones (``builtins``), behind them those that users have registered
under names of their own (``registered``).

Checking imports no algorithm, so that a configuration is read fast; classes are imported on use.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnimgr.dispatcher import registered
from nnimgr.dispatcher.arguments import Arguments
from nnimgr.dispatcher.builtins import BUILTINS, Builtin
from nnimgr.dispatcher.registered import Registered, RegistryFileError, registry_file

__all__ = [
    "BUILTINS",
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


class AlgorithmError(ValueError):
    """An algorithm cannot be found or does not take these arguments; one sentence for the user.

    ``path`` leads from the algorithm's configuration to what is at fault.
    """

    def __init__(self, sentence: str, *, path: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.path = path


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


def check(
    role: str,
    name: str,
    class_args: Mapping[str, Any],
    *,
    file: Path | None = None,
    several: bool = False,
) -> None:
    """Raise AlgorithmError if there is no such algorithm or it does not take these arguments.

    ``several``: the experiment has several objectives.
    """
    builtin = resolve(role, name, file=file)
    if isinstance(builtin, Registered):
        if class_args and not builtin.takes_arguments:
            raise AlgorithmError(f"{builtin.name} takes no arguments", path=("classArgs",))
        return
    _check_arguments(builtin.name, builtin.arguments, class_args, path=("classArgs",))
    if several and role == "tuner" and not builtin.several:
        able = ", ".join(each.name for each in BUILTINS if each.several)
        raise AlgorithmError(
            f"{builtin.name} optimises one objective; several can be given to {able}", path=("name",)
        )
    fault = None if builtin.whole is None else builtin.whole(class_args, several)
    if fault is not None:
        path, sentence = fault
        raise AlgorithmError(sentence, path=("classArgs", *path))


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
