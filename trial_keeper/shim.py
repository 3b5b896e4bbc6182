"""The shim: parent process of one attempt's command. It works even if the keeper and the server do not run.

The shim claims the attempt, so that it runs only once, starts the command, and copies its output to files. It
flushes the metrics to disk. It stops the command on SIGTERM (the grace is in a file beside the claim file) or
when the lease has expired. At the end, the shim kills the remaining processes and writes how the command
ended into the claim file. The shim is a sub-reaper, which becomes the parent of every orphaned descendant. So
a shim without children has no descendants.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import sys
import time

from trial_keeper.attempt import claim
from trial_keeper.log import CappedLog, complain
from trial_keeper.machine import cgroup, procs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trial_keeper.attempt.deadline import Deadline

_SHELLS = ("/bin/bash", "/bin/sh")
SHELL = next((path for path in _SHELLS if os.access(path, os.X_OK)), None)
DEFAULT_GRACE_S = 10.0
GIVE_UP_S = 10.0  # a process that survives SIGKILL for this time hangs in the kernel, and is reported by pid
RETRY_S = 1.0
LAST_FLUSH_PAUSE_S = 8.0
LAST_WORDS = 16384  # bytes at the end of stderr to search for its last line
SHOWN = 300  # longest shown part of the last line, in bytes
NOT_CLAIMED = 255  # exit status (or an errno) of a shim that could not prepare and claim its attempt

RESET = [  # signals that a command gets with their default action
    _signal.SIGHUP, _signal.SIGINT, _signal.SIGPIPE, _signal.SIGTERM, _signal.SIGCHLD, _signal.SIGXFSZ,
]  # fmt: skip

_FILES = ("stdout", "stderr", "parameter.cfg", claim.METRICS)
_FOLDERS = (".nni", "")
_PREFIX, _LEASE, _CHANGES = 7, 8, 9  # indices of fields
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_LONGEST_NOTICE = 4096  # most bytes that a pipe accepts atomically
_SIGKILL = _signal.SIGKILL  # a shell exits with this number + 128 if its command was killed


def main(
    fields: list[bytes],
    environ: dict[bytes, bytes],
    wake: int,
    inherited: tuple[int, ...],
    subreaper: Callable[[], None],
    kind: Callable[[list[bytes], int], Shim],
) -> None:
    """Run one attempt in this process, which was just forked by the spawner, and exit. Never returns.

    ``fields``: the request for the attempt, see ``spawner``. ``wake``: descriptor of the pipe to the keeper.
    ``kind``: makes the shim.
    """
    status = NOT_CLAIMED
    try:
        shim = kind(fields, wake)
        os.setsid()
        subreaper()
        shim.take_signals(inherited)
        shim.run(environ)
        status = 0
    except OSError as error:
        status = error.errno or NOT_CLAIMED
        complain(f"shim: {error}")
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)


def foresee(fields: list[bytes]) -> None:
    """Import the module that this attempt's shim will need, before the fork, so that shims share it."""
    if fields[_LEASE]:
        _deadline(fields[_LEASE])


