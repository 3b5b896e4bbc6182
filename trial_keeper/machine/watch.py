"""Access to inotify and pidfd, with which the kernel reports changes of files and ends of processes.

Python has no modules for inotify, so this module calls the C library. Without inotify, the keeper checks live
attempts every 50 ms, and its status reports this.
"""

from __future__ import annotations

import _ctypes  # the C module, because the package ``ctypes`` around it would cost each keeper 190 KiB
import os
import struct

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable

_MODIFY = 0x2
_ATTRIB = 0x4  # IN_ATTRIB: also reported when a name of the file was removed
_MOVED_TO = 0x80
_DELETE = 0x200
LOST = -1  # IN_Q_OVERFLOW, which has no watch: changes of any file may be lost
_PIDFD_OPEN = 434  # equal on all architectures
_EVENT = struct.Struct("iIII")


class _Library:
    """Handle of the C library, in the form that ``_Function`` needs."""

    _handle = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def _function(name: str) -> Callable[..., int]:
    """Return the function ``name`` of the C library, whose result must be an int. Raises AttributeError."""
    return _Function((name, _Library))  # type: ignore[arg-type]  # ``ctypes`` has a class of its own


class Changed(NamedTuple):
    """Change of a watched file or directory.

    ``watch``: number of the watch; LOST if the kernel has dropped some changes. ``name``: file in a watched
    directory that was moved there or deleted; "" for a change of a watched file. ``removed``: the file was
    deleted, or a watched file has lost one of its names.
    """

    watch: int
    name: str
    removed: bool = False


class Watcher:
    """Inotify instance, which watches files and directories.

    Its descriptor ``fd`` is readable after a change. The constructor raises OSError if the system has no
    inotify.
    """

    def __init__(self) -> None:
        try:
            self.fd = _function("inotify_init1")(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add_watch = _function("inotify_add_watch")
            self._remove_watch = _function("inotify_rm_watch")
        except AttributeError as error:
            raise OSError(38, "the C library knows no inotify") from error
        if self.fd < 0:
            raise _error()

    def watch_file(self, path: str) -> int:
        """Watch a file for writes and for the removal of one of its names. Raises OSError."""
        return self._add(path, _MODIFY | _ATTRIB)

    def watch_directory(self, path: str) -> int:
        """Watch a directory for files that are moved into it or deleted. Raises OSError."""
        return self._add(path, _MOVED_TO | _DELETE)

    def forget(self, watch: int) -> None:
        """End a watch. A watch that has ended already is no error."""
        self._remove_watch(self.fd, watch)

    def changes(self) -> list[Changed]:
        """Return the changes since the last call. Never block."""
        try:
            content = os.read(self.fd, 65536)
        except BlockingIOError:
            return []
        found = []
        at = 0
        while at < len(content):
            watch, mask, _, length = _EVENT.unpack_from(content, at)
            at += _EVENT.size
            name = os.fsdecode(content[at : at + length].rstrip(b"\0"))
            found.append(Changed(watch, name, bool(mask & (_ATTRIB | _DELETE))))
            at += length
        return found

    def _add(self, path: str, mask: int) -> int:
        watch = self._add_watch(self.fd, os.fsencode(path), mask)
        if watch < 0:
            raise _error()
        return watch


def open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process has ended. None: the kernel has no pidfd.

    Raises ProcessLookupError if the process has ended already, OSError if no descriptor is free.
    """
    fd = _function("syscall")(_PIDFD_OPEN, pid, 0)
    if fd >= 0:
        return fd
    error = _error()
    if error.errno in (38, 22, 1):  # ENOSYS: no pidfd; EINVAL and EPERM: a sandbox forbids pidfd
        return None
    raise error


def _error() -> OSError:
    number = _ctypes.get_errno()
    return OSError(number, os.strerror(number))
