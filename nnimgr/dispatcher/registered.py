"""Algorithms that a user has registered under a name, in ``registered_algorithms.yml``, in NNI's format.

The file is in ``$NNI_CONFIG_DIR``; else in the folder ``nni`` of the virtual or conda environment whose
Python runs the experiment's algorithms; else in ``~/.config/nni``. It has the lists ``tuners`` and
``assessors``, as in NNI, and ``schedulers``. Their items are mappings with builtinName, className and the
other fields that NNI keeps of an algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_services import userfile
from training_services.userfile import UserFileError as RegistryFileError

__all__ = [
    "Registered",
    "RegistryFileError",
    "read_entry",
    "register",
    "registered",
    "registry_file",
    "unregister",
]

# NNI 2 had a separate list for advisors. They count as tuners.
_LISTS = {"tuners": "tuner", "assessors": "assessor", "schedulers": "scheduler", "advisors": "tuner"}
_CONTENT = "lists of tuners, assessors and schedulers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Algorithm that a user has registered. ``class_name`` and ``validator`` are "module.Class".

    ``package``: the name and version of the installed package that provides the algorithm, if any.
    """

    role: str
    name: str
    class_name: str
    validator: str | None = None
    class_args: Mapping[str, Any] = field(default_factory=dict)
    takes_arguments: bool = True
    aliases: tuple[str, ...] = ()
    is_advisor: bool = False
    version: str = ""
    package: str = ""

    def named(self, name: str) -> bool:
        """Return whether ``name`` is the algorithm's name or an alias, in upper or lower case."""
        return name.lower() in {known.lower() for known in (self.name, *self.aliases)}

    def plain(self) -> dict[str, Any]:
        """Return the algorithm as an entry in the format of ``registered_algorithms.yml``."""
        entry: dict[str, Any] = {"builtinName": self.name, "className": self.class_name}
        if self.validator is not None:
            entry["classArgsValidator"] = self.validator
        if self.class_args:
            entry["classArgs"] = dict(self.class_args)
        if not self.takes_arguments:
            entry["acceptClassArgs"] = False
        if self.aliases:
            entry["alias"] = list(self.aliases) if len(self.aliases) > 1 else self.aliases[0]
        if self.is_advisor:
            entry["isAdvisor"] = True
        return entry | {"source": "user", "nniVersion": self.version}


def registry_file(environ: Mapping[str, str] | None = None, *, python: str | None = None) -> Path:
    """Return the path of ``registered_algorithms.yml`` for this environment and interpreter.

    If ``environ`` or ``python`` is None, the environment or the interpreter of this process is used.
    """
    return userfile.config_directory(environ, python=python) / "registered_algorithms.yml"


def registered(file: Path) -> list[Registered]:
    """Return all algorithms in the file of registered algorithms; none if the file does not exist.

    Raise RegistryFileError.
    """
    raw = _read(file)
    return [
        read_entry(entry, role, advisor=name == "advisors")
        for name, role in _LISTS.items()
        for entry in raw.get(name) or ()
        if _usable(entry)
    ]


def register(entry: Registered, file: Path) -> bool:
    """Add an algorithm to the file of registered algorithms, or replace the algorithm of the same name.

    Return whether an algorithm was replaced. Raise RegistryFileError.
    """
    with _changing(file) as raw:
        replaced = _drop(raw, entry.name)
        key = next(name for name, role in _LISTS.items() if role == entry.role)
        raw[key] = [*(raw.get(key) or ()), entry.plain()]
    return replaced


def unregister(name: str, file: Path) -> bool:
    """Remove the algorithm with this name from the file. Return False if the file does not have it.

    Raise RegistryFileError.
    """
    with _changing(file) as raw:
        return _drop(raw, name)


def _usable(entry: Any) -> bool:
    """Return whether an entry in the file is a user's algorithm. NNI 2 also listed its own algorithms
    there.
    """
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("builtinName"), str)
        and isinstance(entry.get("className"), str)
        and entry.get("source") != "nni"
    )


def read_entry(entry: Mapping[str, Any], role: str, *, advisor: bool) -> Registered:
    """Return the algorithm that a mapping with ``builtinName``, ``className`` and other fields describes.

    The mapping comes from the file of registered algorithms or from a description.
    """
    alias = entry.get("alias") or ()
    return Registered(
        role=role,
        name=entry["builtinName"],
        class_name=entry["className"],
        validator=entry.get("classArgsValidator"),
        class_args=entry.get("classArgs") or {},
        takes_arguments=entry.get("acceptClassArgs", True) is not False,
        aliases=(alias,) if isinstance(alias, str) else tuple(map(str, alias)),
        is_advisor=advisor or bool(entry.get("isAdvisor")),
        version=str(entry.get("nniVersion") or ""),
    )


def _drop(raw: dict[str, Any], name: str) -> bool:
    found = False
    for key in _LISTS:
        entries = raw.get(key) or []
        kept = [
            entry
            for entry in entries
            if not (_usable(entry) and read_entry(entry, "", advisor=False).named(name))
        ]
        found = found or len(kept) < len(entries)
        if key in raw:
            raw[key] = kept
    return found


def _read(file: Path) -> dict[str, Any]:
    return userfile.read(file, lists=_LISTS, what=_CONTENT)


def _changing(file: Path) -> AbstractContextManager[dict[str, Any]]:
    return userfile.changing(file, lists=_LISTS, what=_CONTENT)
