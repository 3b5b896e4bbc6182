"""Reports changes of a server's experiments to clients, to the index file and to NNI's log files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from nnimgr.core.managing.change_feed import Changes
from nnimgr.core.managing.experiment_log import note_status
from nnimgr.core.managing.index_notes import Draining, IndexNotes, nni_status
from nnimgr.core.managing.supervision import Held
from nnimgr.rules.facts import ExperimentStatus as E
from nnimgr.rules.state import ExperimentState

__all__ = ["Activity"]


class Activity:
    """Reports changes of experiments: to clients through ``changes``, and to the index file through
    ``notes``.

    ``used``: True once a request has opened or changed an experiment. Before that, an idle server does not
    exit.
    """

    def __init__(self, notes: IndexNotes, *, server_log: Path) -> None:
        self.changes = Changes()
        self.used = False
        self._notes, self._server_log = notes, server_log
        self._changed = asyncio.Event()

    async def wait_idle(self, idle: Callable[[], bool]) -> None:
        """Wait until a request has opened or changed an experiment, and ``idle`` returns True.

        ``idle`` is called after each change of an experiment.
        """
        while not self.used or not idle():
            self._changed.clear()
            await self._changed.wait()

    def opened(self) -> None:
        """Note that a request has opened an experiment, whose status may never change again."""
        self.used = True
        self._changed.set()

    def changed(self, experiment_id: str) -> None:
        """Notify clients that an experiment without a runner has changed."""
        self.used = True
        self._changed.set()
        self.changes.tell(experiment_id, 0)

    def ended(self, held: Held) -> None:
        """Notify clients that the runner of an experiment has ended.

        An experiment whose database was deleted gets the status STOPPED in the index.
        """
        if held.deleted:
            self._notes.note(held.id, status=E.STOPPED.value, ended_at=None)
        self.changes.tell(held.id, held.number)
        self._changed.set()

    def turned(self, held: Held, state: ExperimentState) -> None:
        """Report the new state of an experiment after a turn (one pass of its runner's loop).

        The end of an experiment is written to the index file only after its keepers (the agents beside the
        trials) have left. If the server is killed before that, the index still says that the experiment runs,
        and the next server opens it.
        """
        if held.number != state.number:
            held.number = state.number
            self.changes.tell(state.id, state.number)
        awaits = held.runner is not None and held.runner.awaits_silent
        if (held.status, held.awaits_silent) == (state.status, awaits):
            return
        if held.status is not state.status:
            note_status(held.directory, state, server_log=self._server_log)
        held.status, held.awaits_silent = state.status, awaits
        self._changed.set()
        status = nni_status(state.status, state.drain)
        if awaits:  # the next server has to stop the trials on silent machines
            status = (Draining.USER if state.status is E.STOPPED else Draining.BUDGET).value
        self._notes.note(state.id, status=status, ended_at=state.ended_at)
