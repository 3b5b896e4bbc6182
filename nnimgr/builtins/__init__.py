"""The built-in algorithms: their names, their modules, and their ``classArgs``.

Nothing here imports an algorithm, so that a configuration is read fast.
"""

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.advisors import ADVISORS
from nnimgr.builtins.assessors import ASSESSORS
from nnimgr.builtins.builtin import Builtin
from nnimgr.builtins.tuners import TUNERS

__all__ = ["BUILTINS", "Builtin", "built_in", "meant"]

BUILTINS = (*TUNERS, *ADVISORS, *ASSESSORS)


def built_in(
    role: str, *, name: str | None, class_name: str | None = None, code_directory: object = None
) -> Builtin | None:
    """Return the built-in algorithm with this name or alias (in any case), or with this class path, or
    None.
    """
    known = (builtin for builtin in BUILTINS if builtin.role == role)
    if name is not None:
        wanted = name.lower()
        return next((each for each in known if wanted in map(str.lower, (each.name, *each.aliases))), None)
    if class_name is None or code_directory is not None:
        return None
    return next((each for each in known if class_name in each.class_paths), None)


def meant(role: str, algorithm: Mapping[str, Any]) -> Builtin | None:
    """Return the built-in algorithm that a configuration describes. The configuration may be unchecked."""
    name, path = algorithm.get("name"), algorithm.get("className")
    return built_in(
        role,
        name=name if isinstance(name, str) else None,
        class_name=path if isinstance(path, str) else None,
        code_directory=algorithm.get("codeDirectory"),
    )
