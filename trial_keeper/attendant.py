"""Attendant: program on a machine over SSH that starts, ends and watches keepers for the server.

One attendant serves all experiments on its machine over one connection. It reads requests, one JSON object
per line, from standard input and answers on standard output::

    {"no": int, "do": str, ...}   ->   {"no": int, "answer": {...}}  or  {"no": int, "error": one sentence}

    silence  {"seconds"}                      end after this time without a line; not answered
    beat     {}                               the server is alive; not answered
    write    {"directory", "manager"}         replace manager.json (0600) of the keeper in the directory
    keep     {"directory", "path", "environ"} start the keeper unless it runs; answered when it has ended
    end      {"directory", "told"}            end the keeper; answered when it has ended. told: the server has
                                              ordered the keeper to exit, so wait before the keeper is killed
    remove   {"directory", "only_look"}       remove the directory of an experiment whose keeper has ended, or
                                              only report an error if its keeper still runs
    read     {"directory", "folder": [str], "name", "offset", "tail": int | null}
             -> {"offset", "size", "identity", "data": base64}: a piece of a file below the folder, from the
                offset on, or from the start of the last "tail" lines; size and identity are the file's
    list     {"directory", "folder": [str], "after": str | null}
             -> {"files": [[path, bytes, unix seconds]], "more": bool, "complete": bool}: files below the
                folder whose paths sort after "after"; more: ask again for the next files; complete: no file
                is missing from the listing
    facts    {}                               facts of this machine (trial_keeper.machine.facts)
    run      {"words": [str], "text", "seconds"} -> {"code", "output", "errors"}: runs a command of a batch
             system with the text as its input (trial_keeper.batch_commands)
    listen   {"address", "word", "seconds"} -> {"port"}: listens there for this time (trial_keeper.reach)
    reach    {"peers": [[address, port, word]], "seconds"}
             -> {"found": [str | null]}: why this machine cannot reach each of the listening machines

If a file cannot be read, the answer to read or list is {"refused": "missing" | "name", "sentence"}. Only
plain files are read, and links are not followed.

``directory`` is the directory of an experiment, relative to the home directory; the keeper works in its
subfolder ``keeper``. ``path`` is put in front of the keeper's PATH. Keepers are independent processes, which
continue after the attendant has ended.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import importlib.util
import json
import os
import select
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict

from trial_keeper import wire
from trial_keeper.machine import procs, untrusted_files
from trial_keeper.machine.facts import facts
from trial_keeper.machine.programs import tidy
from trial_keeper.machine.removal import remove_folder
from trial_keeper.machine.watch import open_process

LEAVE_S = 5.0  # longest wait for a keeper that was ordered to exit, and again after SIGKILL
LOOK_S = 0.5  # polling interval in seconds for a process whose end the kernel does not report
SILENCE_S = 60.0
LAST_WORDS = 2048
PIECE = 1 << 18  # bytes of a file or a listing in one answer: all experiments share the connection
_TOP = "nni-experiments"

Request = Dict[str, Any]


class Trouble(Exception):
    """Error of a request. The message is one sentence."""


class Process:
    """Process of a keeper. ``child``: the Popen object if this process started the keeper."""

    def __init__(self, pid: int, child: Any = None) -> None:
        self.pid = pid
        self._child = child
        self._start = procs.start_time(pid)

    def wait(self, limit: float | None = None) -> bool:
        """Wait for the keeper's end, at most ``limit`` seconds; return whether the keeper has ended."""
        if self._child is not None:
            import subprocess

            try:
                self._child.wait(limit)
            except subprocess.TimeoutExpired:
                return False
            return True
        try:
            fd = open_process(self.pid)
        except OSError:
            fd = None
        end = None if limit is None else time.monotonic() + limit
        try:
            while self.alive():
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                if fd is None:
                    time.sleep(LOOK_S if left is None else min(LOOK_S, left))
                else:
                    select.select([fd], [], [], left)
        finally:
            if fd is not None:
                os.close(fd)
        return True

    @property
    def code(self) -> int | None:
        """Return the keeper's exit code, negative for a signal.

        Return None if the keeper still runs, or if this attendant has not started it.
        """
        return None if self._child is None else self._child.returncode

    def alive(self) -> bool:
        return self._start is not None and procs.start_time(self.pid) == self._start

    def send(self, number: int) -> None:
        if self.alive():
            procs.signal_all([self.pid], number)