def rehearse(directory: str, environ: dict[bytes, bytes]) -> None:
    """Run the shell command ``:`` in this process in the way a shim does, as a rehearsal before any fork.

    The run fills the interpreter's caches, which saves each shim 150 KiB of memory. ``directory`` is created
    for the run and removed. SIGCHLD must have a handler. At the end, Python's wake-up descriptor for signals
    is reset.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    prefix = f"{directory}/own."
    fields = [b"", b"", directory.encode(), b":", b"/", b"", b"0", prefix.encode(), b"", b"A=b", b"BASH_ENV"]
    shim = Shim(fields, null)
    try:
        shim.take_signals(())
        shim.run(dict(environ))
    except OSError:  # for example a full disk, which the attempts will report
        pass
    finally:
        shim.close()
        for path in (*(f"{directory}/{name}" for name in _FILES), claim.path(prefix), prefix + claim.STREAM):
            _try(os.unlink, path)
        for name in _FOLDERS:
            _try(os.rmdir, f"{directory}/{name}")


def _deadline(path: bytes) -> Deadline:
    from trial_keeper.attempt.deadline import Deadline

    return Deadline(path)


def uptime() -> float:
    """Return the seconds since the boot, on a clock that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Shim:
    """Shim of one attempt. ``fields``: the request, see ``spawner``. ``wake``: see ``main``."""

    __slots__ = (
        "_beat", "_boot", "_booted_at", "_cap", "_changes", "_claim", "_command", "_cwd", "_directory",
        "_dropped", "_flush_at", "_flush_pause", "_flushed", "_give_up_at", "_job", "_kill_at", "_lapsed",
        "_lease", "_lines", "_logs", "_main", "_metrics", "_oom_kills", "_parameter", "_pause", "_poll",
        "_prefix", "_pulse", "_status", "_stderr", "_stopping", "_unwritten", "_wake",
    )  # fmt: skip

    def __init__(self, fields: list[bytes], wake: int) -> None:
        self._job, boot, directory, self._command, self._cwd, self._parameter, cap = fields[:_PREFIX]
        lease = fields[_LEASE]
        self._changes = fields[_CHANGES:]
        self._boot = boot.decode()
        self._directory = directory.decode("utf-8", "surrogateescape")
        self._prefix = fields[_PREFIX].decode("utf-8", "surrogateescape")
        self._cap = int(cap)
        self._lease = _deadline(lease) if lease else None
        self._lapsed = False
        self._booted_at = time.time() - uptime()  # fixed here, because the clock may be set later
        self._wake = wake
        self._pulse = self._beat = -1
        self._claim = -1
        self._lines = self._unwritten = b""  # lines of the claim, and those that a full disk still lacks
        self._metrics = -1
        self._main = 0
        self._oom_kills = 0  # out-of-memory kills in the control group before the command's start
        self._status: int | None = None
        self._stopping = False
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._pause = 0.01
        self._flushed = 0
        self._flush_at = 0.0
        self._flush_pause = 1.0
        self._logs: dict[int, CappedLog] = {}
        self._stderr: CappedLog | None = None
        self._dropped = 0
        self._poll = select.poll()

    def take_signals(self, inherited: tuple[int, ...]) -> None:
        """Close inherited descriptors. Direct signals into a pipe, before the claim names this process."""
        self._pulse, self._beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.set_wakeup_fd(self._beat, warn_on_full_buffer=False)
        for fd in inherited:
            os.close(fd)
        self._poll.register(self._pulse, select.POLLIN)

    def run(self, environ: dict[bytes, bytes]) -> None:
        """Claim the attempt, run its command and record its end. Do nothing if another shim has the claim."""
        self._prepare()
        if self._lease is not None and self._lease.over():
            raise OSError(self._lease.OVER, "the lease has elapsed")
        me = os.getpid()
        self._lines = f"shim {me} {procs.start_time(me)} {self._boot}\n".encode()
        fd = claim.take(self._prefix, self._lines)
        if fd is None:
            self._lines = b""
            self._notify()  # the keeper may not know the claim yet, and has to read the claim file
            return
        self._claim = fd
        if self._lease is not None and self._lease.over():
            self._lapsed = True
            self._seal()
            self._notify()
            return
        try:
            self._start(environ)
        except (OSError, ValueError) as error:
            self._append(
                f"failed {self._booted_at + uptime():.6f} {_sentence(error)}\n".encode(errors="replace")
            )
        else:
            up = uptime()
            self._append(f"started {self._main} {self._booted_at + up:.6f} {up:.6f}\n".encode(), later=True)
            self._notify()
            self._watch()
            self._seal()
        self._notify()

    def close(self) -> None:
        """Close the descriptors that ``run`` leaves open."""
        _signal.set_wakeup_fd(-1)
        for fd in list(self._logs):
            self._close(fd)
        if self._stderr is not None:
            self._stderr.close()
        for fd in (self._pulse, self._beat, self._claim, self._metrics, self._wake):
            if fd >= 0:
                os.close(fd)

    def _prepare(self) -> None:
        """Create the attempt's files before it is claimed, because a failed start can be retried until then.

        An earlier attempt of the trial may have left any files in the trial's folder.
        """
        directory = self._directory
        for path in (directory, f"{directory}/.nni", os.path.dirname(self._prefix)):
            _make(path)
        self._metrics = _open_metrics(self._prefix + claim.STREAM, f"{directory}/{claim.METRICS}")
        path = f"{directory}/parameter.cfg"
        try:
            _write(path, os.O_EXCL, self._parameter)
        except FileExistsError:  # from another shim, perhaps incomplete: replace the file by the same text
            new = f"{directory}/.nni/parameter.{os.getpid()}"
            _write(new, os.O_TRUNC, self._parameter)
            os.rename(new, path)

    def _start(self, environ: dict[bytes, bytes]) -> None:
        if SHELL is None:
            raise ValueError(f"there is neither {' nor '.join(_SHELLS)} here to run the command")
        change_environ(environ, self._changes)
        outputs = []
        for stream in ("stdout", "stderr"):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reader, False)
            log = self._logs[reader] = CappedLog(f"{self._directory}/{stream}", self._cap)
            self._poll.register(reader, select.POLLIN)
            outputs.append(writer)
        self._stderr = log
        self._oom_kills = cgroup.oom_kills()
        here = os.open(".", os.O_PATH | os.O_CLOEXEC)  # the keeper's folder, whose path may change
        try:
            os.chdir(self._cwd)
            self._main = self._execute(environ, outputs)
        finally:
            os.fchdir(here)
            for fd in (here, *outputs):
                os.close(fd)
        self._flush_at = time.monotonic() + self._flush_pause

    def _execute(self, environ: dict[bytes, bytes], outputs: list[int]) -> int:
        """Start the command in the current directory, and return its pid.

        ``outputs``: descriptors of its standard output and standard error.
        """
        assert SHELL is not None
        return os.posix_spawn(
            SHELL, (SHELL, b"-c", self._command), environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(outputs, 1)],
            setsid=True, setsigmask=[], setsigdef=RESET,
        )  # fmt: skip

    def _watch(self) -> None:
        """Copy output and handle stops until all processes of the command have ended or cannot be killed."""
        while not self._reap():
            now = time.monotonic()
            if self._lease is not None and self._lease.over():
                self._lapse(now)
            if self._status is not None and not self._stopping and self._kill_at is None:
                self._kill_at = now  # the command ended by itself: its children get no grace
            if self._kill_at is not None and now >= self._kill_at and not self._kill(now):
                return
            if now >= self._flush_at:
                self._flush(now)
            due = self._flush_at if self._kill_at is None else min(self._flush_at, self._kill_at)
            if self._lease is not None:
                due = min(due, now + self._lease.LOOK_S)
            for fd, _ in self._poll.poll(max(0.0, due - now) * 1000 + 1):
                if fd == self._pulse:
                    if _signal.SIGTERM in os.read(fd, 512):
                        self._stop(now)
                else:
                    self._drain(fd)

    def _reap(self) -> bool:
        """Reap ended children; return whether no child is left, which means that no descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._main:
                self._status = status

    def _drain(self, fd: int) -> bool:
        """Read the command's output from this pipe once; return whether there was any."""
        read = self._logs[fd].read_from(fd)
        if read is None:
            self._poll.unregister(fd)
            self._close(fd)
        return bool(read)

    def _close(self, fd: int) -> None:
        os.close(fd)
        log = self._logs.pop(fd)
        self._dropped += log.dropped
        if log is not self._stderr:  # the last line of stderr is read at the end
            log.close()

    def _lapse(self, now: float) -> None:
        """End the command, because its lease has expired, within the grace of the lease."""
        assert self._lease is not None
        grace = self._lease.grace()
        self._lease = None
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, now + grace)
        elif self._status is None:
            self._lapsed = True
            self._terminate(now, grace)

    def _stop(self, now: float) -> None:
        """Stop the command by order of the keeper, unless it is being stopped already or has ended."""
        if not self._stopping and self._status is None:
            self._terminate(now, _grace(self._prefix))

    def _terminate(self, now: float, grace: float) -> None:
        """Send SIGTERM to the command and all descendants, and schedule SIGKILL after the grace."""
        self._stopping = True
        self._kill_at = now + grace
        # The command gets SIGTERM first: finding its descendants in /proc can take milliseconds.
        procs.signal_all([self._main], _signal.SIGTERM)
        rest = [pid for pid in procs.descendants(os.getpid()) if pid != self._main]
        procs.signal_all(rest, _signal.SIGTERM)

    def _kill(self, now: float) -> bool:
        """Send SIGKILL to all remaining descendants; return False if they still run after GIVE_UP_S."""
        if self._give_up_at is None:
            self._give_up_at = now + GIVE_UP_S
        elif now >= self._give_up_at:
            return False
        procs.signal_all(procs.descendants(os.getpid()), _signal.SIGKILL)
        self._kill_at = now + self._pause
        self._pause = min(0.2, self._pause * 2)
        return True

    def _flush(self, now: float) -> None:
        """Flush the metrics file to disk if it has grown; check less often, the longer it has not grown."""
        if self._unwritten and self._put():
            self._notify()  # a keeper that was started meanwhile has not heard of these lines
        size = os.fstat(self._metrics).st_size
        if size > self._flushed:
            self._flushed = size
            self._flush_pause = 1.0
            try:
                os.fdatasync(self._metrics)
            except OSError as error:
                complain(f"shim: the metrics in {self._directory} could not be flushed to disk: {error}")
        else:
            self._flush_pause = min(LAST_FLUSH_PAUSE_S, self._flush_pause * 2)
        self._flush_at = now + self._flush_pause

    def _seal(self) -> None:
        """Read the rest of the command's output, and write the end of the command into the claim file."""
        for fd in list(self._logs):
            while self._drain(fd):
                continue
            if fd in self._logs:  # a surviving process holds the other end
                self._close(fd)
        status = self._status
        code = None if status is None or os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
        survivors = () if self._give_up_at is None else tuple(procs.descendants(os.getpid()))
        message = f"{self._dropped} bytes of output could not be written" if self._dropped else ""
        if code and not self._stopping:
            message = message or _last_words(self._stderr)
        killed = not self._stopping and _SIGKILL in (number, (code or 0) - 128)
        out_of_memory = killed and cgroup.oom_kills() > self._oom_kills
        if out_of_memory:
            message = cgroup.out_of_memory()
        unreached = (
            bool(code) and not self._stopping and os.path.exists(f"{self._directory}/{claim.UNREACHED}")
        )
        self._append(
            claim.Exit(
                code, number, os.fstat(self._metrics).st_size,
                signalled=self._stopping, lapsed=self._lapsed, out_of_memory=out_of_memory,
                unreached=unreached, at=self._booted_at + uptime(), survivors=survivors,
                message=message).line()
        )  # fmt: skip

    def _append(self, line: bytes, *, later: bool = False) -> None:
        """Append a line to the claim file. On a full disk, retry here; with ``later``, ``_flush`` retries."""
        self._lines += line
        self._unwritten += line
        while not self._put() and not later:
            self._notify()  # at once, so that the keeper does not wait for the disk
            time.sleep(RETRY_S)

    def _put(self) -> bool:
        """Write the lines that the claim file lacks; return False if the disk is full."""
        if claim.extend(self._claim, self._unwritten, self._directory):
            self._unwritten = b""
        return not self._unwritten

    def _notify(self) -> None:
        """Send the keeper the job id and the content of the claim file, which the trial may have deleted."""
        text = self._lines.rstrip(b"\n").replace(b"\n", claim.SEPARATOR.encode())
        notice = b"%s %s\n" % (self._job, text)
        try:
            os.write(self._wake, notice if len(notice) <= _LONGEST_NOTICE else self._job + b"\n")
        except OSError:  # no keeper reads: the next keeper looks at every attempt
            return


