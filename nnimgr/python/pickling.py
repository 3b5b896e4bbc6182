"""Functions and classes that are sent to their trials by value, for ``ship="pickle"``.

cloudpickle makes the bytes, and only the trial loads them (``nni/_pickled.py``). They are in one file, after
a line of JSON about the versions. cloudpickle's own source files are beside it, because loading needs
cloudpickle, and the machine of the trial may not have it.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from nnimgr.python.captures import captured, named
from nnimgr.python.errors import ArgumentError

__all__ = ["Pickled", "pickled"]

MOST_BYTES = 10 << 20
_MOST_SHOWN = 5
_LOADED_BY_US = frozenset({"cloudpickle", "nni", "nnimgr", "training_services", "trial_keeper"})
_INSTALLED = ("site-packages", "dist-packages")
_MOST_SOURCE = 1 << 20  # largest number of characters of source text that a pickle has for tracebacks
_NO_FILE = "<dynamic-code>"  # what cloudpickle writes in place of the names of files


class Pickled(NamedTuple):
    """Function or class as bytes. ``file``: the name of its file. ``header``: what its trial compares."""

    file: str
    header: Mapping[str, Any]
    content: bytes

    def write(self, directory: Path) -> None:
        """Write the file and cloudpickle's source files into the folder, and flush them to the disk.

        The file is replaced in one step, because trials of the experiment may be starting.
        """
        import cloudpickle

        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        library = directory / str(self.header["cloudpickle"])
        if not library.is_dir():
            fresh = directory / f".cloudpickle.{os.getpid()}"
            (fresh / "cloudpickle").mkdir(parents=True, exist_ok=True)
            for source in Path(str(cloudpickle.__file__)).parent.glob("*.py"):
                _write_durably(fresh / "cloudpickle" / source.name, source.read_bytes())
            with contextlib.suppress(OSError):  # another program was faster
                fresh.replace(library)
            shutil.rmtree(fresh, ignore_errors=True)
        new = directory / f".{self.file}.{os.getpid()}"
        _write_durably(new, json.dumps(self.header).encode() + b"\n" + self.content)
        new.replace(directory / self.file)
        _flush(directory)


def pickled(trial: Any) -> Pickled:
    """Return the function or class by value. Raise ArgumentError if it cannot be pickled or is too large."""
    name = _name_of(trial)
    if not callable(trial):
        raise ArgumentError(
            f'ship: "pickle" is for functions and classes, and trial is {trial!r}. Leave ship out.'
        )
    if isinstance(trial, type) and not hasattr(trial, "step"):
        raise ArgumentError(
            f"trial: the class {name} has no method 'step', which is called until its last step"
        )
    try:
        import cloudpickle
    except ImportError:
        raise ArgumentError('ship: "pickle" needs the library cloudpickle: pip install cloudpickle') from None
    content, used = _dumped(trial, name)
    header = {
        "name": name,
        "python": platform.python_version(),
        "cloudpickle": f"cloudpickle-{cloudpickle.__version__}",
        "libraries": dict(_versions(used.modules)),
        "sources": dict(_sources(used.files)),
    }
    return Pickled(f"{name}.pickle", header, content)


def _name_of(trial: Any) -> str:
    """Return the last part of the object's name, as a name of a file."""
    function = getattr(trial, "func", trial)  # of functools.partial
    name = str(getattr(function, "__name__", None) or type(function).__name__)
    return re.sub(r"\W", "", name)


