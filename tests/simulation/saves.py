"""Checkpoints of simulated trials: how a trial saves and loads its state, and what the keeper does for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.curve import beginning, link
from tests.simulation.disk import Saved
from trial_keeper import wire
from trial_keeper.core import effects as fx

if TYPE_CHECKING:
    from tests.simulation.keeper import SimKeeper
    from tests.simulation.shim import Shim

POWER_LOSS = 0.04  # probability that the machine loses power soon after a save has begun
ASKED_CRASH = 0.15  # probability that the keeper dies while it waits for a save
ANSWERED_CRASH = 0.3  # probability that it dies before it sees that the trial has saved
PRUNE_S = (0.0, 0.01, 1.0)  # delays of the thread that deletes checkpoints


class Saver:
    """State of a trial's program, which it saves as ``nni.save_checkpoint`` does.

    ``step``: number of the next step; ``state``: the state before it. ``ORDER``: the parts of a save. The
    program can be killed, and the machine can lose power, between any two of them.
    """

    ORDER = ("build", "flush", "name", "flush_parent", "report", "answer")

    def __init__(self, shim: Shim) -> None:
        self._shim, self._kernel = shim, shim.kernel
        self.step, self.state = 0, beginning(shim.start["trial_id"])
        self._saved_at = -1  # the last step before which the program has saved
        self._asked = self._measured = False
        self._saved = Saved(0, 0)
        self._number = 0

    def load(self) -> int:
        """Load the state from which the attempt continues. Return the number of the first step."""
        shim, start = self._shim, self._shim.start
        saved = None if "origin" not in start else _find(shim, start["origin"])
        shim.host.witness.checkpoints.loaded(shim.job, shim.host, shim.instance, start, saved)
        if saved is not None and saved.state is not None:
            self._kernel.counts["continued"] += 1
            self.step, self.state = saved.step, saved.state
        elif "origin" in start:
            shim.ends(1)
        return self.step

    def advance(self) -> None:
        self.state = link(self.state, self.step)
        self.step += 1

    def begins(self) -> bool:
        """Begin a save if the program was asked for it, or wants it. Return False if it does not save now."""
        shim, conduct = self._shim, self._shim.conduct
        if conduct.asks and (self.step > 0 or conduct.saves > 0.0):
            shim.files.asks = True
        asked = shim.files.save
        wants = conduct.saves > 0.0 and self._saved_at < self.step
        if not asked and not (wants and self._kernel.random.random() < conduct.saves):
            return False
        if shim.host.full:
            return False  # the call raises OSError, and the program continues
        self._asked, self._saved_at = asked, self.step
        more = self.step < conduct.frames and conduct.sets == 1
        self._measured = more and self._kernel.random.random() < 0.3
        if self._kernel.likely(POWER_LOSS):
            self._kernel.at(self._kernel.random.uniform(0.0, 1.0), shim.host.lose_power)
        self._act(0)
        return True

    def _act(self, index: int) -> None:
        if not self._shim.main:
            return
        getattr(self, f"_{self.ORDER[index]}")()
        if index + 1 < len(self.ORDER):
            slow = self._kernel.likely(0.15)
            delay = self._kernel.random.uniform(0.1, 1.5) if slow else 0.001
            self._kernel.at(delay, self._act, index + 1)

    def _build(self) -> None:
        step, state = self.step, self.state
        self._saved = Saved(step + 1, link(state, step)) if self._measured else Saved(step, state)

    def _flush(self) -> None:
        self._saved.flushed = True

    def _name(self) -> None:
        files = self._shim.files
        self._number = files.free_number()
        files.checkpoints[self._number] = self._saved

    def _flush_parent(self) -> None:
        self._saved.named = True

    def _report(self) -> None:
        """Write the frame, with one write together with the step's metric if the save has one."""
        output, step = self._shim.output, self.step
        if self._measured:
            output.write(output.metric(step, self._shim.conduct, link(self.state, step)), step=step)
            self.advance()
        output.write(output.checkpoint(self._number, self._saved.step, asked=self._asked))
        self._kernel.counts["saved"] += 1
        self._kernel.say(
            self._shim.host.name, "%s saved step %d as %d%s", self._shim.job, self._saved.step, self._number,
            ", as asked" if self._asked else "",
        )  # fmt: skip

    def _answer(self) -> None:
        """Remove the request. The program then leaves, or continues."""
        shim = self._shim
        if self._asked:
            self._kernel.counts["saved when asked"] += 1
            if self._kernel.likely(ANSWERED_CRASH) and shim.host.keeper is not None:
                shim.host.keeper.die()
            shim.files.save = False
            if shim.conduct.leaves:
                self._kernel.counts["left"] += 1
                shim.ends(0)
                return
        shim.goes_on()


def _find(shim: Shim, origin: wire.Origin) -> Saved | None:
    found = shim.host.files(origin["directory"]).checkpoints.get(origin["number"])
    if found is None and "kept" in origin:
        return shim.host.fetched.get(origin["kept"]["digest"])
    return found


# ---- what the keeper does ---------------------------------------------------------------------------------


def missing_origin(keeper: SimKeeper, start: wire.Start) -> str | None:
    """Return a sentence if the host lacks the checkpoint from which an attempt continues."""
    if "origin" not in start:
        return None
    directory, number = start["origin"]["directory"], start["origin"]["number"]
    kept = start["origin"].get("kept")
    if number in keeper.host.files(directory).checkpoints:
        return None
    if kept is not None and kept["digest"] in keeper.host.fetched:
        return None
    return f"checkpoint {number} in {directory} is missing"


def ask_save(keeper: SimKeeper, effect: fx.AskSave) -> list[fx.Effect]:
    host, kernel = keeper.host, keeper.kernel
    files = host.files(effect.directory)
    if effect.first:
        files.asked_at, files.requests = None, files.requests + 1
        if files.asks and not host.full:
            files.save, files.asked_at = True, kernel.now
            kernel.say(host.name, "asks %s to save", effect.job)
            if kernel.likely(ASKED_CRASH):
                kernel.at(kernel.random.uniform(0.0, 1.0), keeper.die)
    waits = files.save and files.asked_at is not None
    return keeper.core.save_seen(keeper.now, effect.job, waits=waits, asks=files.asks)


def prune(keeper: SimKeeper, effect: fx.Prune) -> list[fx.Effect]:
    """Delete checkpoints soon, in a thread of the keeper. The last deletion of an answer comes last."""
    delay = max(PRUNE_S) if effect.number else keeper.kernel.random.choice(PRUNE_S)
    keeper.kernel.at(delay, _prune, keeper, effect)
    return []


def _prune(keeper: SimKeeper, effect: fx.Prune) -> None:
    if not keeper.alive:
        return
    host = keeper.host
    checkpoints = host.files(effect.directory).checkpoints
    for number in [number for number in checkpoints if number <= effect.up_to]:
        if number not in effect.keep:
            del checkpoints[number]
            host.kernel.say(host.name, "deletes checkpoint %d of %s", number, effect.directory)
            host.witness.checkpoints.deletions.deleted(host, effect.directory, number)
    if effect.number:
        keeper.tell(keeper.core.pruned, effect.number)
