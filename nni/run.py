"""Runs a Python function or class as a trial: ``python3 -m nni.run FILE.py:NAME``, or ``NAME.pickle``.

The file is imported under its own module name, so code below ``if __name__ == "__main__"`` does not run. The
function is called with the trial's parameters, and its return value is the trial's final result::

    def train(parameters, trial):
        for step in trial.steps(30):
            trial.report(train_one_epoch(parameters))

``from nni.run import Trial`` imports the class of the object ``trial``, for type annotations.
"""

from __future__ import annotations

import os
import sys

from nni._running import Trial, run_class, run_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from nni._resident import Worker

__all__ = ["Trial", "main"]

# environment variable that is set while the user's file is imported; nnimgr.tune then refuses to run
IMPORTING = "NNIMGR_IMPORTED_BY_TRIAL"
_STARTERS = ("tune", "start")  # functions of nnimgr that start experiments
_PICKLE = ".pickle"  # end of the name of a file with a function by value
_OURS = tuple(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    for name in ("run.py", "_pickled.py", "_resident.py", "_running.py")
)


def main(worker: Worker | None = None) -> int:
    """Run the function or class that the command line names. Return the exit code of the trial.

    ``worker``: gives further trials of a class to this process. None: the process ends after this trial.
    """
    word = "".join(sys.argv[1:2])
    by_value = word.endswith(_PICKLE)
    file, _, name = (word, "", "train") if by_value else word.rpartition(":")
    if len(sys.argv) != 2 or not (by_value or (file.endswith(".py") and name.isidentifier())):
        sys.stderr.write("usage: python3 -m nni.run FILE.py:NAME or FILE.pickle\n")
        return 2
    if os.environ.get("NNI_PLATFORM") is None:
        sys.stderr.write(
            "nni.run: no experiment has started this command. To try the function alone, call it in Python: "
            f"{name}(parameters), or {name}(parameters, nni.run.Trial(parameters)).\n"
        )
        return 2
    sys.argv = [file]
    try:
        found = _unpickled(file) if by_value else _found(file, name)
        if found is None:
            return 1
        from nni import _trial

        trial = Trial(_trial.get_next_parameter())
        if worker is not None:
            from nni import _resident

            _resident.run(found, trial, worker)
        else:
            (run_class if hasattr(found, "step") else run_function)(found, trial)
    except Exception as error:
        _print_error(error)
        return 1
    return 0


def _found(file: str, name: str) -> Any:
    """Return the function or class of a file. If there is none, write why, and return None."""
    found = getattr(_import_file(file), name, None)
    if not callable(found):
        sys.stderr.write(f"nni.run: {file} defines no function or class {name!r} at its top level.\n")
        return None
    if isinstance(found, type) and not hasattr(found, "step"):
        sys.stderr.write(f"nni.run: the class {name} of {file} has no method 'step'.\n")
        return None
    return found


def _unpickled(file: str) -> Any:
    """Return the function or class that the file has by value. If it cannot be used, write why, and return
    None.
    """
    from nni._pickled import OtherVersions, load

    try:
        return load(file)
    except OtherVersions as error:
        sys.stderr.write(f"nni.run: {error}\n")
        return None


def module_name(file: str) -> tuple[str, str]:
    """Return the directory from which a file is imported, and its module, such as ``pkg.train``."""
    directory, name = os.path.split(os.path.abspath(file))
    name = name[: -len(".py")]
    while os.path.exists(os.path.join(directory, "__init__.py")):
        directory, package = os.path.split(directory)
        name = f"{package}.{name}"
    return directory, name


def _import_file(file: str) -> ModuleType:
    import importlib.util

    directory, name = module_name(file)
    if directory not in map(os.path.abspath, sys.path):
        sys.path.insert(0, directory)
    if importlib.util.find_spec("nnimgr") is None:
        _stand_in()
    os.environ[IMPORTING] = file
    try:
        if "." in name:
            return importlib.import_module(name)
        while name in sys.modules:  # the module of another file
            name = f"_{name}"
        spec = importlib.util.spec_from_file_location(name, os.path.abspath(file))
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        del os.environ[IMPORTING]


class _Absent:
    """Substitute for an object of nnimgr, on a machine where nnimgr is not installed.

    The user's file may define its search space with nnimgr at its top level. Trials do not use it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **named: Any) -> _Absent:
        if self._name.rpartition(".")[2] in _STARTERS:
            raise RuntimeError(
                f"{self._name}() is called when a trial imports this file: put the call under "
                'if __name__ == "__main__":'
            )
        return _Absent(f"{self._name}()")

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")


def _stand_in() -> None:
    """Make ``import nnimgr`` work without nnimgr."""
    from types import ModuleType

    def absent(name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name)

    module: Any = ModuleType("nnimgr")
    module.__getattr__ = absent
    sys.modules["nnimgr"] = module


def _print_error(error: BaseException) -> None:
    """Print the traceback of an error in the user's code, without the lines of this runner."""
    import traceback

    shown = traceback.TracebackException.from_exception(error)
    todo = [shown]
    while todo:
        each = todo.pop()
        each.stack = traceback.StackSummary.from_list(
            [frame for frame in each.stack if not _is_ours(frame.filename)]
        )
        todo += [inner for inner in (each.__cause__, each.__context__) if inner is not None]
    sys.stderr.write("".join(shown.format()))


def _is_ours(file: str) -> bool:
    return file in _OURS or file.startswith("<frozen importlib")


if __name__ == "__main__":
    sys.exit(main())
