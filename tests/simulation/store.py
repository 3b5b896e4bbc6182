"""Simulated database of the experiment: a list of facts that survives, a lock, and a slow writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.state import ExperimentState, Touched, trial_of_job
from nnimgr.store.errors import StoreError, StoreLocked
from nnimgr.store.high_water import HighWater
from nnimgr.store.rows import Row, read_snapshot, snapshot_row
from tests.simulation.kernel import Kernel
from tests.simulation.witness import Witness

COMMIT_CRASH = 0.004
GATHERED_CRASH = 0.2  # probability after the commit that lets a gang run, before its members are told
SLOW = 0.06  # probability of a slow disk
SLOW_CRASH = 0.15  # probability of a crash while the disk is slow


class Store:
    """Content of the disk; ``holder``: the writer with the lock; ``placed`` is called with each trial."""

    def __init__(self, kernel: Kernel, witness: Witness, placed: Callable[[str], None]) -> None:
        self.kernel, self.witness, self._placed = kernel, witness, placed
        self.log: list[f.Recorded] = []
        self.m_epoch = 0
        self.mark: HighWater | None = None  # stored in its own file
        self.holder: SimWriter | None = None
        self.writing = False  # a turn is being written to the disk
        self._ends: list[int] = []  # number of facts after each turn
        self._snapshot: tuple[int, Row] | None = None  # number of its last fact, and its row

    def commit(self, state: ExperimentState, turn: Sequence[f.Recorded]) -> None:
        self.log += turn
        self._ends.append(len(self.log))
        self.m_epoch = state.m_epoch
        self.mark = HighWater(state.number, state.m_epoch, state.next_sequence)
        self.witness.log.committed(turn)
        for recorded in turn:
            if isinstance(recorded.fact, f.JobPlaced):
                self._placed(trial_of_job(recorded.fact.job_id)[0])

    def lose_power(self) -> None:
        """Do nothing: all committed facts survive power loss."""

    def restore_older(self) -> None:
        """Replace the database by an older copy."""
        if lost := self.cut(self.kernel.random.randint(1, 40)):
            self.kernel.fault("older database", "store", "%d facts are gone", lost)
            self._snapshot = None

    def cut(self, facts: int) -> int:
        """Remove the last turns, with at least so many facts, but not the first turn. Return their facts."""
        before = len(self.log)
        while len(self._ends) > 1 and before - len(self.log) < facts:
            self._ends.pop()
            del self.log[self._ends[-1] :]
        if lost := before - len(self.log):
            self.m_epoch = self.fold().m_epoch
            self.witness.log.replay(self.log)
        return lost

    def fold(self) -> ExperimentState:
        """Return the state that results from the log."""
        state = ExperimentState()
        for recorded in self.log:
            apply(state, recorded)
            state.take_touched()
        return state

    def open(self) -> ExperimentState:
        """Return the state as the product does: from the latest snapshot and the later facts."""
        state = None
        if self._snapshot is not None:
            row = self._snapshot[1]
            state = read_snapshot([(row[1], row[2], row[3])])
        state = state or ExperimentState()
        for recorded in self.log[state.number :]:
            apply(state, recorded)
            state.take_touched()
        return state

    def save(self, state: ExperimentState) -> None:
        """Keep a snapshot, as a clean close does."""
        self._snapshot = (state.number, snapshot_row(state))


class SimWriter:
    """``ExperimentWriter``'s interface on the store. ``die`` ends the server that uses it."""

    def __init__(self, store: Store, die: Callable[[str], None]) -> None:
        self._store, self._kernel, self._die = store, store.kernel, die
        self.path = Path("/db/nnimgr.sqlite")
        self.db_id = "db"
        self.m_epoch = 0
        self.missing: HighWater | None = None
        self._closed = False

    async def open(self) -> ExperimentState:
        """Take the lock and return the state. Raises StoreLocked."""
        if self._store.holder is not None:
            raise StoreLocked("the experiment is open in another server")
        self._store.holder = self
        self.m_epoch = self._store.m_epoch + 1
        state, mark = self._store.open(), self._store.mark
        if mark is not None and mark.number > state.number:
            self.missing, self.m_epoch = mark, max(self._store.m_epoch, mark.m_epoch) + 1
        return state

    async def append(self, state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched) -> None:
        """Commit one turn. Raises StoreError.

        The server may die before the commit, or after it without knowing its result.
        """
        kernel = self._kernel
        self._store.writing = True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slow = kernel.likely(SLOW)
        delay = kernel.random.uniform(0.1, 3.0) if slow else 0.003
        if slow and kernel.likely(SLOW_CRASH):
            kernel.at(kernel.random.uniform(0.0, delay), self._die, "during a commit")
        kernel.at(delay, self._write, state, list(turn), done)
        await done

    def _write(self, state: ExperimentState, turn: list[f.Recorded], done: asyncio.Future[None]) -> None:
        kernel, store = self._kernel, self._store
        if store.holder is not self:
            return
        store.writing = False
        if kernel.likely(COMMIT_CRASH):
            self._die("before a commit")
            return
        if kernel.likely(0.003):
            kernel.fault("commit failed", "store")
            done.set_exception(StoreError("no space left on device"))
            return
        kernel.say("store", "commits %s", "; ".join(map(_brief, turn)))
        store.commit(state, turn)
        if kernel.likely(0.03):
            store.save(state)
        gathered = any(isinstance(recorded.fact, f.GangGathered) for recorded in turn)
        if kernel.likely(GATHERED_CRASH if gathered else COMMIT_CRASH):
            self._die("after a commit")
            return
        if not done.done():
            done.set_result(None)

    async def close(self, state: ExperimentState | None = None) -> None:
        if self._closed or self._store.holder is not self:
            return
        self._closed = True
        if state is not None and state.id:
            self._store.save(state)
        self._store.holder = None

    def release(self) -> None:
        """Release the lock, because the process is gone."""
        if self._store.holder is self:
            self._store.holder = None


def _brief(recorded: f.Recorded) -> str:
    fact = recorded.fact
    subject = getattr(fact, "job_id", None) or getattr(fact, "trial_id", None) or ""
    more = ""
    match fact:
        case f.JobPlaced():
            more = f" seq {fact.cmd_seq} on {fact.place.instance} {fact.place.boot_id}"
        case f.StopOrdered():
            more = f" seq {fact.cmd_seq}"
        case f.MetricReported() | f.FrameSkipped():
            more = f" {fact.position}"
        case f.CheckpointReported():
            more = f" {fact.position}: number {fact.number}, step {fact.step}, asked={fact.asked}"
        case f.CheckpointsPruned():
            more = f" up to {fact.up_to}, except {fact.keep}"
        case f.AttemptDue(origin=f.Origin() as origin):
            more = f" from {origin.attempt}/{origin.number}: {fact.reason}"
        case f.TrialPaused():
            more = f" parked={fact.parked}: {fact.reason}"
        case f.JobEnded():
            more = f" {fact.reason} {fact.exit_code} {fact.signal} n={fact.metrics} acked={fact.acked_cmd}"
        case f.TrialEnded() | f.ExperimentMoved():
            more = f" {fact.status}: {fact.reason}"
        case f.JobLost() | f.AttemptDue() | f.JobWaiting():
            more = f": {fact.reason}"
        case f.KeeperBound():
            more = f" {fact.instance} {fact.boot_id}"
        case f.KeeperAcknowledged():
            more = f" {fact.keeper_id} {fact.acked_cmd}"
        case f.AlgorithmFailed():
            more = f" {fact.role}: {fact.sentence}"
    return f"{recorded.number} {type(fact).__name__} {subject}{more}"