def change_environ(environ: dict[bytes, bytes], changes: list[bytes]) -> None:
    """Make these changes of the environment: NAME=value, or NAME to unset a variable."""
    for change in changes:
        name, equals, value = change.partition(b"=")
        if equals:
            environ[name] = value
        else:
            environ.pop(name, None)


def _last_words(stderr: CappedLog | None) -> str:
    """Return the last line of the command's stderr; "" if stderr is empty."""
    line = stderr.last_line(LAST_WORDS) if stderr is not None else b""
    return line[:SHOWN].decode(errors="replace")


def _try(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:  # the file or folder does not exist
        return


def _make(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)


def _open_metrics(own: str, theirs: str) -> int:
    """Open the metrics file, with hard links in the keeper's folder (``own``) and the trial's (``theirs``).

    If the folders are on different disks, the file is in the trial's folder only.
    """
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
    metrics = os.open(own, flags, 0o644)
    try:
        try:
            os.link(own, theirs)
        except FileExistsError:
            if not os.path.samestat(os.lstat(theirs), os.fstat(metrics)):
                os.unlink(theirs)
                os.link(own, theirs)
    except OSError as error:
        os.close(metrics)
        if error.errno not in _CANNOT_LINK:
            raise
        os.unlink(own)
        return os.open(theirs, flags, 0o644)
    return metrics


def _write(path: str, flag: int, content: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | flag, 0o644)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)


def _grace(prefix: str) -> float:
    try:
        fd = os.open(prefix + claim.STOP, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return float(os.read(fd, 64))
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return DEFAULT_GRACE_S


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error).replace("\n", " ")
