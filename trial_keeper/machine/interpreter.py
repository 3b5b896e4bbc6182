"""Finds out in the background whether the Python interpreter of the trials can import ``nni``.

If it cannot, the files of our trial API are written to ``<directory>/sdk``, which trials get in PYTHONPATH.
Normally the first trial that imports them compiles them for all others. Under PYTHONDONTWRITEBYTECODE each
trial would spend 4 ms on that, so this module compiles the files then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import trial_keeper
from trial_keeper.log import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

_QUESTION = "import importlib.util,sys; sys.exit(importlib.util.find_spec('nni') is None)"
_COMPILE = "import py_compile,sys; [py_compile.compile(path) for path in sys.argv[1:]]"
FIRST_COMMAND = "NNIMGR_FIRST_COMMAND"  # variable with the command of the first trial, if it is known
RETRY_S = 1.0
SLOW_S = 2.0  # seconds after which users are told what the trials wait for
LIMIT_S = 10.0
LINE_BYTES = 256  # longest first line of a program that Linux reads
_RUN_THE_REST = ("env", "exec")  # words that are followed by the program
SDK = {  # file to write -> our file with its content
    **{
        name: name
        for name in (
            "__init__.py",
            "_checkpoint.py",
            "_log.py",
            "_pickled.py",
            "_resident.py",
            "_running.py",
            "_space.py",
            "_trace.py",
            "_trial.py",
            "_values.py",
            "checkpoint.py",
            "run.py",
            "trial.py",
        )
    },
    "utils.py": "_merge.py",
}


class Interpreters:
    """Results of the checks whether interpreters can import ``nni``, one check per interpreter.

    ``changed``, which may be set later, is called from another thread when a check has a result, or takes so
    long that users should know.
    """

    def __init__(self, directory: str, changed: Callable[[], None] = lambda: None) -> None:
        self._sdk = f"{directory}/sdk"
        self.changed = changed
        self._troubles: dict[str | None, str] = {}
        # interpreter -> whether it can import nni; None: not known yet. The key None stands for a missing
        # interpreter, for which nothing is added to PYTHONPATH.
        self._answers: dict[str | None, bool | None] = {None: True}
        self._found: dict[str, str | None] = {}
        # begin before the first start: with the trials' interpreter if it is known, else with the usual ones
        foreseen = os.environ.get(FIRST_COMMAND)
        for command in ("python", "python3") if foreseen is None else (foreseen,):
            self._ask(self.interpreter(command))

    def ready(self, command: str) -> bool:
        """Return whether the check of this command's interpreter has a result.

        Begin the check if necessary.
        """
        interpreter = self.interpreter(command)
        self._ask(interpreter)
        return self._answers[interpreter] is not None

    def trouble(self, command: str) -> str | None:
        """Return a sentence that explains why the command must still wait for its check; None: no problem."""
        return self._troubles.get(self.interpreter(command))

    def path_for(self, command: str) -> str | None:
        """Return the folder to add to this command's PYTHONPATH; None if its interpreter has ``nni``."""
        return None if self._answers[self.interpreter(command)] else self._sdk

    def interpreter(self, command: str) -> str | None:
        """Return the path of the interpreter at the beginning of the command, or of the one that runs the
        program there, such as ``torchrun``. Otherwise return that of ``python3``. Variables that the command
        sets come before its program, as in ``OMP_NUM_THREADS=4 python train.py``.
        """
        word, rest = _first_word(command)
        while word in _RUN_THE_REST or "=" in word:
            word, rest = _first_word(rest)
        if word not in self._found:
            self._found[word] = _find(word if _names_python(os.path.basename(word)) else _runs(word))
        return self._found[word]

    def _ask(self, interpreter: str | None) -> None:
        if interpreter in self._answers:
            return
        self._answers[interpreter] = None
        threading.Thread(target=self._probe, args=(interpreter,), name="probe", daemon=True).start()

    def _probe(self, interpreter: str) -> None:
        has = _can_import(interpreter, lambda: self._take_long(interpreter))
        while not has:
            try:
                lay_down(self._sdk)
                break
            except OSError as error:
                sentence = f"{self._sdk}, which nni is imported from, cannot be written: {error.strerror}"
                if self._troubles.get(interpreter) != sentence:
                    complain(f"{sentence}; it is tried again")
                    self._troubles[interpreter] = f"the start had to wait because {sentence}"
                    self.changed()
                time.sleep(RETRY_S)
        self._answers[interpreter] = has
        self.changed()
        if not has and os.environ.get("PYTHONDONTWRITEBYTECODE"):
            _run(interpreter, _COMPILE, *(f"{self._sdk}/nni/{name}" for name in SDK))

    def _take_long(self, interpreter: str) -> None:
        self._troubles[interpreter] = (
            f"the start had to wait because {interpreter} did not report in time whether it can import nni"
        )
        self.changed()


