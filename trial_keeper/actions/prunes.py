"""Deletes checkpoints that are no longer needed, in a thread of its own, because large files take time."""

from __future__ import annotations

import contextlib
import os
import threading
from _queue import SimpleQueue

from trial_keeper.actions.files import CHECKPOINTS
from trial_keeper.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from trial_keeper.actions.files import Paths
    from trial_keeper.core.effects import Effect, Prune


class Prunes:
    """Queue of deletions. The thread starts with the first one."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._orders: SimpleQueue[Prune] = SimpleQueue()
        self._running = False

    def take(self, order: Prune) -> list[Effect]:
        """Delete these checkpoints soon."""
        if not self._running:
            self._running = True
            threading.Thread(target=self._run, name="prune", daemon=True).start()
        self._orders.put(order)
        return []

    def _run(self) -> None:
        while True:
            order = self._orders.get()
            with contextlib.suppress(OSError):  # the next order for the folder names these checkpoints again
                prune(f"{self._paths.folder(order.directory)}/{CHECKPOINTS}", order.up_to, order.keep)


def prune(folder: str, up_to: int, keep: list[int]) -> None:
    """Delete the checkpoints in the folder up to number ``up_to``, except those in ``keep``. Raises OSError.

    A checkpoint is renamed before its files are deleted, so that an incomplete one never counts as a
    checkpoint. Files that an unfinished earlier deletion has left are deleted as well.
    """
    import shutil  # most keepers never need it

    if os.path.islink(folder):
        return  # the trial has replaced its folder
    for name in os.listdir(folder):
        path, gone = f"{folder}/{name}", f"{folder}/.gone-{name}"
        if name.isdecimal() and int(name) <= up_to and int(name) not in keep:
            os.rename(path, gone)
            shutil.rmtree(gone, ignore_errors=True)
        elif name.startswith(".gone-"):
            shutil.rmtree(path, ignore_errors=True)
