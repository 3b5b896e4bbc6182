"""Finds tuners, assessors and schedulers by name.

The built-in algorithms (``builtins``) come first, then algorithms that users have registered
(``registered``), then algorithms that packages provide (``installed``). Checking imports no algorithm, so
that a configuration is read fast; classes are imported on use.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nnimgr.builtins import BUILTINS, Builtin, built_in
from nnimgr.builtins.arguments import Arguments
from nnimgr.dispatcher import registered
from nnimgr.dispatcher.installed import Interpreter, InterpreterError, installed
from nnimgr.dispatcher.registered import Registered, RegistryFileError
from nnimgr.libraries import fault_of
from nnimgr.spelling import nearest

__all__ = [
    "BUILTINS",
    "AlgorithmError",
    "Builtin",
    "Interpreter",
    "check",
    "check_class",
    "check_space",
    "find",
    "is_builtin",
    "left_out",
    "load",
    "names",
    "resolve",
]


class AlgorithmError(ValueError):
    """Error: an algorithm cannot be found, or does not take these arguments. The message is one sentence.

    ``path``: keys from the algorithm's configuration to the field with the error. ``others``: the errors of
    other arguments, if this is the first one.
    """

    def __init__(self, sentence: str, *, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(sentence)
        self.path = path
        self.others: tuple[AlgorithmError, ...] = ()

    @property
    def all(self) -> tuple[AlgorithmError, ...]:
        """This error and the errors of other arguments."""
        return (self, *self.others)


# Algorithms of NNI that nnimgr does not have: names -> sentence with the alternative.
_LEFT_OUT = {
    ("PPO", "PPOTuner"): (
        "PPO searches architectures of NNI's NAS, which nnimgr leaves out; use TPE or Evolution over the "
        "choices of a search space"
    ),
    ("NetworkMorphism", "NetworkMorphismTuner"): (
        "NetworkMorphism grows networks of NNI's NAS, which nnimgr leaves out; use TPE or Evolution over a "
        "search space with nested choices"
    ),
    ("RegularizedEvolution", "RegularizedEvolutionTuner"): (
        "RegularizedEvolution searches architectures of NNI's NAS, which nnimgr leaves out; use Evolution"
    ),
    ("DNGO", "DNGOTuner"): "nnimgr does not have DNGO; use GP, or TPE where there are many trials",
}
# Usual words for a method -> the built-in tuner that uses it.
_METHODS = {
    "bayes": "GP",
    "bayesian": "GP",
    "bayesianoptimization": "GP",
    "bayesopt": "GP",
    "bo": "GP",
    "gaussianprocess": "GP",
    "grid": "GridSearch",
    "genetic": "Evolution",
    "optunasampler": "Optuna",
    "simulatedannealing": "Anneal",
    "sobol": "QMC",
}
_NNI = "nni.algorithms."


def names(role: str) -> list[str]:
    """Return the names of the built-in algorithms of a role (tuner, assessor or scheduler)."""
    return [builtin.name for builtin in BUILTINS if builtin.role == role]


def find(role: str, name: str) -> Builtin:
    """Return the built-in algorithm with this name or alias, in upper or lower case. Raise AlgorithmError."""
    found = built_in(role, name=name)
    if found is None:
        raise _unknown(role, name)
    return found


def is_builtin(role: str, name: str) -> bool:
    return built_in(role, name=name) is not None


def _unknown(role: str, name: str, others: Sequence[str] = ()) -> AlgorithmError:
    """Build the error for an unknown algorithm name. ``others``: valid names beside the built-in names."""
    known = list(dict.fromkeys([*names(role), *others]))
    method = _METHODS.get(name.lower().replace("_", "").replace(" ", "").removesuffix("tuner"))
    hint = f"; did you mean {method}?" if method in known else _nearest(name, known)
    sentence = (
        left_out(role, name)
        or f"there is no built-in {role} {name!r}; valid names are {', '.join(known)}{hint}"
    )
    return AlgorithmError(sentence, path=("name",))


def left_out(role: str, name: str) -> str | None:
    """Return a sentence that names an alternative if nnimgr lacks this algorithm of NNI, else None."""
    for known, sentence in _LEFT_OUT.items():
        if role == "tuner" and name.lower() in map(str.lower, known):
            return sentence
    return None


def resolve(role: str, name: str, *, interpreter: Interpreter | None = None) -> Builtin | Registered:
    """Return the algorithm with this name. Built-in algorithms come first, then registered, then installed
    algorithms.

    ``interpreter`` decides which algorithms are registered and installed. Raise AlgorithmError.
    """
    found = built_in(role, name=name)
    if found is not None:
        return found
    interpreter = interpreter or Interpreter()
    try:
        known = registered.registered(interpreter.registry_file)
        entry = _named(role, name, known)
        if entry is None:
            known += installed(interpreter.folders())
            entry = _named(role, name, known)
    except (RegistryFileError, InterpreterError) as error:
        raise AlgorithmError(str(error), path=("name",)) from error
    if entry is None:
        raise _unknown(role, name, [each.name for each in known if each.role == role])
    return entry


def _named(role: str, name: str, known: Sequence[Registered]) -> Registered | None:
    return next((each for each in known if each.role == role and each.named(name)), None)


def check_class(
    role: str,
    class_name: str,
    class_args: Mapping[str, Any],
    *,
    code_directory: object = None,
    several: bool = False,
) -> None:
    """Raise AlgorithmError if this class certainly does not exist or does not take these arguments.

    A user's class is not checked here: ``nnimgr.config.class_paths`` looks whether it exists, and its import
    in a separate process shows other errors.
    """
    builtin = built_in(role, name=None, class_name=class_name, code_directory=code_directory)
    if builtin is not None:
        check(role, builtin.name, class_args, several=several)
    elif code_directory is None and class_name.startswith(_NNI):
        missing = left_out(role, class_name.rpartition(".")[2])
        if missing is not None:
            raise AlgorithmError(missing, path=("className",))


def check(
    role: str,
    name: str,
    class_args: Mapping[str, Any],
    *,
    interpreter: Interpreter | None = None,
    several: bool = False,
) -> None:
    """Raise AlgorithmError if no algorithm has this name, or if it does not take these arguments.

    ``several``: the experiment has several objectives.
    """
    builtin = resolve(role, name, interpreter=interpreter)
    if isinstance(builtin, Registered):
        if class_args and not builtin.takes_arguments:
            raise AlgorithmError(f"{builtin.name} takes no arguments", path=("classArgs",))
        return
    _raise_first(_argument_errors(builtin.name, builtin.arguments, class_args, path=("classArgs",)))
    for missing in [name for name in builtin.required if name not in class_args]:
        raise AlgorithmError(f"{builtin.name} needs the argument {missing}", path=("classArgs",))
    if (lacks := fault_of(builtin.needs)) is not None:
        raise AlgorithmError(f"{builtin.name} {lacks}", path=("name",))
    if several and role == "tuner" and not builtin.several:
        able = ", ".join(each.name for each in BUILTINS if each.several)
        raise AlgorithmError(
            f"{builtin.name} optimizes one objective; several can be given to {able}", path=("name",)
        )
    fault = None if builtin.whole is None else builtin.whole(class_args, several)
    if fault is not None:
        path, sentence = fault
        raise AlgorithmError(sentence, path=("classArgs", *path))
    inner = None if builtin.wraps is None else class_args.get(builtin.wraps)
    if inner is not None and builtin.wraps is not None:
        try:
            check(role, find(role, inner["name"]).name, inner.get("classArgs") or {})
        except AlgorithmError as error:
            at = ("classArgs", builtin.wraps)
            _raise_first(AlgorithmError(str(each), path=(*at, *each.path)) for each in error.all)


def check_space(role: str, name: str, space: Mapping[str, Any]) -> None:
    """Raise AlgorithmError if the built-in algorithm cannot search this search space, although the space is
    valid.

    If there is no built-in algorithm of this name, raise the error of ``find``.
    """
    builtin = find(role, name)
    fault = None if builtin.space is None else builtin.space(space)
    for name in builtin.adds:
        if name in space:
            fault = f"{name} cannot be a parameter, since {builtin.name} adds a parameter of this name"
    if fault is not None:
        raise AlgorithmError(fault)


def _raise_first(errors: Iterable[AlgorithmError]) -> None:
    """Raise the first error, if there is any. It has all others."""
    found = tuple(errors)
    if found:
        found[0].others = found[1:]
        raise found[0]


def _argument_errors(
    subject: str, arguments: Arguments, given: Mapping[str, Any], *, path: tuple[str, ...]
) -> Iterator[AlgorithmError]:
    """Yield an error for each argument that is not known or has a wrong value."""
    for key, value in given.items():
        fault = arguments.get(key)
        at = (*path, key)
        if fault is None:
            valid = sorted(arguments)
            offer = f"valid arguments are {', '.join(valid)}" if valid else "it takes none at all"
            yield AlgorithmError(
                f"{subject} takes no argument {key!r}; {offer}{_nearest(str(key), valid)}", path=at
            )
        elif isinstance(fault, Mapping):
            if isinstance(value, Mapping):
                yield from _argument_errors(f"{key} of {subject}", fault, value, path=at)
            elif value is not None:
                yield AlgorithmError(
                    f"the argument {key} of {subject} must be a mapping, not {value!r}", path=at
                )
        elif (problem := fault(value)) is not None:
            yield AlgorithmError(f"the argument {key} of {subject} {problem}, not {value!r}", path=at)


def load(target: str, *, code_directory: str | None = None) -> type:
    """Import and return a class. ``target``: "module:Class" or, as users write it, "module.Class".

    ``code_directory`` is appended to ``sys.path``. Raise AlgorithmError, or any exception of the import.
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
    near = nearest(word, words, cutoff=0.5)
    return "" if near is None else f"; did you mean {near}?"