def program() -> str:
    """Return the path to run this package with: its folder, or the zip file that contains it."""
    folder = os.path.dirname(os.path.abspath(str(trial_keeper.__file__)))
    archive = os.path.dirname(folder)
    return archive if os.path.isfile(archive) else folder


def lay_down(directory: str) -> None:
    """Write the files of our trial API into ``directory`` as the package ``nni``. Raises OSError."""
    spec = trial_keeper.__spec__
    loader = spec.loader if spec is not None else None
    assert loader is not None and hasattr(loader, "get_data")
    source = os.path.join(os.path.dirname(os.path.dirname(str(trial_keeper.__file__))), "nni")
    for folder in (directory, f"{directory}/nni"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)  # parent folders are not created, because a user may have moved them away
    for name, ours in SDK.items():
        # Several keepers may write the files at the same time.
        own = f"{directory}/nni/{name}.{os.getpid()}.{threading.get_ident()}"
        with open(own, "wb") as file:
            file.write(loader.get_data(os.path.join(source, ours)))
        os.rename(own, f"{directory}/nni/{name}")


def _first_word(command: str) -> tuple[str, str]:
    """Return the first word of a command, python3 if it has none, and what comes after it."""
    words = command.split(None, 1)
    return (words[0] if words else "python3"), (words[1] if len(words) > 1 else "")


def _names_python(name: str) -> bool:
    """Return whether the name is python, python3, python3.11 or similar.

    Other names belong to other programs.
    """
    return name.startswith("python") and not name[len("python") :].strip("0123456789.")


def _runs(word: str) -> str:
    """Return the Python that the first line of the program ``word`` names, or else ``python3``."""
    path = _which(word)
    try:
        with open(path or os.devnull, "rb") as file:
            line = os.fsdecode(file.readline(LINE_BYTES))
    except OSError:
        line = ""
    words = line[2:].split() if line.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
    return words[0] if words and _names_python(os.path.basename(words[0])) else "python3"


def _can_import(interpreter: str, slow: Callable[[], None]) -> bool:
    """Run the interpreter and return whether it can import ``nni``. No result in time counts as True."""
    return _run(interpreter, _QUESTION, slow=slow) in (0, None)


def _run(
    interpreter: str, program: str, *arguments: str, slow: Callable[[], None] = lambda: None
) -> int | None:
    """Run a Python program with ``interpreter``, and return its wait status.

    Return None if it cannot be run or has not ended after LIMIT_S; an interpreter that cannot be run also
    fails in the trial, which reports it. ``slow`` is called if the program takes longer than SLOW_S.
    """
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    argv = [interpreter, "-c", program, *arguments]
    try:
        pid = os.posix_spawn(interpreter, argv, os.environ, file_actions=quiet, setpgroup=0)
    except OSError:
        return None
    # wait without reaping: until waitpid below, no other process can get this pid
    waiter = threading.Thread(
        target=os.waitid, args=(os.P_PID, pid, os.WEXITED | os.WNOWAIT), name="wait", daemon=True
    )
    waiter.start()
    waiter.join(SLOW_S)
    if waiter.is_alive():
        slow()
        waiter.join(LIMIT_S - SLOW_S)
    if not waiter.is_alive():
        return os.waitpid(pid, 0)[1]
    os.killpg(pid, signal.SIGKILL)
    waiter.join(1.0)
    os.waitpid(pid, os.WNOHANG)
    return None


def _which(word: str) -> str | None:
    """Return the path of the program that a shell would run; None if there is no such program.

    ``shutil.which`` does the same, but its module would load compression libraries into every keeper.
    """
    folders = [""] if os.path.dirname(word) else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, word) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def _find(word: str) -> str | None:
    """Return the path of the interpreter ``word``; None if there is no such program.

    If the folder also has this interpreter under the name python3, that path is returned. So each interpreter
    is checked only once.
    """
    found = _which(word)
    if found is None:
        return None
    folder = os.path.dirname(found)
    plain = os.path.join(folder, "python3")
    same = os.path.exists(plain) and os.path.realpath(plain) == os.path.realpath(found)
    return plain if same else found
