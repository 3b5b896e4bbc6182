"""Checks of the scheduler in a configuration, and the files that its arguments name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nnimgr.builtins import meant
from nnimgr.config.document import read_document
from nnimgr.config.parsing import Reading, plain
from nnimgr.config.path_checks import file_fault
from nnimgr.config.problems import ConfigError

__all__ = ["check_scheduler", "read_argument_file"]


def read_argument_file(reading: Reading, scheduler: Mapping[str, Any]) -> None:
    """Replace the name of a file in the arguments of a built-in scheduler by the content of the file.

    So the stored configuration does not depend on the file. Report errors in the file.
    """
    builtin, arguments = meant("scheduler", scheduler), scheduler.get("classArgs")
    if builtin is None or builtin.file is None or not isinstance(arguments, dict) or reading.base is None:
        return
    name = arguments.get(builtin.file)
    if not isinstance(name, str):
        return
    path, file = ("scheduler", "classArgs", builtin.file), reading.base / os.path.expanduser(name)
    if (trouble := file_fault(file)) is not None:
        reading.fault(path, f"the file {file} {trouble}")
        return
    try:
        document = read_document(file)
    except ConfigError as error:
        reading.problems.extend(error.problems)
        return
    inner = Reading(document=document)
    value = plain(inner, document.value, ())
    fault = builtin.arguments[builtin.file]
    if callable(fault) and (trouble := fault(value)) is not None:
        inner.fault((), f"the {builtin.file} of {builtin.name} {trouble}")
    reading.problems.extend(inner.problems)
    reading.warnings.extend(inner.warnings)
    arguments[builtin.file] = value


def check_scheduler(reading: Reading, fields: Mapping[str, Any], *, space_is_valid: bool) -> None:
    """Report a scheduler that cannot work in the experiment's search space."""
    section = fields.get("scheduler")
    builtin = meant("scheduler", section) if isinstance(section, Mapping) else None
    if builtin is None or "mutations" not in builtin.arguments or not isinstance(section, Mapping):
        return
    arguments, space = section.get("classArgs") or {}, fields.get("searchSpace")
    mutations = arguments.get("mutations") if isinstance(arguments, Mapping) else None
    if mutations is None:
        if not space_is_valid:
            reading.fault(
                ("scheduler",),
                f"{builtin.name} cannot change parameters in a search space of the tuner's own format: give "
                "classArgs.mutations, the parameters that it may change",
            )
        return
    if not space_is_valid or not isinstance(mutations, Mapping) or not isinstance(space, Mapping):
        return
    for name in mutations:
        if name not in space:
            reading.warn(
                ("scheduler", "classArgs", "mutations", name),
                f"the search space has no parameter {name}. Is the name misspelt? Only trials that users "
                f"add with a parameter {name} will be changed in it",
            )
