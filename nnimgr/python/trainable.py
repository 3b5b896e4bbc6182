"""What a trial runs: a command, or a Python function or class that is found by its file and name.

Trials import the function's file, so the file's folder is the code of the trials. With ``ship="pickle"`` they
get the function by value instead (``pickling.py``).
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from nnimgr.python.captures import captured, named
from nnimgr.python.errors import ArgumentError, Error
from nnimgr.python.options import SHIPS, Ship

if TYPE_CHECKING:
    from nnimgr.python.pickling import Pickled

__all__ = [
    "Trainable",
    "Work",
    "check_command",
    "check_guard",
    "check_reset",
    "refuse_inside_a_trial",
    "work_of",
]

Trainable = str | Callable[..., Any]
IMPORTING = "NNIMGR_IMPORTED_BY_TRIAL"  # set by nni.run while it imports the user's file

_MODULE = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
_FILE = re.compile(r"(\S.*\.py):([A-Za-z_]\w*)")
_MOST_NAMES = 5
_BY_VALUE = 'Or pass ship="pickle": then it is sent by value, with what it uses.'
_ELSEWHERE = (
    'Put it at the top level of a .py file, and pass it as "FILE.py:NAME", or import it from there. '
    f"What it uses from outside must be in that file, or in its parameters. {_BY_VALUE}"
)


class Work(NamedTuple):
    """Command of the trials, and the folder with their code.

    ``target``: FILE:NAME of a function or class for ``nni.run``. None: ``command`` is complete. ``pickled``:
    the function or class by value, which becomes a file of the experiment's own folder.
    """

    directory: Path
    command: str = ""
    target: str | None = None
    pickled: Pickled | None = None

    def command_for(self, python: str) -> str:
        """Return the trials' command. ``python``: the interpreter that runs a function or class."""
        if self.target is None:
            return self.command
        return f"{shlex.quote(python)} -m nni.run {shlex.quote(self.target)}"


def work_of(trial: Trainable, *, ship: Ship = "path") -> Work:
    """Return what trials run. Raise ArgumentError if a function cannot be found by its file and name.

    With ``ship`` "pickle", the function is pickled now. Raise ArgumentError if that is not possible.
    """
    if ship not in SHIPS:
        raise ArgumentError(f"ship: unknown value {ship!r} (valid: {', '.join(SHIPS)})")
    if any(map(_is_async, (trial, type(trial).__call__))):  # a call of an object may be async, too
        function = getattr(trial, "func", trial)  # of functools.partial
        raise ArgumentError(_async_refusal(getattr(function, "__name__", "trial"), ""))
    if ship == "pickle":
        from nnimgr.python.pickling import pickled

        by_value = pickled(trial)
        return Work(Path.cwd(), target=by_value.file, pickled=by_value)
    if not isinstance(trial, str):
        return _of_callable(trial)
    if found := _FILE.fullmatch(trial):
        file = Path(found[1]).absolute()
        if not file.is_file():
            raise ArgumentError(f"trial: there is no file {file}")
        return _of_file(file, found[2])
    if found := _MODULE.fullmatch(trial):
        return _of_file(_file_of(found[1]), found[2])
    return Work(Path.cwd(), command=trial)


def check_command(trial: Trainable) -> None:
    """Raise ArgumentError if the trial is one word that is not a command of this machine.

    Users who mean a function may pass its name instead.
    """
    if isinstance(trial, str) and trial.isidentifier() and shutil.which(trial) is None:
        raise ArgumentError(
            f"trial: {trial!r} is read as a command, and there is no such command. To run a function, pass "
            f'the function itself ({trial}, without quotation marks), or "FILE.py:{trial}".'
        )


def check_reset(trial: Trainable) -> None:
    """Raise ArgumentError if the trial is a function, or a class without the method ``reset``."""
    if not isinstance(trial, str) and not (isinstance(trial, type) and hasattr(trial, "reset")):
        name = getattr(trial, "__qualname__", repr(trial))
        lack = "has no method reset" if isinstance(trial, type) else "is no class"
        raise ArgumentError(
            f"resident: needs a class with the methods step and reset as the trial, and {name} {lack}: write "
            "reset(self, parameters), or leave resident out"
        )


def refuse_inside_a_trial() -> None:
    """Raise Error if a trial imports the user's file at this moment.

    Each trial would start an experiment of its own.
    """
    file = os.environ.get(IMPORTING)
    if file is not None:
        raise Error(_unguarded(file))


def check_guard(work: Work) -> None:
    """Raise ArgumentError if the trials would start the experiment again when they import their file.

    This is so if the file itself starts the experiment, in a line that runs at every import.
    """
    if work.target is None or work.pickled is not None:
        return
    file = work.directory / work.target.rpartition(":")[0]
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _same(frame.f_code.co_filename, file):
            if not _is_guarded(file, frame.f_lineno):
                raise ArgumentError(f"{file}:{frame.f_lineno}: {_unguarded(str(file))}")
        frame = frame.f_back


