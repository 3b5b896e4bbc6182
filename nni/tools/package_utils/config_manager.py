"""Functions that list, register and unregister algorithms."""

from __future__ import annotations

from typing import Any

from nni.tools.package_utils.common import AlgoMeta
from nnimgr.builtins import BUILTINS, Builtin
from nnimgr.dispatcher import registered

__all__ = [
    "get_algo_meta",
    "get_all_algo_meta",
    "get_registered_algo_meta",
    "register_algo_meta",
    "unregister_algo_meta",
]

_SCHEDULER = "scheduler"


def get_algo_meta(name: str) -> AlgoMeta | None:
    """Return the description of the algorithm with this name or alias, or None.

    Upper and lower case do not matter.
    """
    wanted = name.lower()
    known = get_all_algo_meta()
    return next((each for each in known if wanted in (each.name.lower(), (each.alias or "").lower())), None)


def get_all_algo_meta() -> list[AlgoMeta]:
    """Return the descriptions of all built-in algorithms, followed by those of all registered algorithms.

    Schedulers are left out, because NNI does not have them.
    """
    own = registered.registered(registered.registry_file())
    known = [_of_builtin(each) for each in BUILTINS if each.role != _SCHEDULER]
    return [*known, *(AlgoMeta.load(each.plain(), each.role) for each in own if each.role != _SCHEDULER)]


def get_registered_algo_meta(builtin_name: str) -> dict[str, Any] | None:
    """Return the description of the algorithm with this name as a dict, the form of NNI 2, or None."""
    found = get_algo_meta(builtin_name)
    return None if found is None else found.dump()


def register_algo_meta(algo_meta: AlgoMeta) -> None:
    """Register an algorithm. Replace the registered algorithm that has the same name."""
    entry = registered.read_entry(algo_meta.dump(), algo_meta.algo_type, advisor=algo_meta.is_advisor)
    registered.register(entry, registered.registry_file())


def unregister_algo_meta(algo_name: str) -> None:
    """Remove the registered algorithm with this name, if there is one."""
    registered.unregister(algo_name, registered.registry_file())


def _of_builtin(builtin: Builtin) -> AlgoMeta:
    return AlgoMeta(
        name=builtin.name,
        alias=builtin.aliases[0] if builtin.aliases else None,
        class_name=builtin.class_paths[-1],
        accept_class_args=bool(builtin.arguments),
        class_args=None,
        validator_class_name=None,
        algo_type=builtin.role,
        is_advisor=builtin.advisor,
        is_builtin=True,
        nni_version=None,
    )
