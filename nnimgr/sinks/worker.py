"""Process of one sink. The server starts it, and tells it how far the experiment has come.

Its standard input has one JSON object, what to write and where, and then one number for each commit of the
experiment. At the end of the input it writes what is left, and ends. Its standard output has one JSON object
for each thing that the server should know: ``number`` (written up to there), ``waits`` or ``failed``.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from nnimgr.child import name_process
from nnimgr.sink import Sink, SinkError
from nnimgr.sinks.reading import EventSource
from nnimgr.spelling import error_text

__all__ = ["loaded", "main"]


def main() -> None:
    """Run the sink that standard input names until the input ends. Exit with status 1 after an error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what libraries print goes to the log
    name_process("nnimgr-sink")
    start = json.loads(sys.stdin.readline())
    progress = _Progress(sys.stdin, server=start["server"], closing_s=start["closing_s"])
    try:
        _run(start, progress, out)
    except SinkError as error:
        _say(out, failed=str(error))
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        _say(out, failed=error_text(error))
        sys.exit(1)


def loaded(target: str, arguments: Mapping[str, Any], code: str | None) -> Sink:
    """Return the sink "module:Class" with these arguments. ``code``: folder of its module.

    Raise SinkError.
    """
    if code is not None:
        sys.path.insert(0, code)
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SinkError(f"the sink {target} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Sink)):
        raise SinkError(f"{target} is not a sink: it must be a subclass of nnimgr.sink.Sink")
    try:
        return found(**arguments)
    except TypeError as error:
        raise SinkError(f"the sink {target} does not take these arguments: {error}") from error


class _Progress:
    """Newest number on standard input, which a thread reads, so that a slow sink skips to it.

    If the server (pid ``server``) was killed, the process ends ``closing_s`` seconds later, even if its sink
    hangs.
    """

    def __init__(self, stream: TextIO, *, server: int, closing_s: float) -> None:
        self._server, self._closing_s = server, closing_s
        self._changed = threading.Condition()
        self._number, self._ended = 0, False
        threading.Thread(target=self._read, args=(stream,), daemon=True, name="progress").start()

    def after(self, number: int) -> int | None:
        """Wait for a number above ``number``, and return it. None: the input has ended without one."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._ended)
            return self._number if self._number > number else None

    def _read(self, stream: TextIO) -> None:
        for line in stream:
            with self._changed:
                self._number = int(line)
                self._changed.notify()
        with self._changed:
            self._ended = True
            self._changed.notify()
        while os.getppid() == self._server:  # a server that lives ends a sink that hangs
            time.sleep(1)
        time.sleep(self._closing_s)
        os._exit(1)


def _run(start: Mapping[str, Any], progress: _Progress, out: TextIO) -> None:
    directory = Path(start["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    sink = loaded(start["target"], start["arguments"], start["code"])
    with (directory / ".lock").open("w") as lock:
        _lock(lock, out)
        source = EventSource(start["database"], start["experiment"])
        try:
            _follow(sink, sink.open(source.experiment(directory)), source, progress, out)
        finally:
            source.close()
        sink.close()


def _follow(sink: Sink, written: int, source: EventSource, progress: _Progress, out: TextIO) -> None:
    """Write all events up to the newest number, again and again until the input ends."""
    if written > (last := source.last_number):
        raise SinkError(
            f"event {written} is written, but the experiment has only {last} events: its database was "
            "replaced by an older one. Remove what the sink has written, to have everything written again"
        )
    seen = 0
    while (number := progress.after(seen)) is not None:
        for events in source.batches(after=written, up_to=number):
            sink.write(events)
            written = events[-1].number
            _say(out, number=written)
        seen = number
        _say(out, number=number)


def _lock(lock: TextIO, out: TextIO) -> None:
    """Wait until no other process writes for this sink. The process of a killed server may still do so."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say(out, waits="an earlier process of this sink still writes")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _say(out: TextIO, **said: Any) -> None:
    """Tell the server something. A server that was killed reads nothing any more."""
    try:
        out.write(json.dumps(said, ensure_ascii=False) + "\n")
        out.flush()
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main()