class Attendant:
    """Server of the requests that arrive on standard input.

    ``program``: file from which keepers are started. ``say`` writes a line to standard output, from any
    thread.
    """

    def __init__(self, program: str, home: str, say: Callable[[bytes], None]) -> None:
        self._program = program
        self._home = home
        self._say = say
        self._starting = threading.Lock()
        self._kept: dict[str, tuple[Process, list[int]]] = {}  # by keeper's directory, with waiting requests
        self._ends: dict[str, int] = {}  # by directory: last request to end its keeper
        self._acts: dict[str, Callable[[Request], Any]] = {
            "write": self._write, "keep": self._keep, "end": self._end, "remove": self._remove,
            "read": _or_refused(self._read), "list": _or_refused(self._list), "facts": self._facts,
            "run": _run, "listen": _listen, "reach": _reach,
        }  # fmt: skip

    def take(self, request: Request) -> None:
        """Serve a request in its own thread, so that a hanging disk blocks no other request."""
        if request["do"] == "end":  # recorded before the thread starts, which may overtake an earlier "keep"
            self._ends[request["directory"]] = request["no"]
        threading.Thread(target=self._serve, args=(request,), daemon=True).start()

    def _serve(self, request: Request) -> None:
        number = request["no"]
        try:
            act = self._acts.get(request["do"])
            if act is None:
                raise Trouble(f"this attendant cannot {request['do']}")
            answer = act(request)
        except OSError as error:
            what = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
            self._tell(number, error=f"{what}{error.strerror or error}")
        except (Trouble, KeyError, TypeError, ValueError) as error:
            self._tell(number, error=f"{error}" or type(error).__name__)
        else:
            if answer is not None:
                self._tell(number, answer=answer)

    def _tell(self, number: int, **fields: Any) -> None:
        self._say(json.dumps({"no": number, **fields}).encode() + b"\n")

    def _path(self, request: Request) -> str:
        """Return the path of the experiment's directory that the request names.

        Raise Trouble if the request does not name such a directory.
        """
        parts = str(request["directory"]).split("/")
        if parts[0] != _TOP or len(parts) < 3 or any(part in ("", ".", "..") for part in parts):
            raise Trouble(f"{request['directory']!r} is not the directory of an experiment")
        return os.path.join(self._home, *parts)

    # -- requests

    def _write(self, request: Request) -> Any:
        directory = os.path.join(self._path(request), "keeper")
        if importlib.util.find_spec("_ssl") is None and any(map(_needs_tls, request["manager"]["urls"])):
            raise Trouble(
                f"{sys.executable} was built without TLS, which keepers need to identify their server: "
                "set pythonPath to the directory of another Python"
            )
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = f"{directory}/manager.json"
        own = f"{path}.{os.getpid()}.{threading.get_ident()}"
        try:
            fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(request["manager"], file)
            os.rename(own, path)
        except OSError:
            if os.path.exists(own):
                os.unlink(own)
            raise
        return {}

    def _keep(self, request: Request) -> Any:
        directory = os.path.join(self._path(request), "keeper")
        with self._starting:
            if self._ends.get(request["directory"], 0) > request["no"]:
                raise Trouble("the keeper was ordered to end in the meantime")
            found = find(directory)
            kept = self._kept.get(directory)
            if found is not None and kept is not None and kept[0].pid == found.pid and kept[0].alive():
                kept[1].append(request["no"])
                return None
            process = found if found is not None else self._start(directory, request)
            waiting = [request["no"]]
            self._kept[directory] = process, waiting
        process.wait()
        with self._starting:
            if self._kept.get(directory, (None,))[0] is process:
                del self._kept[directory]
        for number in waiting:
            self._tell(number, answer=_fate(process, directory))
        return None

    def _start(self, directory: str, request: Request) -> Process:
        import subprocess

        os.makedirs(directory, mode=0o700, exist_ok=True)
        environ = {**os.environ, **request.get("environ", {})}
        if request.get("path"):
            path = os.path.expanduser(request["path"])
            environ["PATH"] = f"{path}:{environ.get('PATH', os.defpath)}"
        log = os.open(f"{directory}/keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                [sys.executable, "-S", "-E", self._program, directory],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environ,
                start_new_session=True,
            )
        finally:
            os.close(log)
        return Process(child.pid, child)

    def _end(self, request: Request) -> Any:
        directory = os.path.join(self._path(request), "keeper")
        for number in (None, signal.SIGKILL):
            process = self._found(directory)
            if process is None:
                return {}
            if number is not None:
                process.send(number)
            elif not request["told"]:
                continue
            if process.wait(LEAVE_S):
                return {}
        raise Trouble("the keeper does not end, not even when it is killed")

    def _found(self, directory: str) -> Process | None:
        """Return the running keeper of a directory, even a new keeper that does not hold the lock yet."""
        with self._starting:
            process = find(directory)
            if process is None and directory in self._kept and self._kept[directory][0].alive():
                process = self._kept[directory][0]
            return process

    def _remove(self, request: Request) -> Any:
        directory = self._path(request)
        if find(f"{directory}/keeper") is not None:
            raise Trouble(
                f"{directory} is not removed: its keeper still runs, and exits some time after its last trial"
            )
        if request.get("only_look"):
            return {}
        end = time.monotonic() + LEAVE_S
        while os.path.exists(directory) and not _removed(directory, last=time.monotonic() > end):
            time.sleep(LOOK_S / 10)
        while True:  # also remove parent folders that are empty now
            directory = os.path.dirname(directory)
            if os.path.dirname(directory) == self._home:
                return {}
            try:
                os.rmdir(directory)
            except OSError:
                return {}

    def _read(self, request: Request) -> Any:
        root = self._there(request)
        with contextlib.closing(untrusted_files.PlainFile(root, _folder(request), request["name"])) as file:
            if request["tail"] is None:
                offset = request["offset"]
                file.seek(offset)
            else:
                offset = file.seek_tail(request["tail"])
            data = base64.b64encode(file.read(PIECE)).decode("ascii")
            return {"offset": offset, "size": file.size, "identity": file.identity, "data": data}

    def _list(self, request: Request) -> Any:
        found, complete = untrusted_files.list_files(self._there(request), _folder(request))
        after = request["after"]
        page: list[untrusted_files.Listed] = []
        size = 0
        for entry in found:
            if after is None or entry.path > after:
                size += len(json.dumps(entry))
                if page and size > PIECE:
                    return {"files": page, "more": True, "complete": complete}
                page.append(entry)
        return {"files": page, "more": False, "complete": complete}

    def _there(self, request: Request) -> str:
        directory = self._path(request)
        if not os.path.isdir(directory):
            raise Trouble(f"there is no ~/{request['directory']} any more")
        return directory

    def _facts(self, request: Request) -> Any:
        return facts(os.path.join(self._home, _TOP))


