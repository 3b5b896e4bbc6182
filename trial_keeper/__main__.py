"""``trial-keeper <directory>``: run the keeper of one experiment on this host, unless it already runs.

``<directory>`` is ``<the experiment's directory>/keeper``. With the option ``--foreground``, the log goes to
standard output, not into a file in ``<directory>``. ``trial-keeper wrap ...`` runs as process 1 of a
container (see ``trial_keeper.wrap``), and ``trial-keeper guard ...`` as the process of a job (see
``trial_keeper.guard``). A keeper runs ``trial-keeper warm ...``, ``trial-keeper resident ...``
or ``trial-keeper warm_crew ...`` with the trials' interpreter (see the modules of these names).

This process forks the spawner, which in turn forks one shim per attempt. The spawner is forked before most
imports, because every module that is loaded by then stays in the memory of every shim.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import sys

if not __package__:  # run as a folder: make the package importable instead of its modules
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from trial_keeper import spawner
from trial_keeper.machine.encoding import use_utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = 2
_PRELOADING = ("warm", "resident", "warm_crew")


def main() -> NoReturn:
    """Run the keeper; exit with status 0 at once if another keeper serves the directory."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] not in _PRELOADING:  # those run code of users, in their locale
        use_utf8()
    if len(arguments) == 3 and arguments[0] in ("wrap", "guard"):
        from trial_keeper import wrap

        if arguments[0] == "guard":
            from trial_keeper import guard  # pods do not need it

            guard.run(lambda: wrap.run(arguments[1], arguments[2], keep))
        wrap.run(arguments[1], arguments[2], keep)
    if len(arguments) == 6 and arguments[0] in _PRELOADING:
        run = importlib.import_module(f"trial_keeper.{arguments[0]}").run
        requests, failures, wake = map(int, arguments[1:4])
        run(requests, failures, wake, arguments[4].split(","))
    foreground = arguments[:1] == ["--foreground"]
    if len(arguments) != 1 + foreground or arguments[-1].startswith("-"):
        sys.stderr.write(
            "usage: trial-keeper [--foreground] <directory of the experiment's keeper>\n"
            "       trial-keeper wrap|guard <folder of manager.json> <the experiment's directory>\n"
        )
        sys.exit(USAGE)
    keep(os.path.abspath(arguments[-1]), foreground=foreground)


def keep(directory: str, *, foreground: bool) -> NoReturn:
    """Run the keeper of this directory, or exit at once if the directory has a keeper."""
    try:
        # create no parent folders, because a user may have moved them away for a while
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    lock = os.open(f"{directory}/lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(0)
    _detach(directory, lock, None if foreground else f"{directory}/keeper.log")
    wake = _wake(f"{directory}/wake")
    requests, ask = os.pipe2(os.O_CLOEXEC)
    failures, report = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            for fd in (lock, ask, failures):
                os.close(fd)
            # where only one attempt comes, a rehearsal would cost more than it saves
            alone = os.environ.get("NNIMGR_ONE_ATTEMPT")
            spawner.run(requests, report, wake, None if alone else f"{directory}/rehearsal")
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)
    os.close(requests)
    os.close(report)
    from trial_keeper.machine.interpreter import Interpreters

    interpreters = Interpreters(directory)  # the first checks run while the other modules are imported
    from trial_keeper import keeper

    keeper.run(directory, keeper.Pipes(ask, failures, wake, child), interpreters)


def _detach(directory: str, lock: int, log: str | None) -> None:
    """Start a new session, close inherited descriptors and redirect the output to the file ``log``.

    If ``log`` is None, the output stays on standard output. The process also changes to ``directory``, so
    that relative paths still work if a user moves the folder.
    """
    try:
        os.setsid()
    except PermissionError:
        pass  # this process is the leader of its process group already
    os.chdir(directory)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    if log is not None:
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600), 1)
    os.dup2(1, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != lock:
            try:
                os.close(int(name))
            except OSError:
                continue  # this descriptor belongs to the listing itself


def _wake(path: str) -> int:
    """Open the named pipe ``path``, through which shims wake the keeper, and return its descriptor.

    The pipe has a name, so that shims that an earlier keeper started can use it too.
    """
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        pass
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


if __name__ == "__main__":
    main()
