"""List of the built-in algorithms: their names, classes and arguments.

This package does not import the algorithms themselves, so that a configuration can be checked quickly.
"""

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.advisors import ADVISORS
from nnimgr.builtins.assessors import ASSESSORS
from nnimgr.builtins.builtin import Builtin
from nnimgr.builtins.schedulers import SCHEDULERS
from nnimgr.builtins.tuners import TUNERS

__all__ = ["BUILTINS", "Builtin", "built_in", "meant"]

BUILTINS = (*TUNERS, *ADVISORS, *ASSESSORS, *SCHEDULERS)


def built_in(
    role: str, *, name: str | None, class_name: str | None = None, code_directory: object = None
) -> Builtin | None:
    """Return the built-in algorithm of this role with this name or alias, or with this class path.

    Return None if there is none. Upper and lower case of a name do not matter. An algorithm with a
    ``code_directory`` is not built in.
    """
    known = (builtin for builtin in BUILTINS if builtin.role == role)
    if name is not None:
        wanted = name.lower()
        return next((each for each in known if wanted in map(str.lower, (each.name, *each.aliases))), None)
    if class_name is None or code_directory is not None:
        return None
    return next((each for each in known if class_name in each.class_paths), None)


def meant(role: str, algorithm: Mapping[str, Any]) -> Builtin | None:
    """Return the built-in algorithm that a section of a configuration names, or None.

    The section may be unchecked.
    """
    name, path = algorithm.get("name"), algorithm.get("className")
    return built_in(
        role,
        name=name if isinstance(name, str) else None,
        class_name=path if isinstance(path, str) else None,
        code_directory=algorithm.get("codeDirectory"),
    )
