"""Functions that create tuners and assessors by name or class, named as in NNI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nni.tools.package_utils.config_manager import get_algo_meta
from nnimgr.builtins import built_in
from nnimgr.dispatcher.registry import load

__all__ = [
    "create_builtin_class_instance",
    "create_customized_class_instance",
    "create_validator_instance",
    "get_builtin_module_class_name",
    "parse_full_class_name",
]


def create_builtin_class_instance(
    builtin_name: str, input_class_args: Mapping[str, Any] | None, algo_type: str
) -> Any:
    """Create the built-in or registered algorithm with this name. Raise RuntimeError if there is none.

    ``algo_type``: "tuners" or "assessors".
    """
    role = algo_type.removesuffix("s")
    builtin, found = built_in(role, name=builtin_name), get_algo_meta(builtin_name)
    if builtin is not None:
        return load(builtin.target)(**(input_class_args or {}))
    if found is None or found.algo_type != role or found.class_name is None:
        raise RuntimeError(f"there is no {role} {builtin_name!r}")
    return load(found.class_name)(**{**(found.class_args or {}), **(input_class_args or {})})


def create_customized_class_instance(class_params: Mapping[str, Any]) -> Any:
    """Create an object of a user's class: ``className`` in ``codeDirectory``, with the arguments
    ``classArgs``.
    """
    target = load(class_params["className"], code_directory=class_params.get("codeDirectory"))
    return target(**(class_params.get("classArgs") or {}))


def create_validator_instance(algo_type: str, builtin_name: str) -> Any:
    """Create the object that checks a registered algorithm's arguments.

    Return None if the algorithm has no such class.
    """
    found = get_algo_meta(builtin_name)
    if found is None or found.validator_class_name is None:
        return None
    return load(found.validator_class_name)()


def get_builtin_module_class_name(algo_type: str, builtin_name: str) -> tuple[str | None, str | None]:
    """Return the module and the class of the algorithm with this name. Return (None, None) if there
    is none.
    """
    found = get_algo_meta(builtin_name)
    return parse_full_class_name(None if found is None else found.class_name)


def parse_full_class_name(full_class_name: str | None) -> tuple[str | None, str | None]:
    """Split "module.Class" into module and class. Return (None, None) for an empty name."""
    if not full_class_name:
        return None, None
    module, _, name = full_class_name.rpartition(".")
    return module, name
