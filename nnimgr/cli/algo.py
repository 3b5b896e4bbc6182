"""``nnictl algo``: register a user's own algorithms under names, list them, and unregister them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnimgr import __version__
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.update import read_plain
from nnimgr.client.errors import ClientError
from nnimgr.dispatcher import registered, registry
from nnimgr.dispatcher.installed import Interpreter, installed
from nnimgr.dispatcher.registered import Registered, RegistryFileError, registry_file
from nnimgr.rules.terms import Role
from nnimgr.spelling import nearest

__all__ = ["list_all", "register", "show", "unregister"]

_ROLES = {"tuner": "tuner", "assessor": "assessor", "scheduler": "scheduler", "advisor": "tuner"}
_COLUMNS = (
    Column("NAME", gives_way=True, least=16),
    Column("TYPE"),
    Column("SOURCE", gives_way=True, least=8),
    Column("CLASS", gives_way=True, least=16),
    Column("MODULE", gives_way=True, least=8),
)
_NNI = "nni"  # source of all built-in algorithms, as NNI names it
_REQUIRED = ("algoType", "builtinName", "className")
_KNOWN = (*_REQUIRED, "classArgsValidator", "classArgs", "acceptClassArgs", "alias")


def register(args: argparse.Namespace, terminal: Terminal) -> int:
    """Register all algorithms that the file ``--meta`` describes, or none of them.

    The classes of all algorithms are imported first, to check that they exist.
    """
    file = Path(args.meta_path)
    entries = [_described(raw, file=file, terminal=terminal) for raw in _descriptions(file)]
    for entry in entries:
        if any(registry.is_builtin(role, entry.name) for role in Role):
            raise ClientError(
                f"Cannot overwrite the builtin algorithm {entry.name}.",
                mend=f"Choose another builtinName in {file}, then repeat: {{command}}",
            )
        for target in (entry.class_name, entry.validator):
            if target is not None:
                _import(target)
    for entry in entries:
        try:
            replaced = registered.register(entry, registry_file())
        except RegistryFileError as error:
            raise ClientError(f"{error}.") from error
        if replaced:
            terminal.info(f"An algorithm {entry.name} was registered before: it is replaced.")
        terminal.info(f"{entry.name} registered successfully!")
    if terminal.as_json:
        terminal.json({"registered": [entry.name for entry in entries], "file": str(registry_file())})
    return 0


def unregister(args: argparse.Namespace, terminal: Terminal) -> int:
    if any(registry.is_builtin(role, args.name) for role in Role):
        raise ClientError(
            f"{args.name} is built in and cannot be unregistered.", mend="See: nnictl algo list"
        )
    try:
        found = registered.unregister(args.name, registry_file())
    except RegistryFileError as error:
        raise ClientError(f"{error}.") from error
    if not found:
        raise ClientError(
            f"There is no registered algorithm {args.name}{_brought(args.name)}.",
            mend="See: nnictl algo list",
        )
    terminal.info(f"{args.name} unregistered successfully!")
    if terminal.as_json:
        terminal.json({"unregistered": args.name})
    return 0


def _brought(name: str) -> str:
    """Return the end of an error message, which names the package that provides this algorithm, or "".

    An algorithm of an installed package cannot be unregistered.
    """
    packages = [entry.package for entry in installed(Interpreter().folders()) if entry.named(name)]
    return f": it comes with the package {packages[0]}" if packages else ""


def show(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print one built-in or registered algorithm as JSON, with its fields in the registry file."""
    found = next((entry for entry in _all() if entry.named(args.name)), None)
    if found is None:
        near = nearest(args.name, [entry.name for entry in _all()])
        hint = "." if near is None else f"; did you mean {near}?"
        raise ClientError(f"There is no algorithm {args.name}{hint}", mend="See: nnictl algo list")
    shown = {"algoType": _type(found), **found.plain(), "source": _source(found)}
    if terminal.as_json:
        terminal.json(shown)
    else:
        terminal.say(json.dumps(shown, indent=4))
    return 0


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List all algorithms, the built-in ones first: as a table on a terminal, otherwise in NNI's format."""
    rows = [
        (entry.name, _type(entry), _source(entry), *reversed(entry.class_name.rpartition(".")[::2]))
        for entry in _all()
    ]
    titles = ("Name", "Type", "Source", "Class Name", "Module Name")
    if terminal.as_json:
        keys = ("name", "type", "source", "className", "module")
        terminal.json({"algorithms": [dict(zip(keys, row, strict=True)) for row in rows]})
        return 0
    if terminal.for_people:
        plain = {_NNI: "built in"}  # NNI's word would mislead about those that only nnimgr has
        show_table(terminal, _COLUMNS, [(*row[:2], plain.get(row[2], row[2]), *row[3:]) for row in rows])
        return 0
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [_line(row, widths) for row in (titles, *rows)]
    terminal.say("\n".join([rule, lines[0], rule, *lines[1:], rule]))
    return 0


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = (f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True))
    return "|".join(["", *cells, ""])


def _all() -> list[Registered]:
    builtin = [
        Registered(
            role=known.role,
            name=known.name,
            class_name=known.target.replace(":", "."),
            takes_arguments=bool(known.arguments),
            aliases=known.aliases,
            version=__version__,
        )
        for known in registry.BUILTINS
    ]
    try:
        own = registered.registered(registry_file())
    except RegistryFileError as error:
        raise ClientError(f"{error}.") from error
    brought = installed(Interpreter().folders())
    return [*builtin, *own, *(entry for entry in brought if not registry.is_builtin(entry.role, entry.name))]


def _type(entry: Registered) -> str:
    return "advisor" if entry.is_advisor else entry.role


def _source(entry: Registered) -> str:
    return entry.package or (_NNI if registry.is_builtin(entry.role, entry.name) else "user")


def _descriptions(file: Path) -> list[Any]:
    """Return the algorithms in a description file: its list ``algorithms``.

    Without this list, the whole file describes one algorithm.
    """
    content = read_plain(file)
    if isinstance(content, Mapping) and isinstance(content.get("algorithms"), list):
        return list(content["algorithms"])
    return [content]


def _described(raw: Any, *, file: Path, terminal: Terminal) -> Registered:
    mend = f"Correct {file}, then repeat: {{command}}"
    if not isinstance(raw, Mapping):
        raise ClientError(
            f"{file}: an algorithm is described by a mapping with {', '.join(_REQUIRED)}.", mend=mend
        )
    missing = [key for key in _REQUIRED if not isinstance(raw.get(key), str)]
    if missing:
        raise ClientError(f"{file}: {', '.join(missing)} must be given, as text.", mend=mend)
    if raw["algoType"] not in _ROLES:
        raise ClientError(
            f"{file}: algoType must be one of {', '.join(_ROLES)}, not {raw['algoType']!r}.", mend=mend
        )
    for key in raw:
        if key not in _KNOWN:
            terminal.warn(f"{file}: {key} is not known and not used.")
    known = {key: raw[key] for key in _KNOWN if key in raw}
    described = registered.read_entry(known, _ROLES[raw["algoType"]], advisor=raw["algoType"] == "advisor")
    return replace(described, version=__version__)


def _import(target: str) -> None:
    try:
        registry.load(target)
    except Exception as error:  # the user's module may raise any exception
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ClientError(
            f"{target} cannot be imported: {reason}.",
            mend="Install the module in the Python of nnictl, or add its directory to PYTHONPATH.",
        ) from error
