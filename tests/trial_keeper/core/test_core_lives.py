"""Random lives of a keeper: crashes, lost answers, slow shims, new servers, full disks, power loss."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.trial_keeper.core.rig import BOOT, Rig, start, stop
from trial_keeper import wire

JOBS = [f"e-{letter}-1" for letter in "abcdefghij"]
ENDLESS = JOBS[-1]  # ends only when it is signalled


class Server:
    """Server that takes frames once and in order. A restart loses uncommitted frames."""

    def __init__(self) -> None:
        self.epoch = 1
        self.frames: dict[str, list[bytes]] = {job: [] for job in JOBS}
        self.committed: dict[str, int] = dict.fromkeys(JOBS, 0)
        self.finals: dict[str, wire.Final] = {}
        self.started: set[str] = set()
        self.committed_started: set[str] = set()
        self.commands: list[list[Any]] = []
        self.acked = 0

    def order(self, command: list[Any]) -> None:
        command[0] = len(self.commands) + 1
        self.commands.append(command)

    def commit(self) -> None:
        self.committed = {job: len(frames) for job, frames in self.frames.items()}
        self.committed_started = set(self.started)

    def renew(self) -> None:
        self.epoch += 1
        self.started = set(self.committed_started)
        for job, count in self.committed.items():
            del self.frames[job][count:]

    def take(self, header: wire.ReportHeader, payloads: list[bytes]) -> dict[str, Any]:
        self.acked = max(self.acked, header["acked_cmd"])
        cut = wire.decode_request(wire.encode_request(header, payloads))[1]
        rewind, done = {}, []
        for job, entry in header["attempts"].items():
            frames = self.frames[job]
            for position, payload in enumerate(cut[job], entry["from"]):
                if position > len(frames):
                    rewind[job] = len(frames)
                    break
                if position == len(frames):
                    assert job not in self.finals, "a metric after the end"
                    frames.append(payload)
                assert frames[position] == payload
            if entry["started"] is not None:
                self.started.add(job)
            final = entry["final"]
            if final is not None and (len(frames) >= final["n"] or job in self.finals):
                self.commit()
                assert self.finals.setdefault(job, final)["n"] == final["n"]  # the first one counts
                done.append(job)
        return {
            "m_epoch": self.epoch, "rewind": rewind, "done": done, "acks": dict(self.committed),
            "cmds": self.commands[max(self.acked, header["seen_cmd"]) :],
        }  # fmt: skip


class Life:
    """One keeper, one server, and one source of randomness."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig = Rig()
        self.server = Server()
        self.written: dict[str, list[bytes]] = {job: [] for job in JOBS}
        self.power_lost = False
        self.running: list[str] = []  # at power loss
        for job in JOBS:
            self.server.order(start(0, job))

    def live(self) -> list[str]:
        claims = self.rig.claims
        return [job for job, each in claims.items() if each.pid in self.rig.alive and each.exit is None]

    def ending(self) -> list[str]:
        """Return the attempts that may end now."""
        signalled = {job for job, _ in self.rig.signalled}
        return [job for job in self.live() if job != ENDLESS or job in signalled]

    def step(self) -> None:
        rig, chance = self.rig, self.chance
        acts = [
            (30, self.answer), (6, self.fail), (4, self.crash), (2, self.lose_shim), (3, self.server.renew),
            (6, self.server.commit),
            (8, rig.flush), (20, self.claim), (30, self.write), (3, self.exit), (2, self.stop),
            (1, self.kill_shim), (10, lambda: rig.wait(chance.choice([0.01, 0.1, 2.0]))), (2, self.fill_disk),
            (2, self.hide_shims), (1, self.lose_power),
        ]  # fmt: skip
        chance.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def answer(self) -> None:
        if self.rig.calls:
            channel = self.chance.choice(list(self.rig.calls))
            order = self.rig.calls[channel]
            answer = self.server.take(order.header, order.payloads)
            if self.chance.random() < 0.1:  # the server received the call, but its answer is lost
                self.rig.fail(channel)
            else:
                self.rig.answer(channel, **answer)

    def fail(self) -> None:
        if self.rig.calls:
            self.rig.fail(self.chance.choice(list(self.rig.calls)))

    def crash(self) -> None:
        """Kill the keeper, perhaps before it forks the requested shims."""
        for job in JOBS:
            if job in self.rig.spawned and self.chance.random() < 0.3:
                self.rig.spawned.remove(job)
        self.rig.start()

    def lose_shim(self) -> None:
        """Kill a shim before its claim."""
        if self.rig.spawned:
            job = self.chance.choice(self.rig.spawned)
            self.rig.spawned.remove(job)
            self.rig.run(self.rig.core.shim_failed(self.rig.now, job, "killed"))

    def claim(self) -> None:
        """Let a spawned shim make its claim."""
        if self.rig.spawned and self.rig.boot == BOOT:
            job = self.chance.choice(self.rig.spawned)
            if job not in self.rig.claims:
                self.rig.claim(job)

    def write(self) -> None:
        for job in self.live()[:1]:
            payloads = [b"%d" % (len(self.written[job]) + i) for i in range(self.chance.randint(1, 4))]
            self.written[job] += payloads
            self.rig.write(job, *payloads)

    def exit(self) -> None:
        for job in self.ending()[:1]:
            signalled = job in {each for each, _ in self.rig.signalled}
            self.rig.exit(job, self.chance.choice([0, 1]), signalled=signalled)

    def stop(self) -> None:
        self.server.order(stop(0, self.chance.choice(JOBS)))

    def kill_shim(self) -> None:
        for job in self.live()[:1]:
            self.rig.kill_shim(job)

    def fill_disk(self) -> None:
        self.rig.disk_full = not self.rig.disk_full

    def hide_shims(self) -> None:
        self.rig.unreachable = not self.rig.unreachable

    def lose_power(self) -> None:
        if self.chance.random() < 0.3 and self.rig.boot == BOOT:
            self.running = self.live()
            self.power_lost = True
            self.rig.power_loss(self.chance.randint(self.rig.durable, len(self.rig.journal)))
            self.rig.start()

    def settle(self) -> None:
        """Stop the faults, and check that every attempt ends."""
        rig = self.rig
        rig.disk_full = rig.unreachable = False
        self.server.order(stop(0, ENDLESS))
        for _ in range(600):
            if len(self.server.finals) == len(JOBS) and not rig.core.attempts:
                return
            for job in JOBS:
                if rig.boot == BOOT and job in rig.spawned and job not in rig.claims:
                    rig.claim(job)
            for job in self.ending():
                rig.exit(job)
            for channel in list(rig.calls):
                order = rig.calls[channel]
                rig.answer(channel, **self.server.take(order.header, order.payloads))
            rig.flush()
            rig.wait(0.5)
        raise AssertionError(f"these never ended: {set(JOBS) - set(self.server.finals)}, {rig.core.attempts}")


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    life = Life(seed)
    for _ in range(400):
        life.step()
    life.settle()
    for job in JOBS:
        assert life.server.frames[job] == life.written[job], job
        final = life.server.finals[job]
        assert final["n"] == len(life.written[job])
        claim = life.rig.claims.get(job)
        if claim is not None and claim.exit is not None and not life.power_lost:
            assert final["code"] == claim.exit.code
            assert job in life.server.started
        if final["reason"] == wire.HOST_LOST:
            assert life.power_lost
        if job in life.running:
            assert final["reason"] == wire.HOST_LOST
        if claim is None or claim.pid is None:
            assert final["reason"] in ("never_started", wire.HOST_LOST)