def _run(request: Request) -> Any:
    from trial_keeper import batch_commands  # only for clusters

    return batch_commands.run(request["words"], request["text"], request["seconds"])


def _listen(request: Request) -> Any:
    from trial_keeper import gang_line, reach  # only for one check

    try:
        return {"port": reach.listen(request["address"], request["word"], request["seconds"])}
    except gang_line.LineError as error:
        raise Trouble(str(error)) from error


def _reach(request: Request) -> Any:
    from trial_keeper import reach

    return {"found": reach.reach(request["peers"], request["seconds"])}


def _needs_tls(url: str) -> bool:
    return url.startswith("https:")


def _folder(request: Request) -> list[str]:
    return untrusted_files.check_path("/".join(request["folder"]))


def _or_refused(act: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Wrap a request so that missing files and bad names give a "refused" answer instead of an error."""

    def refuse(request: Request) -> Any:
        try:
            return act(request)
        except FileNotFoundError as error:
            return {"refused": wire.MISSING, "sentence": f"{error}"}
        except ValueError as error:
            return {"refused": wire.BAD_NAME, "sentence": f"{error}"}

    return refuse


def find(directory: str) -> Process | None:
    """Return the running keeper of this directory; None if no keeper runs there.

    This is the process that was started for the directory and has the directory's lock file open.
    """
    lock = os.path.realpath(f"{directory}/lock")
    for pid in procs.all_pids():
        if procs.strings(pid, "cmdline")[-1:] == [directory] and _has_open(pid, lock):
            return Process(pid)
    return None


def _removed(directory: str, *, last: bool) -> bool:
    """Try to remove a directory; return False if a process, such as a compiler, still writes there."""
    try:
        remove_folder(directory)
    except OSError as error:
        if last or error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise
        return False
    return True


def _has_open(pid: int, path: str) -> bool:
    """Return whether the process ``pid`` has the file ``path`` open.

    A lock file is open in the keeper only, not in the other processes that the keeper has forked.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:  # the process has ended, or belongs to another user
        return False
    return any(_target(f"/proc/{pid}/fd/{name}") == path for name in names)


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:  # the file was closed in the meantime
        return None


def _fate(process: Process, directory: str) -> dict[str, Any]:
    """Return a keeper's exit code, if known, and the last line of its log if the keeper failed."""
    failed = bool(process.code)
    return {"code": process.code, "said": _last_words(f"{directory}/keeper.log") if failed else None}


def _last_words(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_WORDS))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return None
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def cut_connection() -> None:
    """End the sshd process that serves this attendant's connection, because the server no longer answers.

    Without this, the forwarded port and the keepers' calls would hang for hours until the kernel gives up.
    """
    for pid in procs.ancestors(os.getpid()):
        title = " ".join(procs.strings(pid, "cmdline"))
        if title.startswith("sshd") and "@" in title:
            procs.signal_all([pid], signal.SIGTERM)
            return


def run(program: str) -> None:
    """Serve requests until standard input ends or is silent for too long."""
    saying = threading.Lock()

    def say(line: bytes) -> None:
        with saying:
            try:
                while line:
                    line = line[os.write(1, line) :]
            except OSError:  # the server is gone, so standard input ends too
                return

    threading.Thread(target=tidy, args=(program,), daemon=True).start()
    attendant = Attendant(program, os.path.expanduser("~"), say)
    silence = SILENCE_S
    content = b""
    while True:
        if not select.select([0], [], [], silence)[0]:
            cut_connection()
            break
        chunk = os.read(0, 1 << 16)
        if not chunk:
            break
        *lines, content = (content + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["do"] == "silence":
                silence = float(request["seconds"])
            elif request["do"] != "beat":
                attendant.take(request)
    os._exit(0)  # at once: threads may still wait