def _write_durably(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- the bytes --------------------------------------------------------------------------------------------


class _TooLarge(Exception):
    """Error: the pickle exceeds the limit."""


class _Sink:
    """File that counts the written bytes, and keeps them up to a limit. It refuses the bytes above."""

    def __init__(self, limit: int | None) -> None:
        self.size = 0
        self._limit = limit
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        size = memoryview(piece).nbytes
        self.size += size
        if self._limit is not None:
            if self.size > self._limit:
                raise _TooLarge
            self._pieces.append(bytes(piece))
        return size

    @property
    def content(self) -> bytes:
        return b"".join(self._pieces)


class _Used(NamedTuple):
    """What is in a pickle. ``modules``: those of its objects. ``files``: those of its functions."""

    modules: set[str]
    files: Collection[str]


def _dumped(trial: Callable[..., Any], name: str) -> tuple[bytes, _Used]:
    """Return the pickle, and what is in it, with only the modules that its trial will import."""
    with _Registered() as mine:
        while True:
            sink = _Sink(MOST_BYTES)
            try:
                used = _dump(trial, sink)
            except _TooLarge:
                raise ArgumentError(_too_large(trial, name)) from None
            except Exception as error:  # user classes may raise anything when they are pickled
                raise ArgumentError(_not_picklable(trial, name, error)) from error
            if not mine.add(used.modules):
                return sink.content, used._replace(modules=used.modules - mine.names)


class _Registered:
    """Context in which objects of the user's own modules are pickled by value.

    Other machines do not have these modules. Installed modules are imported there instead.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._ours: list[ModuleType] = []

    def __enter__(self) -> _Registered:
        return self

    def __exit__(self, *error: object) -> None:
        import cloudpickle

        for module in self._ours:
            cloudpickle.unregister_pickle_by_value(module)

    def add(self, names: set[str]) -> bool:
        """Register those modules that are the user's own. Return whether one of them is new."""
        import cloudpickle

        fresh = {name for name in names - self.names if _is_own(name)}
        for name in fresh - set(cloudpickle.list_registry_pickle_by_value()):
            cloudpickle.register_pickle_by_value(sys.modules[name])
            self._ours.append(sys.modules[name])
        self.names |= fresh
        return bool(fresh)


def _dump(value: Any, sink: _Sink) -> _Used:
    """Pickle a value into the sink, with the names of files for tracebacks. Return what is in the pickle."""
    import cloudpickle

    modules: set[str] = set()
    files: dict[str, None] = {}  # in the order in which they are needed

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # the library has no types
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, CodeType):
                files[obj.co_filename] = None
                make, parts = self.dispatch_table[CodeType](obj)
                return make, tuple(obj.co_filename if part == _NO_FILE else part for part in parts)
            if isinstance(obj, ModuleType):
                modules.add(obj.__name__)
            elif isinstance(obj, type | FunctionType | BuiltinFunctionType | MethodType):
                modules.add(str(getattr(obj, "__module__", None)))
            else:
                modules.add(type(obj).__module__)
            return super().reducer_override(obj)

    Pickler(sink).dump(value)
    needed = {
        name
        for name in modules
        if name in sys.modules
        and name != "__main__"
        and name.partition(".")[0] not in sys.stdlib_module_names | _LOADED_BY_US
    }
    return _Used(needed, files)


def _is_own(name: str) -> bool:
    """Return whether a module is the user's own: it was read from a file that no installer has put there."""
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and not _is_installed(file)


def _is_installed(file: str) -> bool:
    return any(part in _INSTALLED for part in Path(file).parts)


# ---- errors -----------------------------------------------------------------------------------------------


def _too_large(trial: Callable[..., Any], name: str) -> str:
    sizes: dict[str, int] = {}
    for captured_name, value in captured(trial).items():
        sink = _Sink(None)
        with contextlib.suppress(Exception):  # what cannot be pickled alone has no size
            _dump(value, sink)
        sizes[captured_name] = sink.size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_MOST_SHOWN]
    shown = ", ".join(f"{each} ({_mib(size)})" for each, size in largest) or "nothing by name"
    return (
        f"trial: the pickle of {name} is larger than {_mib(MOST_BYTES)}, the limit. The largest objects "
        f"that it captures: {shown}. Let the function read large data from a file or a service instead."
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 16 else f"{size:,} bytes"


def _not_picklable(trial: Callable[..., Any], name: str, error: Exception) -> str:
    bad = []
    for captured_name, value in captured(trial).items():
        try:
            _dump(value, _Sink(None))
        except Exception:
            bad.append(captured_name)
    because = f", because of {named(bad)}" if bad else ""
    return (
        f"trial: {name} cannot be pickled{because}: {type(error).__name__}: {error}. "
        "Create such objects inside the function instead."
    )


# ---- the header -------------------------------------------------------------------------------------------


def _versions(modules: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the installed libraries that have these modules, with their versions."""
    from importlib import metadata

    distributions: Mapping[str, list[str]] | None = None
    for top in sorted({name.partition(".")[0] for name in modules}):
        try:
            yield top, metadata.version(top)
        except metadata.PackageNotFoundError:
            if distributions is None:
                distributions = metadata.packages_distributions()  # it reads all installed libraries
            for distribution in distributions.get(top, ())[:1]:
                yield distribution, metadata.version(distribution)


def _sources(files: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of the user's files and notebook cells, so that tracebacks can show their lines."""
    left = _MOST_SOURCE
    for file in files:
        text = "" if _is_installed(file) else "".join(linecache.getlines(file))
        if 0 < len(text) <= left:
            left -= len(text)
            yield file, text
