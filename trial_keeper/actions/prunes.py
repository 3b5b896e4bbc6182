"""Deletes checkpoints that are no longer needed, in a thread of its own, because large files take time."""

from __future__ import annotations

import contextlib
import os
import threading

from trial_keeper.actions.files import CHECKPOINTS
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine import disk

if TYPE_CHECKING:
    from typing import Callable

    from trial_keeper.actions.files import Paths
    from trial_keeper.core.effects import Effect, Prune

UNFINISHED = (
    ".new-"  # beginning of the name of a checkpoint that a trial has not completed (nni/_checkpoint.py)
)
LAST_S = 10.0  # longest wait for deletions before the keeper exits


class Prunes:
    """Deletions that are to be made, at most one for each folder. The thread starts with the first one.

    ``done`` is called in that thread with the number of the last deletion that is complete.
    """

    def __init__(self, paths: Paths, done: Callable[[int], None]) -> None:
        self._paths, self._done = paths, done
        self._changed = threading.Condition()
        self._orders: dict[str, Prune] = {}
        self._ended: set[str] = set()  # folders of ended attempts with unfinished checkpoints
        self._number = 0
        self._busy = self._running = False

    def take(self, order: Prune) -> list[Effect]:
        """Delete these checkpoints soon. The order replaces an earlier one for the same folder."""
        with self._changed:
            self._orders[order.directory] = order
            self._number = max(self._number, order.number)
        self._wake()
        return []

    def _wake(self) -> None:
        if not self._running:
            self._running = True
            threading.Thread(target=self._run, name="prune", daemon=True).start()
        with self._changed:
            self._changed.notify_all()

    def tidy(self, directory: str) -> None:
        """Delete the checkpoint that the processes of an ended attempt have not completed, if any."""
        folder = f"{self._paths.folder(directory)}/{CHECKPOINTS}"
        with contextlib.suppress(OSError):
            if any(name.startswith(UNFINISHED) for name in os.listdir(folder)):
                with self._changed:
                    self._ended.add(folder)
                self._wake()

    def finish(self) -> None:
        """Wait until all deletions are complete, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._orders or self._ended or self._busy), LAST_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._orders or self._ended)
                self._busy = True
                orders, self._orders, number = self._orders, {}, self._number
                ended, self._ended = self._ended, set()
            for order in orders.values():
                with contextlib.suppress(OSError):
                    prune(f"{self._paths.folder(order.directory)}/{CHECKPOINTS}", order.up_to, order.keep)
            for folder in ended:
                with contextlib.suppress(OSError):
                    drop_unfinished(folder)
            self._done(number)


def prune(folder: str, up_to: int, keep: list[int]) -> None:
    """Delete the checkpoints in the folder up to number ``up_to``, except those in ``keep``. Raises OSError.

    A checkpoint is renamed before its files are deleted, so that an incomplete one never counts as a
    checkpoint. Files that an unfinished earlier deletion has left are deleted as well.
    """
    if os.path.islink(folder):
        return  # the trial has replaced its folder
    for name in os.listdir(folder):
        path, gone = f"{folder}/{name}", f"{folder}/.gone-{name}"
        if name.isdecimal() and int(name) <= up_to and int(name) not in keep:
            os.rename(path, gone)
            _remove(gone)
        elif name.startswith(".gone-"):
            _remove(path)


def drop_unfinished(folder: str) -> None:
    """Delete the checkpoints in the folder that are not complete. Raises OSError."""
    if not os.path.islink(folder):
        for name in os.listdir(folder):
            if name.startswith(UNFINISHED):
                _remove(f"{folder}/{name}")


def _remove(folder: str) -> None:
    """Remove a folder. What cannot be removed now is left for the next deletion."""
    with contextlib.suppress(OSError):
        disk.remove(folder)
