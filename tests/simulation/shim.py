"""Simulated shim with its trial and the trial's child processes, as the keeper and the files see them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.simulation.curve import link, shown
from tests.simulation.disk import SIZE
from tests.simulation.kernel import Kernel
from tests.simulation.saves import Saver
from trial_keeper.attempt import claim
from trial_keeper.attempt.deadline import GRACE_S
from trial_keeper.core import effects as fx

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.keeper import SimKeeper

ENDLESS = 10**9
HEADER_BYTES = 8
LOOK_S = 0.5  # interval in which a requested parameter set is looked for


@dataclass(frozen=True, slots=True)
class Conduct:
    """Behaviour of the command of a trial."""

    frames: int
    gap: float
    code: int
    stubborn: bool  # ignores SIGTERM
    straggler: bool  # leaves a child that continues to write
    bad: bool  # the assessor will stop it
    junk: bool  # writes bytes that are not a frame
    sets: int = 1  # parameter sets that it requests, with a final result for each
    saves: float = 0.0  # probability that it saves its state before a step
    asks: bool = False  # it looks for requests to save its state
    leaves: bool = False  # it exits with code 0 after such a save

    @classmethod
    def draw(cls, kernel: Kernel) -> Conduct:
        chance = kernel.random
        endless = chance.random() < 0.3
        return cls(
            frames=ENDLESS if endless else chance.randint(0, 9),
            gap=4.0 if endless else chance.choice([0.05, 0.5, 2.0]),
            code=chance.choice([0, 0, 0, 1]),
            stubborn=chance.random() < 0.3,
            straggler=chance.random() < 0.3,
            bad=chance.random() < 0.2,
            junk=chance.random() < 0.05,
        )

    def saving(self, kernel: Kernel) -> Conduct:
        """Return the same behaviour for a trial that saves its state."""
        chance = kernel.random
        return replace(
            self,
            frames=ENDLESS if self.frames == ENDLESS else self.frames + chance.randint(0, 10),
            saves=chance.choice([0.0, 0.2, 0.5]),
            asks=chance.random() < 0.6,
            leaves=chance.random() < 0.5,
        )


class Output:
    """Metric frames that the processes of an attempt write. ``half``: the last frame is incomplete."""

    def __init__(self, host: Host, order: fx.Spawn) -> None:
        self.half = False
        self._host, self._job, self._trial_id = host, order.job, order.start["trial_id"]
        self._files = host.files(order.start["directory"])
        self._parameter_id = json.loads(order.start["parameter"])["parameter_id"]
        self._readable = True
        self._reports = 0

    def metric(self, frame: int, conduct: Conduct, state: int) -> bytes:
        """Return the content of this frame with its header: a metric, or sometimes bytes that are none.

        ``state``: the trial's state after this step, which the metric shows.
        """
        chance = self._host.kernel.random
        if chance.random() < 0.05:
            return framed(chance.choice([b"", b"no metric", b'{"type": "PERIODICAL"}', b"\xff\xfe"]))
        final = frame == conduct.frames - 1 or frame < conduct.sets > 1
        value = (-1.0 if conduct.bad and frame >= 2 else 1.0) * shown(state, frame)
        record = {
            "parameter_id": self._parameter_id,
            "trial_job_id": self._trial_id,
            "type": "FINAL" if final else "PERIODICAL",
            "sequence": 0 if final else self._reports,
            "value": json.dumps(value),
        }
        self._reports += not final
        return framed(json.dumps(record).encode())

    def checkpoint(self, number: int, step: int, *, asked: bool) -> bytes:
        """Return the frame that reports a checkpoint, with its header."""
        record = {
            "type": "CHECKPOINT",
            "trial_job_id": self._trial_id,
            "sequence": number,
            "step": step,
            "size": SIZE,
            "files": 1,
            "asked": asked,
        }
        return framed(json.dumps(record).encode())

    def request(self, index: int) -> None:
        """Request the parameter set with this index."""
        record = {
            "trial_job_id": self._trial_id,
            "type": "REQUEST_PARAMETER",
            "sequence": 0,
            "parameter_index": index,
        }
        self.write(framed(json.dumps(record).encode()))

    def take(self, found: dict[str, Any]) -> None:
        """Report later metrics for the parameter set that was found, if it is one."""
        if found["parameters"] is not None:
            self._parameter_id = found["parameter_id"]

    def junk(self) -> None:
        """Write bytes that are not a frame. Nothing after these bytes can be read."""
        self._host.kernel.say(self._host.name, "%s writes junk", self._job)
        self._files.write(b"this is no frame", self._host.kernel.now)
        self._readable = False

    def begin(self, part: bytes) -> None:
        """Write the first bytes of a frame."""
        self.half = True
        self._host.kernel.fault("half a frame", self._host.name, "of %s", self._job)
        self._files.write(part, self._host.kernel.now)

    def write(self, content: bytes, *, begun: int = 0, step: int | None = None) -> None:
        """Write a frame, of which the first ``begun`` bytes are written already.

        ``step``: the step of the trial that the frame is about, if it is about one.
        """
        self.half = False
        self._files.write(content[begun:], self._host.kernel.now)
        self._host.witness.wrote(self._job, content[HEADER_BYTES:], readable=self._readable, step=step)
        self._host.grown(self._job)


def framed(payload: bytes) -> bytes:
    """Return the payload with the header of a frame."""
    return b"ME%06d" % len(payload) + payload


class Shim:
    """One shim of an attempt, from its fork on; only the shim that wins the claim starts the command."""

    def __init__(self, host: Host, keeper: SimKeeper, order: fx.Spawn) -> None:
        self.host, self.keeper, self.job, self.start = host, keeper, order.job, order.start
        self.lease = order.lease  # number of its lease
        self._lease_at = 0.0  # end of the lease, as last seen
        self._lapsed = False
        self.kernel = host.kernel
        self.boot, self.instance = host.boot_id, host.instance
        self.pid, self.start_time = host.new_pid()
        self.alive = True  # the shim itself
        self.main = False  # the command
        self.strays = 0  # number of its daemonized children
        self._asked: set[int] = set()
        self._stopping = False
        self._reluctant = self.kernel.likely(0.1)  # its processes survive the first SIGKILL for a while
        self.files = host.files(order.start["directory"])
        self.output = Output(host, order)
        chance = self.kernel.random
        slow = self.kernel.likely(0.9 if host.busy else 0.15)
        longest = 0.02 if not slow else 8.0 if host.busy else 20.0 if order.lease is None else 30.0
        self.kernel.at(chance.uniform(0.001, longest), self._claim)
        if slow:
            self.kernel.fault("slow fork", host.name, "of %s", self.job)

    @property
    def stirs(self) -> bool:
        """True if a process of the attempt runs, or may still start."""
        return self.alive or self.main or self.strays > 0

    @property
    def runs(self) -> bool:
        """True if a process with the attempt's mark runs."""
        return self.main or self.strays > 0

    def die(self) -> None:
        """End the shim and all its processes at once (power loss, eviction)."""
        self.alive = self.main = False
        self.strays = 0

    def lose_shim(self) -> None:
        """Kill only the shim: the processes that it has started continue."""
        if not self.alive:
            return
        self.kernel.fault("shim killed", self.host.name, "%s, pid %d", self.job, self.pid)
        self.alive = False
        self.host.witness.shim_killed(self.job)
        self.host.shim_gone(self)
        self._report_failure("killed by signal 9")

    def sweep(self) -> bool:
        """Send SIGKILL to all processes with the attempt's mark. Return True if there were any."""
        if not self.runs:
            return False
        if self._reluctant:
            self._reluctant = False
            return True
        self.main, self.strays = False, 0
        return True

    # ---- the claim ----------------------------------------------------------------------------------------

    def _report_failure(self, why: str) -> None:
        """Report the failure of the shim through the spawner, which lives as long as its keeper."""
        self.kernel.at(0.001, self.keeper.shim_failed, self.job, why)

    def _claim(self) -> None:
        if not self.alive:
            return
        if self.kernel.likely(0.02):
            self.kernel.fault("shim killed early", self.host.name, "%s", self.job)
            self.alive = False
            self._report_failure("killed by signal 9")
            return
        if self.host.full:
            self.alive = False
            self._report_failure("no space left on device")
            return
        if not self.may_begin():
            self.kernel.fault("no claim without a lease", self.host.name, "%s", self.job)
            self.alive = False
            self._report_failure("the lease has elapsed")
            return
        self._lines = f"shim {self.pid} {self.start_time} {self.boot}\n".encode()
        if not self.host.take_claim(self.files, self._lines):
            self.kernel.say(self.host.name, "shim %d of %s finds the claim taken", self.pid, self.job)
            self.alive = False
            self.host.wake(self.job, b"")
            return
        self.kernel.say(self.host.name, "shim %d claims %s", self.pid, self.job)
        delay = self.kernel.random.uniform(0.3, 2.0) if self.kernel.likely(0.05) else 0.001
        self.kernel.at(delay, self._start)

    def _start(self) -> None:
        if not self.alive:
            return
        if not self.may_begin():
            self.kernel.fault("no start without a lease", self.host.name, "%s", self.job)
            self._lapsed = True
            self.host.witness.lapsed(self.job)
            self._seal(None, None)
            return
        if self.kernel.likely(0.01):
            self.kernel.fault("exec failed", self.host.name, "%s", self.job)
            self.host.witness.exec_failed(self.job)
            self._add(b"failed %.6f no such directory\n" % self.host.clock.unix())
            self._leave()
            return
        self.main = True
        self.host.witness.started(self.job, self.host, self.start, self.instance)
        self.conduct = self.host.witness.conduct(self.start["trial_id"])
        self.kernel.say(self.host.name, "%s runs", self.job)
        self._add(b"started %d %.6f\n" % (self.pid + 10_000, self.host.clock.unix()))
        self.host.wake(self.job, self._lines)
        if self._stopping:
            self._terminate()
        if self.kernel.likely(0.03):
            self.kernel.at(self.kernel.random.uniform(0.0, 1.0), self.spoil_claim)
        self._mind_lease()
        self._saver = Saver(self)
        begin = self.host.witness.gangs.begins if "member" in self.start.get("gang", {}) else Shim.live
        begin(self)

    # ---- its lease ----------------------------------------------------------------------------------------

    def lease_clock(self) -> float:
        return self.host.boottime()

    def is_over(self) -> bool:
        """Return True if the lease has ended; its file is read only after the end that was last seen."""
        if self.lease is None or self.lease_clock() < self._lease_at:
            return False
        self._lease_at = self.host.leases.get(self.lease, 0.0)
        return self.lease_clock() >= self._lease_at

    def may_begin(self) -> bool:
        return not self.is_over()

    def _mind_lease(self) -> None:
        """Check the lease at each end that was seen, while the shim runs."""
        if self.lease is None or not self.alive:
            return
        if self.is_over():
            self._lapse()
        else:
            left = (self._lease_at - self.lease_clock()) / self.host.clock.rate
            self.kernel.at(left + 0.001, self._mind_lease)

    def _lapse(self) -> None:
        if self.main:
            self.kernel.fault("ended by its lease", self.host.name, "%s", self.job)
        if not self._stopping and self.main:
            self._lapsed = self._stopping = True
            self.host.witness.lapsed(self.job)
            self._terminate(grace=GRACE_S)
        else:
            self.kernel.at(GRACE_S, self._kill)

    # ---- the command --------------------------------------------------------------------------------------

    def live(self) -> None:
        if self.main:
            self._live(self._saver.load())

    def _live(self, frame: int) -> None:
        if not self.main or self._saver.begins():
            return
        conduct, chance = self.conduct, self.kernel.random
        if 0 < frame < min(conduct.sets, conduct.frames) and frame not in self._asked:
            self._asked.add(frame)
            self.output.request(frame)
            self._wait(frame)
            return
        if frame >= conduct.frames:
            self.kernel.at(chance.choice([0.0, 0.1]), self.ends, conduct.code)
            return
        content = self.output.metric(frame, conduct, link(self._saver.state, frame))
        if conduct.junk and frame == 3:
            self.output.junk()
        if self.kernel.likely(0.15):
            cut = chance.randrange(1, len(content))
            self.output.begin(content[:cut])
            self.kernel.at(chance.choice([0.0, 0.3, 2.0]), self._finish, frame, content, cut)
        else:
            self._finish(frame, content, 0)

    def _wait(self, index: int) -> None:
        """Let the command look for its next parameter set; without one it continues with its current set."""
        if not self.main:
            return
        record = self.files.parameters.get(index)
        if record is None:
            self.kernel.at(LOOK_S, self._wait, index)
            return
        found = json.loads(record)
        self.host.witness.given(self.job, index, found)
        self.output.take(found)
        self._live(index)

    def _finish(self, frame: int, content: bytes, begun: int) -> None:
        """Write the remaining bytes of a frame, and schedule the next frame."""
        if self.main:
            self.output.write(content, begun=begun, step=frame)
            self._saver.advance()
            self.goes_on()

    def goes_on(self) -> None:
        """Let the command continue with its next step after a while."""
        self.kernel.at(self.kernel.random.uniform(0.0, self.conduct.gap), self._live, self._saver.step)

    def ends(self, code: int | None, signal: int | None = None) -> None:
        """Let the command end with this exit code or signal."""
        if not self.main:
            return
        self.main = False
        if self.conduct.straggler:
            self.strays = self.kernel.random.randint(1, 4)
            self.kernel.at(0.02, self._stray)
            if self.alive:  # the shim kills remaining processes, in rounds
                self.kernel.at(self.kernel.random.uniform(0.0, 0.2), self._seal, code, signal)
        elif self.alive:
            delay = self.kernel.random.choice([0.0, 0.0, 0.5])
            self.kernel.at(delay, self._seal, code, signal)

    def _stray(self) -> None:
        """Let a child of the command write until it is killed or has finished."""
        if self.strays <= 0:
            return
        if not self.output.half:
            self.output.write(framed(b'{"stray": %d}' % self.strays))
        self.strays -= 1
        self.kernel.at(self.kernel.random.uniform(0.02, 0.3), self._stray)

    def _seal(self, code: int | None, signal: int | None) -> None:
        """Record how the command ended; the shim has no child left."""
        if not self.alive:
            return
        self.strays = 0
        if self.host.full:
            self.kernel.at(1.0, self._seal, code, signal)
            return
        end = claim.Exit(
            code, signal, len(self.files.metrics), signalled=self._stopping, lapsed=self._lapsed,
            at=self.host.clock.unix(),
        )  # fmt: skip
        self.host.witness.exited(self.job, code, signal)
        self._add(end.line())
        self.kernel.say(self.host.name, "%s exits: code %s, signal %s", self.job, code, signal)
        self._leave()

    def _leave(self) -> None:
        self.alive = False
        self.host.wake(self.job, self._lines)
        self.host.shim_gone(self)

    def _add(self, line: bytes) -> None:
        self._lines += line
        self.files.add(line)

    def spoil_claim(self) -> None:
        """Let the command damage the file that names its shim.

        Not while another shim of the attempt is being forked, as after a crash of the keeper: that shim would
        find no claim. Nor before a keeper has seen the claim: nothing else could stop a second shim.
        """
        others = [shim for shim in self.host.shims if shim.job == self.job and shim is not self]
        if not self.main or any(shim.alive for shim in others) or not self.host.knows_claim(self.job):
            return
        self.kernel.fault("claim spoiled", self.host.name, "%s", self.job)
        self.host.witness.spoiled(self.job)
        self.files.spoil(self.kernel)

    # ---- its stop -----------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Handle SIGTERM to the shim."""
        if not self.alive or self._stopping:
            return
        self._stopping = True
        if self.main:
            self._terminate()

    def _terminate(self, grace: float | None = None) -> None:
        if grace is None:
            grace = 10.0 if self.files.grace is None else self.files.grace
        chance = self.kernel.random
        if not self.conduct.stubborn:
            graceful = chance.random() < 0.2
            self.kernel.at(
                chance.choice([0.0, 0.1, 1.0]),
                self.ends,
                0 if graceful else None,
                None if graceful else 15,
            )
        self.kernel.at(grace, self._kill)

    def _kill(self) -> None:
        if self.alive:
            self.ends(None, 9)
