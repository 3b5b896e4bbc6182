"""Host in memory that carries out the effects of ``KeeperCore``, to test rules without processes."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

from tests.trial_keeper.harness import frame
from trial_keeper import wire
from trial_keeper.attempt import claim, frames
from trial_keeper.attempt.ending import Ending
from trial_keeper.core import effects as fx
from trial_keeper.core.core import KeeperCore
from trial_keeper.core.effects import Channel
from trial_keeper.core.identity import Identity
from trial_keeper.core.records import Record

BOOT = "boot-1"
JOB = "e-a-1"


class Rig:
    """Host with one disk and one boot at a time. ``crash`` drops what the keeper had in memory."""

    def __init__(self) -> None:
        self.now = 0.0
        self.boot = BOOT
        self.journal: list[Record] = []
        self.durable = 0
        self.disk_full = False
        self.unreachable = False  # no shim can be signalled
        self.claims: dict[str, claim.Claim] = {}
        self.metrics: dict[str, bytes] = {}
        self.marked: dict[str, list[int]] = {}
        self.alive: set[int] = set()
        self.spawned: list[str] = []
        self.signalled: list[tuple[str, float]] = []
        self.killed: list[str] = []
        self.undead = False  # SIGKILL does not end a shim
        self.watched: set[str] = set()
        self.updates: dict[tuple[str, int], str] = {}
        self.baseless: set[str] = set()  # jobs whose checkpoint to continue from is missing
        self.unclaimable = False  # no claim can be written
        self.listening: set[str] = set()  # jobs whose trials look for requests to save their state
        self.asked: list[str] = []  # jobs whose trials were asked to save
        self.unsaved: set[str] = set()  # jobs whose trials have not answered such a request
        self.pruned: list[fx.Prune] = []
        self.calls: dict[Channel, fx.Send] = {}
        self.said: list[str] = []
        self.surveys: list[bool] = []
        self.left: str | None = None
        self.orphan_s: float | None = None
        self.unreported_s: float | None = None
        self.ending: Ending | None = None
        self.may_end = False
        self.lease = (0, 0.0)  # lease number and end
        self.leases: list[int | None] = []  # lease that each shim was given
        self._pids = itertools.count(100)
        self.start()

    def start(self) -> None:
        """Start a keeper, which recovers from the journal."""
        self.calls = {}
        self.watched = set()
        identity = Identity(
            instance="i",
            boot_id=self.boot,
            unreported_s=self.unreported_s,
            orphan_s=self.orphan_s,
            lease=self.lease,
            ending=self.ending,
            may_end=self.may_end,
        )
        self.core = KeeperCore(identity, self.journal)
        self.journal = self.core.records()
        self.durable = len(self.journal)
        self._flushable: list[int] = []
        self.run(self.core.begin(self.now))

    # -- what happens on the host

    def claim(self, job: str, *, shim_of: str | None = None) -> None:
        """Let a shim win the claim and start the command. ``shim_of``: the previous attempt of that shim."""
        pid = next(self._pids) if shim_of is None else self.claims[shim_of].pid
        assert pid is not None
        found = claim.Claim(pid, "77", self.boot)
        found.started = (pid + 10_000, 1000.0)
        self.claims[job] = found
        self.metrics.setdefault(job, b"")
        self.alive.add(pid)
        self.run(self.core.notified(self.now, job))

    def write(self, job: str, *payloads: bytes) -> None:
        self.metrics[job] += b"".join(map(frame, payloads))
        if job in self.watched:
            self.run(self.core.grown(self.now, job))

    def save(self, job: str) -> None:
        """Let the trial save its state, as it was asked to."""
        self.unsaved.remove(job)

    def exit(self, job: str, code: int | None = 0, *, stays: bool = False, **changes: Any) -> None:
        """Let the attempt end. ``stays``: its shim runs on, for another attempt."""
        found = self.claims[job]
        arguments: dict[str, Any] = {"signalled": False, "at": 2000.0, **changes}
        found.exit = claim.Exit(code, None, len(self.metrics[job]), **arguments)
        assert found.pid is not None
        if not stays:
            self.alive.discard(found.pid)
        self.run(self.core.notified(self.now, job))

    def kill_shim(self, job: str) -> None:
        pid = self.claims[job].pid
        assert pid is not None
        self.alive.discard(pid)
        self.run(self.core.notified(self.now, job))

    def power_loss(self, kept: int | None = None) -> None:
        """Lose power. The first ``kept`` records survive (None: all); flushed records always survive."""
        if kept is not None:
            assert kept >= self.durable
            del self.journal[kept:]
        self.boot = "boot-2"
        self.alive.clear()

    def flush(self) -> None:
        """Let the journal's thread flush."""
        self.durable = len(self.journal)
        if self._flushable:
            number, self._flushable = self._flushable[-1], []
            self.run(self.core.flushed(self.now, number))

    def shut_down(self, grace: float = 7.0, *, whole: float = 30.0) -> None:
        """Begin to shut the host down. A keeper that is started again knows it, too."""
        self.ending = self.ending or Ending(grace, self.now + whole)
        self.run(self.core.host_ends(self.now, Ending(grace, self.now + whole)))

    def wait(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline; the host is always a little late."""
        end = self.now + seconds
        while True:
            due = self.core.deadline(self.now)
            if due is None or due > end:
                break
            self.now = max(self.now, due) + 1e-6
            due = self.core.deadline(self.now)
            assert due is not None and due <= self.now, "a deadline was forgotten because it had passed"
            self.run(self.core.tick(self.now))
        self.now = end

    # -- the server

    def call(self, channel: Channel = Channel.REPORT) -> wire.ReportHeader:
        """Return the header of the call in progress."""
        return self.calls[channel].header

    def answer(self, channel: Channel = Channel.REPORT, **fields: Any) -> None:
        del self.calls[channel]
        answer: Any = {
            "db_id": "db", "m_epoch": 1, "instance": "i", "all": False, "acks": {}, "rewind": {}, "done": [],
            "kill": [], "cmds": [], "leave": False, "stay": False, "gpu": False, "reads": [], "prunes": [],
            "prune": 0, "lease_s": None, **fields,
        }  # fmt: skip
        self.run(self.core.answered(self.now, channel, answer))

    def fail(
        self, channel: Channel = Channel.REPORT, sentence: str = "refused", reason: str | None = None
    ) -> None:
        del self.calls[channel]
        self.run(self.core.failed(self.now, channel, sentence, reason))

    def greet(self, **fields: Any) -> None:
        """Answer the inventory call."""
        assert self.call()["all"]
        self.answer(**fields)

    def order(self, *commands: Sequence[Any]) -> None:
        """Answer the waiting call with commands."""
        self.answer(Channel.WAIT, cmds=[list(command) for command in commands])

    # -- effects

    def run(self, effects: list[fx.Effect]) -> None:
        queue = collections.deque(effects)
        while queue:
            effect = queue.popleft()
            queue.extend(getattr(self, f"_{type(effect).__name__.lower()}")(effect) or [])

    def _append(self, effect: fx.Append) -> list[fx.Effect]:
        if self.disk_full:
            return self.core.write_failed(self.now, "no space left on device")
        self.journal.append(effect.record)
        if effect.flush:
            self._flushable.append(effect.number)
        return self.core.written(self.now)

    def _spawn(self, effect: fx.Spawn) -> list[fx.Effect] | None:
        self.spawned.append(effect.job)
        self.leases.append(effect.lease)
        if effect.job in self.baseless:
            return self.core.origin_missing(self.now, effect.job, "checkpoint 3 is missing")
        return None

    def _abort(self, effect: fx.Abort) -> list[fx.Effect]:
        if not self.unclaimable:
            self.claims.setdefault(effect.job, claim.Claim(None, "", self.boot))
        return self._look(fx.Look(effect.job, effect.directory))

    def _fence(self, effect: fx.Fence) -> None:
        self.claims.setdefault(effect.job, claim.Claim(None, "", self.boot))

    def _look(self, effect: fx.Look) -> list[fx.Effect]:
        found = self.claims.get(effect.job)
        pid = effect.shim[0] if effect.shim is not None else None if found is None else found.pid
        alive = pid in self.alive and (found is None or found.exit is None)
        return self.core.looked(self.now, effect.job, fx.Seen(found, alive, 3000.0))

    def _signal(self, effect: fx.Signal) -> list[fx.Effect] | None:
        assert effect.shim[0] in self.alive
        if self.unreachable:
            return self.core.signal_failed(self.now, effect, "no space left on device")
        self.signalled.append((effect.job, effect.grace))
        return None

    def _asksave(self, effect: fx.AskSave) -> list[fx.Effect]:
        if effect.first:
            self.asked.append(effect.job)
            self.unsaved |= {effect.job} & self.listening
        waits, asks = effect.job in self.unsaved, effect.job in self.listening
        return self.core.save_seen(self.now, effect.job, waits=waits, asks=asks)

    def _prune(self, effect: fx.Prune) -> None:
        self.pruned.append(effect)

    def _kill(self, effect: fx.Kill) -> list[fx.Effect]:
        self.killed.append(effect.job)
        if not self.undead:
            self.alive.discard(effect.shim[0])
        return self.core.killed(self.now, effect)

    def _sweep(self, effect: fx.Sweep) -> list[fx.Effect]:
        return self.core.swept(self.now, effect.job, self.marked.pop(effect.job, []))

    def _watch(self, effect: fx.Watch) -> None:
        self.watched.add(effect.job)

    def _unwatch(self, effect: fx.Unwatch) -> None:
        self.watched.discard(effect.job)

    def _read(self, effect: fx.Read) -> list[fx.Effect]:
        piece = self.metrics.get(effect.job, b"")[effect.offset :]
        found = frames.cut(
            piece, skip=effect.skip, frames=effect.frames, size=effect.size, first=effect.first
        )
        chunk = fx.Chunk(found.payloads, found.skipped, effect.offset + found.end, found.bad, found.full)
        return self.core.frames_read(self.now, effect.job, chunk)

    def _count(self, effect: fx.Count) -> list[fx.Effect]:
        content = self.metrics.get(effect.job, b"")
        found = frames.count(content[effect.offset :])
        tally = fx.Tally(found.skipped, effect.offset + found.end, found.bad, False, len(content), 3000.0)
        return self.core.counted(self.now, effect.job, tally)

    def _update(self, effect: fx.Update) -> list[fx.Effect] | None:
        if self.disk_full:
            return self.core.update_failed(self.now, effect, "no space left on device")
        self.updates[effect.job, effect.number] = effect.parameter
        return None

    def _send(self, effect: fx.Send) -> None:
        assert effect.channel not in self.calls, "two calls of one kind in flight"
        self.calls[effect.channel] = effect

    def _extend(self, effect: fx.Extend) -> list[fx.Effect]:
        if self.disk_full:
            return self.core.extended(self.now, effect, "read-only file system")
        self.lease = (effect.number, effect.until)
        return self.core.extended(self.now, effect)

    def _survey(self, effect: fx.Survey) -> None:
        self.surveys.append(effect.on)

    def _say(self, effect: fx.Say) -> None:
        self.said.append(effect.sentence)

    def _leave(self, effect: fx.Leave) -> None:
        self.left = effect.reason


def start(seq: int, job: str, **changes: Any) -> list[Any]:
    """Return a start command."""
    body = {
        "trial_id": job, "attempt": 1, "boot_id": BOOT, "directory": f"trials/{job}", "command": "true",
        "cwd": "/", "environment": {}, "parameter": "{}", "log_cap": 1 << 20, **changes,
    }  # fmt: skip
    return [seq, "start", job, body]


def stop(seq: int, job: str, grace: float = 5.0, **more: float) -> list[Any]:
    """Return a stop command."""
    return [seq, "stop", job, {"grace": grace, **more}]


def running(rig: Rig) -> None:
    """Return a host with one running attempt that the server knows."""
    rig.order(start(1, JOB))
    rig.flush()
    rig.claim(JOB)
    rig.wait(1)
    rig.answer()


def report(rig: Rig, job: str = JOB) -> tuple[wire.ReportedAttempt, list[bytes]]:
    """Return what the report in progress says about the attempt."""
    return rig.call()["attempts"][job], rig.calls[Channel.REPORT].payloads


def final(rig: Rig, job: str = JOB) -> wire.Final:
    """Return the end in the report in progress."""
    found = report(rig, job)[0]["final"]
    assert found is not None
    return found
