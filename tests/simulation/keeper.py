"""Simulated keeper: carries out each effect of the product's ``KeeperCore``, and may die in between."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation import copies, saves
from tests.simulation.kernel import Violation
from trial_keeper.attempt import claim
from trial_keeper.core import core as product
from trial_keeper.core import effects as fx
from trial_keeper.core import stay
from trial_keeper.core.identity import Identity
from trial_keeper.core.records import Record

if TYPE_CHECKING:
    from tests.simulation.host import Host

GPUS = 2  # GPUs of each machine
STEP_CRASH = 0.004  # probability before each effect
RECORD_CRASH = 0.03  # probability soon after a record is written: its effects have not happened yet
ORDER_CRASH = 0.08  # probability for commands other than starts, which are rarer
SPAWN_CRASH = 0.15  # probability soon after a shim was requested
VANISHING = 0.08  # probability that the machine disappears, as an attempt begins under a lease
IDLE_S = (10.0, 300.0)


class SimKeeper:
    """One keeper process of a host."""

    def __init__(self, host: Host) -> None:
        self.host, self.kernel = host, host.kernel
        self.alive, self.launched_at = True, host.kernel.now
        self.stalled_until = 0.0  # until then the process is stopped, or gets no CPU time
        host.keeper = self
        self.told: dict[str, bytes] = {}  # claims in the wake-up pipe
        self.served: set[int] = set()  # orders to upload that were obeyed
        self._watched, self._grown = set[str](), set[str]()
        self._written = 0  # number of the last record
        self._flushing = self._flush_wanted = False
        self._tick_at: float | None = None
        assert host.instance is not None
        identity = Identity(
            instance=host.instance, boot_id=host.boot_id, idle_s=self.kernel.random.choice(IDLE_S),
            jitter=self.kernel.random.random, lease=host.find_lease(), ending=host.ending, may_end=True,
        )  # fmt: skip
        self.core = product.KeeperCore(identity, host.journal.load())
        self._unseen = {job for job, each in self.core.attempts.items() if each.live and not each.claimed}
        self._acts: dict[type, Callable[[Any], list[fx.Effect]]] = {
            fx.Append: self._append, fx.Spawn: self._spawn, fx.Abort: self._abort, fx.Fence: self._fence,
            fx.Look: self._look, fx.Signal: self._signal, fx.Kill: self._kill, fx.Sweep: self._sweep,
            fx.Watch: self._watch, fx.Unwatch: self._unwatch, fx.Read: self._read, fx.Count: self._count,
            fx.Update: self._update, fx.Send: self._send, fx.Extend: self._extend, fx.Survey: self._survey,
            fx.Say: self._say, fx.Leave: self._leave,
            fx.AskSave: partial(saves.ask_save, self), fx.Prune: partial(saves.prune, self),
            fx.Serve: partial(copies.serve, self),
        }  # fmt: skip

    def begin(self) -> None:
        self.kernel.say(self.host.name, "keeper starts, epoch %d", self.core.k_epoch)
        if self._dies("before its journal is rewritten"):
            return
        self.host.journal.rewrite(self.core.records())
        self.tell(self.core.begin)

    @property
    def now(self) -> float:
        return self.host.boottime()

    # ---- life and death -----------------------------------------------------------------------------------

    def die(self) -> None:
        """Die as by kill -9."""
        if self.alive:
            self.kernel.fault("keeper crash", self.host.name)
            self.exit()

    def exit(self) -> None:
        """Exit normally."""
        self.alive = False
        self.host.keeper_ended()

    def _dies(self, where: str) -> bool:
        if self.kernel.likely(STEP_CRASH):
            self.kernel.say(self.host.name, "keeper dies %s", where)
            self.die()
        return not self.alive

    def tell(self, input_: Callable[..., list[fx.Effect]], *arguments: Any) -> None:
        """Give the core an input and carry out its effects."""
        if not self.alive:
            return
        if self.kernel.now < self.stalled_until:
            self.kernel.at(self.stalled_until - self.kernel.now, self.tell, input_, *arguments)
            return
        try:
            queue = collections.deque(input_(self.now, *arguments))
            while queue:
                if self._dies(f"before {type(queue[0]).__name__}"):
                    return
                effect = queue.popleft()
                queue.extend(self._acts[type(effect)](effect))
                if not self.alive:
                    return
        except Violation:
            raise
        except Exception:
            self.kernel.fail(f"{self.host.name}: the keeper's core failed: {traceback.format_exc()}")
            return
        self._set_timer()

    def _set_timer(self) -> None:
        due = self.core.deadline(self.now)
        if due is None or (self._tick_at is not None and self._tick_at <= due):
            return
        self._tick_at = due
        self.kernel.at((due - self.now) / self.host.clock.rate + 1e-6, self._tick, due)

    def _tick(self, due: float) -> None:
        if self._tick_at != due or not self.alive:
            return
        self._tick_at = None
        deadline = self.core.deadline(self.now)
        if deadline is not None and deadline <= self.now:
            self.tell(self.core.tick)
        else:
            self._set_timer()

    # ---- what comes from outside --------------------------------------------------------------------------

    def woken(self, job: str) -> None:
        told = self.told.pop(job, None)
        self.tell(self.core.notified, job, claim.parse(told) if told else None)

    def shim_gone(self, job: str) -> None:
        if job in self._watched:
            self.woken(job)  # the pipe is read first

    def shim_failed(self, job: str, why: str) -> None:
        if job in self.told:
            self.woken(job)  # the pipe is read first
        self.tell(self.core.shim_failed, job, why)

    def grown(self, job: str) -> None:
        if job in self._watched and job not in self._grown:
            self._grown.add(job)
            self.kernel.at(0.001, self._tell_grown, job)

    def _tell_grown(self, job: str) -> None:
        self._grown.discard(job)
        self.tell(self.core.grown, job)

    # ---- the journal --------------------------------------------------------------------------------------

    def _append(self, effect: fx.Append) -> list[fx.Effect]:
        host = self.host
        if host.full:
            return self.core.write_failed(self.now, "no space left on device")
        if self.kernel.likely(STEP_CRASH):
            self.kernel.fault("journal torn", host.name, "by the keeper's death")
            host.journal.tear(effect.record, self.kernel)
            self.die()
            return []
        host.journal.append(effect.record)
        self._written = effect.number
        self.kernel.say(host.name, "journal: %s", _brief(effect.record))
        host.witness.journaled(host, effect.record)
        if effect.flush:
            self._flush()
        if effect.record["k"] == "final" and self.kernel.likely(0.02):
            self.kernel.at(self.kernel.random.uniform(0.0, 0.5), host.lose_power)
        risk = RECORD_CRASH if effect.record["k"] == "start" else ORDER_CRASH
        if self.kernel.likely(risk):
            self.die()
            return []
        if self.kernel.likely(risk):
            self.kernel.at(self.kernel.random.uniform(0.0, 1.0), self.die)
        return self.core.written(self.now)

    def _flush(self) -> None:
        if self._flushing:
            self._flush_wanted = True
            return
        self._flushing, self._flush_wanted = True, False
        slow = self.kernel.likely(0.05)
        delay = self.kernel.random.uniform(0.1, 2.0) if slow else 0.002
        self.kernel.at(delay, self._flushed, len(self.host.journal.content), self._written)

    def _flushed(self, size: int, number: int) -> None:
        if not self.alive:
            return
        self.host.journal.synced = max(self.host.journal.synced, size)
        if not self._flush_wanted and self.kernel.likely(0.05):
            self.kernel.fault("journal compacted", self.host.name)
            self.host.journal.compact()
        self._flushing = False
        if self._flush_wanted:
            self._flush()
        self.tell(self.core.flushed, number)

    # ---- attempts -----------------------------------------------------------------------------------------

    def _spawn(self, effect: fx.Spawn) -> list[fx.Effect]:
        if (sentence := saves.missing_origin(self, effect.start)) is not None:
            return copies.fetch(self, effect, sentence)
        self.kernel.say(self.host.name, "spawns a shim for %s", effect.job)
        self.host.spawn(self, effect)
        if effect.lease is not None and self.kernel.likely(VANISHING):
            self.host.cut_off(self.kernel.random.choice([20.0, 60.0]))
        if self.kernel.likely(SPAWN_CRASH):
            self.kernel.at(self.kernel.random.uniform(0.0, 2.0), self.die)
        return []

    def _seen(self, job: str, directory: str, shim: fx.Shim | None) -> fx.Seen:
        found = self.host.files(directory).read_claim()
        alive = False
        if shim is None and found is not None and found.pid is not None:
            shim = found.pid, found.start_time
        if shim is not None and (found is None or (found.exit is None and found.failed is None)):
            alive = self.host.looks_alive(job, *shim)
        if job in self._unseen or self.core.is_sought(job):
            self._unseen.discard(job)
            runs = any(each.job == job and each.runs for each in self.host.shims)
            if found is None and (runs or self.host.files(directory).metrics):
                found = claim.damaged()
        return fx.Seen(found, alive, self.host.clock.unix())

    def _look(self, effect: fx.Look) -> list[fx.Effect]:
        return self.core.looked(self.now, effect.job, self._seen(effect.job, effect.directory, effect.shim))

    def _fence(self, effect: fx.Fence) -> list[fx.Effect]:
        self.host.take_claim(self.host.files(effect.directory), f"aborted {self.host.boot_id}\n".encode())
        return []

    def _abort(self, effect: fx.Abort) -> list[fx.Effect]:
        files = self.host.files(effect.directory)
        if self.kernel.likely(0.25):
            self.kernel.fault("abort failed", self.host.name, "%s", effect.job)
        elif not self.host.full and self.host.take_claim(files, f"aborted {self.host.boot_id}\n".encode()):
            self.kernel.say(self.host.name, "aborts %s", effect.job)
        return self.core.looked(self.now, effect.job, self._seen(effect.job, effect.directory, None))

    def _signal(self, effect: fx.Signal) -> list[fx.Effect]:
        shim = self.host.find(*effect.shim)
        if not self.host.full:
            self.host.files(effect.directory).grace = effect.grace
        if self.kernel.likely(0.05):
            self.kernel.fault("signal failed", self.host.name, "%s", effect.job)
            return self.core.signal_failed(self.now, effect, "input/output error")
        if shim is not None:
            self.kernel.say(self.host.name, "signals %s", effect.job)
            held, files = self.core.attempts.get(effect.job), self.host.files(effect.directory)
            if self.host.ending is None:  # a host that ends leaves no time for a save
                self.host.witness.saves.signalled(effect.job, files, held)
            shim.terminate()
        if self.host.full:
            return self.core.signal_failed(self.now, effect, "no space left on device")
        return []

    def _kill(self, effect: fx.Kill) -> list[fx.Effect]:
        shim = self.host.find(*effect.shim)
        if shim is not None:
            shim.lose_shim()
        return self.core.killed(self.now, effect)

    def _sweep(self, effect: fx.Sweep) -> list[fx.Effect]:
        pids = [shim.pid + 10_000 for shim in self.host.shims if shim.job == effect.job and shim.sweep()]
        return self.core.swept(self.now, effect.job, pids)

    def _watch(self, effect: fx.Watch) -> list[fx.Effect]:
        self._watched.add(effect.job)
        if self.host.find(*effect.shim) is None:
            return self.core.notified(self.now, effect.job)
        return self.core.grown(self.now, effect.job)

    def _unwatch(self, effect: fx.Unwatch) -> list[fx.Effect]:
        self._watched.discard(effect.job)
        return []

    def _read(self, effect: fx.Read) -> list[fx.Effect]:
        chunk = self.host.files(effect.directory).read(effect)
        return self.core.frames_read(self.now, effect.job, chunk)

    def _count(self, effect: fx.Count) -> list[fx.Effect]:
        tally = self.host.files(effect.directory).count(effect, self.host.clock.unix())
        return self.core.counted(self.now, effect.job, tally)

    def _update(self, effect: fx.Update) -> list[fx.Effect]:
        if self.host.full:
            return self.core.update_failed(self.now, effect, "no space left on device")
        self.host.files(effect.directory).parameters[effect.number] = effect.parameter
        return []

    # ---- the rest -----------------------------------------------------------------------------------------

    def _send(self, effect: fx.Send) -> list[fx.Effect]:
        self.host.network.call(self.host, self, effect)
        return []

    def _extend(self, effect: fx.Extend) -> list[fx.Effect]:
        if self.kernel.likely(0.02):
            self.kernel.fault("lease not written", self.host.name)
            return self.core.extended(self.now, effect, "input/output error")
        self.host.write_lease(effect)
        return self.core.extended(self.now, effect)

    def _survey(self, effect: fx.Survey) -> list[fx.Effect]:
        if effect.on:
            gpus = [{"index": index, "memory": 0, "processes": []} for index in range(GPUS)]
            self.kernel.at(0.2, self.tell, self.core.gpus_read, {"trouble": None, "gpus": gpus})
        return []

    def _say(self, effect: fx.Say) -> list[fx.Effect]:
        self.kernel.say(self.host.name, "keeper says: %s", effect.sentence)
        return []

    def _leave(self, effect: fx.Leave) -> list[fx.Effect]:
        self.kernel.say(self.host.name, "keeper leaves: %s", effect.reason)
        self.host.witness.checkpoints.copies.left(self.host, done=effect.reason == stay.DONE)
        for shim in self.host.shims if effect.clear else ():
            shim.die()
        self.exit()
        return []


def _brief(record: Record) -> str:
    return " ".join(f"{key}={value}" for key, value in record.items() if key != "start")
