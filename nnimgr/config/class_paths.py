"""Checks that a user's class exists, without importing its module: the file is found and parsed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from nnimgr.spelling import nearest

__all__ = ["class_fault"]

_MOST_BYTES = 4 << 20  # a larger file is not parsed
_DYNAMIC = ("globals()", "exec(", "vars()")  # code that may define names which the parser does not see
_MOST_NAMED = 8


def class_fault(class_path: str, code_directory: Path | None) -> str | None:
    """Return why this class certainly does not exist, as a sentence; None if it exists or may exist.

    ``class_path``: "module.Class". The module is looked for where this Python finds modules, and in
    ``code_directory``.
    """
    module, _, name = class_path.rpartition(":" if ":" in class_path else ".")
    if not module or not name:
        return None  # the form of the text is checked elsewhere
    try:
        spec = _found(module, code_directory)
    except (ImportError, ValueError, OSError):
        return None
    if spec is None:
        return _missing(module, code_directory)
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _fault_in_file(Path(spec.origin), module, name)


def _found(module: str, code_directory: Path | None) -> ModuleSpec | None:
    """Return where a module is. No package around it is imported."""
    importlib.invalidate_caches()  # the user may have written the file a moment ago
    first, *rest = module.split(".")
    folders = [] if code_directory is None else [str(code_directory)]
    spec = importlib.util.find_spec(first) or PathFinder.find_spec(first, folders)
    for part in rest:
        if spec is None:
            return None
        inside = list(spec.submodule_search_locations or ())
        spec = PathFinder.find_spec(part, inside)  # the full name would look into imported packages
    return spec


def _missing(module: str, code_directory: Path | None) -> str:
    if code_directory is None:
        return f"there is no installed module {module}; if it is in a folder of your own, give codeDirectory"
    sentence = f"there is no module {module}: neither in {code_directory} nor among the installed packages"
    if "." in module:
        return sentence
    try:
        names = sorted(
            file.removesuffix(".py") for file in os.listdir(code_directory) if file.endswith(".py")
        )
    except OSError:
        return sentence
    return f"{sentence}{_nearest(module, names)}"


def _fault_in_file(file: Path, module: str, name: str) -> str | None:
    """Return why the module in this file has no such class, or None."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        content = file.read_bytes()
        tree = ast.parse(content)
    except SyntaxError as error:
        return f"the module {module} cannot be read: {file}, line {error.lineno}: {error.msg}"
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    names = list(_names(tree.body))
    if name in names or "*" in names or "__getattr__" in names:
        return None
    if any(word.encode() in content for word in _DYNAMIC):
        return None
    classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    known = f"; its classes are {', '.join(classes[:_MOST_NAMED])}" if classes else ""
    return f"the module {module} ({file}) has no class {name}{_nearest(name, classes) or known}"


def _names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module define or import, also inside of ``if`` and ``try``."""
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from (each.id for each in ast.walk(statement) if isinstance(each, ast.Name))
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from _names(getattr(statement, field, ()))
                for handler in getattr(statement, "handlers", ()):
                    yield from _names(handler.body)


def _nearest(word: str, words: Sequence[str]) -> str:
    near = nearest(word, words, cutoff=0.5)
    return "" if near is None else f"; did you mean {near}?"
