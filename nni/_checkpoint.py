"""Checkpoints of a trial: its saved state, from which a later attempt continues.

A checkpoint is a folder, ``$NNI_CHECKPOINT_DIR/<number>``. It holds the folder ``folder`` or ``file``, with
what was copied, or the file ``value.bytes`` or ``value.pickle``. The files are durable before the folder gets
its name, and the name is durable before the checkpoint is reported. So a reported checkpoint is whole, even
after a power failure. The report is a frame in the file of metrics, so no call waits for the server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from nni import _trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Union

    Source = Union[str, bytes, dict[str, Any], os.PathLike[str]]

__all__ = ["load_checkpoint", "save_checkpoint", "should_checkpoint"]

FOLDER, FILE, BYTES, PICKLE = "folder", "file", "value.bytes", "value.pickle"
ASKS, SAVE = "asks", "save"  # in the folder .nni of the attempt: see should_checkpoint
STAY = b"stay"  # content of the file SAVE if the trial runs on after the save
_LOOK_S = 0.01

_next_look = 0.0


def save_checkpoint(source: Source, *, step: int | None = None, metric: Any = None) -> bool:
    """Save the state of the trial, so that it can continue from here on after a pause or a failure.

    ``source``: a dict, which is pickled; bytes; or the path of a file or a folder, which is copied. ``step``:
    the trial's own count, for example of its epochs, which is shown to users. ``metric``: an intermediate
    result that belongs to this state. Use it in place of ``nni.report_intermediate_result``: then the result
    and the state are never recorded without each other.

    Return False if nothing was saved: in the processes of a distributed trial other than the first, and
    outside an experiment, unless NNI_CHECKPOINT_DIR is set. Raise OSError, for example if the disk is full;
    the earlier checkpoints are then kept, and ``metric`` is not reported. Raise ValueError for a negative
    ``step``::

        state = nni.load_checkpoint() or {"epoch": 0}
        for epoch in range(state["epoch"], 100):
            ...
            nni.save_checkpoint({"epoch": epoch + 1, "weights": weights}, step=epoch + 1, metric=accuracy)
    """
    return save(source, step=step, metric=metric)


def save(source: Source, *, step: int | None, metric: Any = None, answers: bool = True) -> bool:
    """Save the state, as ``save_checkpoint`` does. ``answers``: whether a pause may follow this save."""
    if step is not None and not 0 <= int(step) < 1 << 63:
        raise ValueError(f"step must be a whole number from 0 up, not {step}")
    folder = os.environ.get("NNI_CHECKPOINT_DIR")
    inside = os.environ.get("NNI_SYS_DIR") is not None
    if folder is None or (inside and _trial.other_rank()):
        if metric is not None:
            _trial.report_intermediate_result(metric)
        return False
    asked = answers and inside and os.path.lexists(_sign(SAVE))
    shown = "null" if step is None else str(int(step))
    new = f"{folder}/.new-{os.getpid()}"
    os.makedirs(folder, exist_ok=True)
    shutil.rmtree(new, ignore_errors=True)
    try:
        os.mkdir(new)
        _write(source, new)
        files, size = _make_durable(new)
        number = 1 + max(_numbers(folder), default=0)
        fields = f'"sequence": {number}, "step": {shown}, "size": {size}, "files": {files}'
        fields += f', "asked": {"true" if asked else "false"}'
        # A metric that cannot be reported is an error before the checkpoint has a name.
        frames = _trial.checkpoint_frames(fields, metric) if inside else []
        os.rename(new, f"{folder}/{number}")
        _flush(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if not inside:
        if metric is not None:
            _trial.report_intermediate_result(metric)
        return True
    _trial.send_checkpoint(frames)
    if asked:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_sign(SAVE))  # the keeper stops the trial now
    return True


def load_checkpoint() -> Any:
    """Return the state from which this attempt continues, or None if it starts from the beginning.

    The state is what ``save_checkpoint`` was given: a dict, bytes, or the path of the file or folder. Do not
    change files at this path; copy them first.
    """
    found = checkpoint_folder()
    if found is None:
        return None
    inside = os.environ.get("NNI_SYS_DIR") is not None
    if inside and os.path.lexists(f"{found}/../../.nni/{ASKS}"):
        _show_that_it_asks()  # the earlier attempt has asked: a pause already waits for this one, too
    if os.path.exists(f"{found}/{PICKLE}"):
        import pickle

        with open(f"{found}/{PICKLE}", "rb") as file:
            return pickle.load(file)  # noqa: S301 - the trial itself has written the file
    if os.path.exists(f"{found}/{BYTES}"):
        with open(f"{found}/{BYTES}", "rb") as file:
            return file.read()
    if os.path.exists(f"{found}/{FILE}"):
        (name,) = os.listdir(f"{found}/{FILE}")
        return f"{found}/{FILE}/{name}"
    return f"{found}/{FOLDER}"


def should_checkpoint() -> bool:
    """Return whether the trial should save its state now, because somebody pauses it, or asks for a save.

    The call is cheap: it looks for a file at most every 10 ms. A trial that calls it between its saves loses
    nothing in a pause: from the first call on, a pause waits for the next ``save_checkpoint``. After that
    the trial is stopped; it may also exit by itself, with code 0. If nobody pauses it, it runs on after the
    save; if it exits all the same, it gets another attempt, which continues there.
    """
    global _next_look
    if os.environ.get("NNI_SYS_DIR") is None:
        return False
    now = time.monotonic()
    if now < _next_look:
        return False
    if not _next_look:
        _show_that_it_asks()
    if os.path.lexists(_sign(SAVE)):
        return True
    _next_look = now + _LOOK_S
    return False


def _show_that_it_asks() -> None:
    """Show the keeper that the trial calls ``should_checkpoint``, so that a pause waits for its save."""
    os.makedirs(os.path.dirname(_sign(ASKS)), exist_ok=True)
    os.close(os.open(_sign(ASKS), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def stays() -> bool:
    """Return whether the trial, which was asked to save its state, runs on after the save."""
    try:
        with open(_sign(SAVE), "rb") as file:
            return file.read() == STAY
    except FileNotFoundError:
        return False


def checkpoint_folder() -> str | None:
    """Return the folder of the checkpoint from which this attempt continues, or None.

    Outside an experiment it is the newest one in NNI_CHECKPOINT_DIR.
    """
    if os.environ.get("NNI_SYS_DIR") is not None:
        return os.environ.get("NNI_RESUME_DIR")
    folder = os.environ.get("NNI_CHECKPOINT_DIR")
    newest = max(_numbers(folder), default=0) if folder is not None else 0
    return f"{folder}/{newest}" if newest else None


def _sign(name: str) -> str:
    return f"{os.environ['NNI_SYS_DIR']}/.nni/{name}"


def _write(source: Source, new: str) -> None:
    """Write the state into the new folder. Raise OSError or TypeError."""
    if isinstance(source, dict):
        import pickle

        with open(f"{new}/{PICKLE}", "wb") as file:
            pickle.dump(source, file, protocol=4)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        with open(f"{new}/{BYTES}", "wb") as file:
            file.write(source)
    elif isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path):
            shutil.copytree(path, f"{new}/{FOLDER}", symlinks=False)
        else:
            os.mkdir(f"{new}/{FILE}")
            shutil.copy2(path, f"{new}/{FILE}/{os.path.basename(path)}")
    else:
        raise TypeError(
            f"save_checkpoint takes a dict, bytes or a path, not {type(source).__name__}: "
            "save other objects to a file first"
        )


def _make_durable(new: str) -> tuple[int, int]:
    """Flush all files of the new folder and make them read-only. Return their number and their bytes."""
    files = size = 0
    for folder, _, names in os.walk(new, topdown=False):
        for name in names:
            fd = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(fd)
                os.fchmod(fd, 0o444)
                files += 1
                size += os.fstat(fd).st_size
            finally:
                os.close(fd)
        os.chmod(folder, os.stat(folder).st_mode | 0o700)  # so that the files can be deleted later
        _flush(folder)
    return files, size


def _numbers(folder: str) -> Iterator[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return iter(())
    return (int(name) for name in names if name.isdecimal())


def _flush(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
