"""Model of the field ``sinks``: where else the events of an experiment are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.parsing import Reading, check_references
from nnimgr.config.path_checks import directory_fault
from nnimgr.libraries import fault_of
from nnimgr.sinks.appended import owner_of
from nnimgr.sinks.builtin import SINKS
from nnimgr.spelling import nearest

__all__ = ["SinkConfig", "check_sinks"]


class SinkConfig(ConfigModel):
    """A built-in sink by ``name``, or a class of the user, as "module:Class"."""

    name: str | None = None
    class_name: str | None = None
    code_directory: Path | None = None
    class_args: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.name is None) == (self.class_name is None):
            raise ValueError("give either 'name' (a built-in sink) or 'className' (a class of your own)")
        if self.name is not None and self.code_directory is not None:
            raise ValueError("'codeDirectory' goes with 'className', not with 'name'")
        if self.class_name is not None:
            module, colon, name = self.class_name.partition(":")
            if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
                raise ValueError(f"className {self.class_name!r} is not of the form 'module:Class'")
        return self

    @property
    def title(self) -> str:
        return self.name or (self.class_name or "").partition(":")[2]

    @property
    def target(self) -> str:
        """The sink's class as "module:Class"."""
        return SINKS[self.name].target if self.name is not None else self.class_name or ""


def keep_references(reading: Reading, fields: Mapping[str, Any]) -> None:
    """Report references in the arguments of sinks that cannot be resolved now."""
    sinks = fields.get("sinks")
    for index, sink in enumerate(sinks if isinstance(sinks, list) else ()):
        if isinstance(sink, dict) and "classArgs" in sink:
            path = ("sinks", index, "classArgs")
            sink["classArgs"] = check_references(reading, sink["classArgs"], path)


def check_sinks(reading: Reading, sinks: Sequence[SinkConfig] | None) -> None:
    """Report unknown sinks, arguments and folders, folders of two sinks, and libraries that are missing."""
    taken: dict[Path, int] = {}
    for index, sink in enumerate(sinks or ()):
        at = ("sinks", index)
        if sink.name is None:
            folder = sink.code_directory
            fault = None if folder is None else directory_fault(folder)
            if folder is not None and not folder.is_absolute():  # a client has sent it
                fault = "must be an absolute path"
            if fault is not None:
                reading.fault((*at, "codeDirectory"), f"the directory {folder} {fault}")
            continue
        known = SINKS.get(sink.name)
        if known is None:
            sentence = f"there is no sink {sink.name!r}"
            reading.fault((*at, "name"), sentence, valid=tuple(SINKS), nearest=nearest(sink.name, SINKS))
            continue
        for argument, value in (sink.class_args or {}).items():
            if argument not in known.arguments:
                sentence = f"the sink {sink.name} has no argument {argument!r}"
                reading.fault((*at, "classArgs", argument), sentence, valid=known.arguments)
            elif not isinstance(value, str):
                reading.fault((*at, "classArgs", argument), f"must be text, not {value!r}")
        directory = (sink.class_args or {}).get("directory")
        if isinstance(directory, str):
            first = taken.setdefault(Path(directory).absolute(), index)
            fault = None
            if reading.base is not None and (owner := owner_of(Path(directory))):
                fault = f"has the events of experiment {owner}: name another one"
            elif first != index:
                fault = f"is that of sinks[{first}]: each sink needs its own"
            if fault is not None:
                reading.fault((*at, "classArgs", "directory"), f"the directory {directory} {fault}")
        # Without a base directory, a server checks the configuration, whose Python need not have the library.
        if reading.base is not None and (lacks := fault_of(known.modules)) is not None:
            reading.fault((*at, "name"), f"the sink {sink.name} {lacks}")