def _unguarded(file: str) -> str:
    return (
        f"{os.path.basename(file)} starts an experiment whenever it is imported, and its trials import it. "
        'Put the call under: if __name__ == "__main__":'
    )


def _is_guarded(file: Path, line: int) -> bool:
    for node in ast.parse(file.read_bytes()).body:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
    return True


def _of_callable(trial: Callable[..., Any]) -> Work:
    name = getattr(trial, "__qualname__", None)
    module = sys.modules.get(getattr(trial, "__module__", None) or "")
    if name is None or module is None:
        raise ArgumentError(
            f"trial: {trial!r} is neither a command, nor a function or class. "
            + (
                f"Write a function that calls it, at the top level of a .py file. {_BY_VALUE}"
                if callable(trial)
                else "Pass the function itself, and not what a call of it returns"
            )
        )
    if name == "<lambda>":
        raise ArgumentError(f"trial: a lambda cannot be found by name{_captures(trial)}. {_ELSEWHERE}")
    if "<locals>" in name:
        raise ArgumentError(
            f"trial: {name.rpartition('.')[2]} is defined inside another function{_captures(trial)}. "
            f"{_ELSEWHERE}"
        )
    if "." in name:
        raise ArgumentError(
            f"trial: {name} is a method{_captures(trial)}. Write a function that calls it, or pass the "
            f"class. {_BY_VALUE}"
        )
    if isinstance(trial, type) and not hasattr(trial, "step"):
        raise ArgumentError(
            f"trial: the class {name} has no method 'step', which is called until its last step"
        )
    if isinstance(trial, type) and hasattr(trial, "save") and not hasattr(trial, "load"):
        raise ArgumentError(
            f"trial: the class {name} has the method 'save', but no 'load', which gets back what was saved. "
            "Add load(self, state)"
        )
    file = _source(module)
    if file is None and isinstance(trial, BuiltinFunctionType):
        raise ArgumentError(
            f"trial: {name} is built into Python and has no .py file. Write a function that calls it, at the "
            "top level of a .py file"
        )
    if file is None:
        raise ArgumentError(
            f"trial: {name} is defined in a notebook or at a prompt, and not in a file{_captures(trial)}. "
            f"{_ELSEWHERE}"
        )
    if vars(module).get(name) is not trial:
        raise ArgumentError(
            f"trial: the name {name} in {file} means something else than the object that was passed. "
            "Give the function a name of its own in its file."
        )
    return _of_file(file, name)


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _async_refusal(name: str, where: str) -> str:
    return f"trial: {name}{where} is an async function; write a function that calls asyncio.run({name}(...))"


def _source(module: ModuleType) -> Path | None:
    """Return the file of a module, or None if the module was not read from a .py file."""
    named = getattr(module, "__file__", None) or ""
    return Path(named).absolute() if named.endswith(".py") and os.path.isfile(named) else None


def _file_of(module: str) -> Path:
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ArgumentError(
            f"trial: there is no module {module} with a .py file. Pass FILE.py:NAME, or start Python in the "
            "folder from which the module can be imported"
        )
    return Path(spec.origin)


def _of_file(file: Path, name: str) -> Work:
    names, likely, coroutines = _top_level(file)
    if name in coroutines:
        raise ArgumentError(_async_refusal(name, f" in {file}"))
    if name not in names and "*" not in names:
        defined = ", ".join(likely[:_MOST_NAMES]) or "no function and no class"
        raise ArgumentError(f"trial: {file} defines no {name} at its top level (it defines: {defined})")
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return Work(root, target=f"{file.relative_to(root)}:{name}")


def _top_level(file: Path) -> tuple[set[str], list[str], list[str]]:
    """Return the names that a file may define at its top level, its functions and classes among them, and its
    async functions.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ArgumentError(f"trial: {file} cannot be read: {error}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    defined = list(_definitions(tree.body))
    likely = [node.name for node in defined if not isinstance(node, ast.AsyncFunctionDef)]
    coroutines = [node.name for node in defined if isinstance(node, ast.AsyncFunctionDef)]
    return {*names, *likely}, likely, [name for name in coroutines if name not in likely]


def _definitions(body: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the functions and classes of a module, also those in an ``if``, ``try`` or ``with``."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(ast.iter_child_nodes(node))


def _captures(trial: Callable[..., Any]) -> str:
    """Return which names a function uses from outside, as a part of a sentence."""
    names = list(captured(trial))
    return f", and uses {named(names)} from there" if names else ""


def _same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
