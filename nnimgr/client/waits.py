"""Sentences about long waits, so that no command is silent.

They go to standard error, because standard output is for results.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from nnimgr.client.errors import ClientError
from nnimgr.client.lines import fitted
from nnimgr.spelling import capital

__all__ = ["awaited", "say", "waiting"]

TELL_S = 1.0  # seconds before the first sentence, and between two looks whether it has changed


@contextlib.contextmanager
def waiting(sentence: str | Callable[[], str]) -> Iterator[None]:
    """While the block runs, print the sentence after a second, and again once it has changed.

    ``sentence``: text without a full stop, or a function that returns this text ("": print nothing). If the
    function raises ClientError or OSError, no more is printed, because the block will report the error.
    """
    over = threading.Event()

    def tell() -> None:
        said = ""
        while not over.wait(TELL_S):
            try:
                fresh = sentence if isinstance(sentence, str) else sentence()
            except (ClientError, OSError):
                return
            if fresh and fresh != said and not over.is_set():
                said = fresh
                say(f"{capital(fresh.rstrip('.'))}.")

    teller = threading.Thread(target=tell, name="waiting", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join(TELL_S)


def awaited(pieces: Iterator[bytes], sentence: str) -> Iterator[bytes]:
    """Yield the pieces. Print the sentence if the first piece takes longer than a second."""
    with waiting(sentence):
        first = next(pieces, b"")
    yield first
    yield from pieces


def say(sentence: str) -> None:
    """Print the sentence now."""
    with contextlib.suppress(OSError):  # the reader of standard error has gone
        sys.stderr.write(fitted(sys.stderr, f"INFO: {sentence}") + "\n")
        sys.stderr.flush()
