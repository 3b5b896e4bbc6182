"""One life of an experiment on a few machines, with all its parts."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from tests.simulation.chaos import Chaos
from tests.simulation.copies import StoreDisk
from tests.simulation.database import stored
from tests.simulation.disk import SIZE
from tests.simulation.dispatcher import Health
from tests.simulation.gangs import BARRIER_S
from tests.simulation.host import Host
from tests.simulation.keeper import GPUS
from tests.simulation.kernel import Clock, Kernel
from tests.simulation.limits import narrow
from tests.simulation.network import Network
from tests.simulation.rival import Guest, Rival, Tenant
from tests.simulation.server import Server
from tests.simulation.store import Store
from tests.simulation.user import User
from tests.simulation.witness import Witness

LIMIT = 8 * SIZE  # bytes of all checkpoints in some lives
SETTLE_S = 900.0  # time after the last fault by which everything must have ended
LATEST_FORK_S = 35.0  # time after which even the slowest shim has found its claim taken
CONFIRMING = (1, 8)  # remainders of the seeds of lives with confirmBest
RESIZING = 10  # remainder of the seeds of lives whose scheduler may change resources
GANGS = (23, 18)  # divisor and remainder of the seeds of lives whose trials have members on several hosts
PREEMPTED = 7  # remainder of the seeds of lives whose trials are stopped for another experiment
CERTAIN = ("server crash", "keeper crash", "lost message", "doubled message")


class World:
    """One life. ``run`` raises Violation; ``kernel.story()`` returns the log of the life."""

    def __init__(self, seed: int) -> None:
        self.seed, self.kernel = seed, Kernel(seed)
        chance = self.kernel.random
        self.chaos_s = chance.uniform(60.0, 180.0)
        self.silent_after_s = chance.choice([5.0, 15.0, 30.0])
        self.assessed = chance.random() < 0.7
        self.health = Health({}, size=chance.choice([8, 1000, 1000, 1000]))
        self.far = seed % 4 in (1, 2)  # many machines, and networks with long outages
        self.lease_s: float | None = None
        if seed % 4 == 1:
            self.silent_after_s = 5.0
            self.lease_s = chance.choice([5.0, 10.0, 20.0])
        self.saving = seed // 4 % 2 == 1  # trials save their state
        self.scheduled = self.saving and seed // 16 % 2 == 1
        # best checkpoints of each trial that are kept; in these lives, a user also pins and asks for saves
        self.best = (0, 1, 0, 2)[seed // 32 % 4] if self.saving else 0
        self.copying = self.saving and seed // 8 % 2 == 1  # and the server copies what they have saved
        self.gpus = 1 if seed % 4 == 0 else None  # GPUs that each trial requests
        self.clock = Clock(self.kernel)  # clock of the server's machine
        self.witness = Witness(self.kernel)
        self.store = Store(self.kernel, self.witness, lambda trial_id: self.user.job_placed(trial_id))
        self.copies = self.witness.checkpoints.copies.disk = StoreDisk(self.kernel, self.witness)
        self._network = network = Network(self.kernel)
        self.hosts = [Host(self.kernel, name, network, self.witness) for name in self._names()]
        self.witness.evidence.hosts = {host.name: host for host in self.hosts}
        phased = seed % 4 == 3
        self.nodes = 1  # number of the hosts of each trial
        self.least_nodes: int | None = None
        self.sharing = False  # trials need whole machines, and give up members for others
        self._size_gangs(seed, phased=phased)
        self.witness.evidence.phased = (
            random.Random(seed) if phased else None
        )  # its own random source, so that other lives do not change
        self.witness.evidence.leased = self.lease_s is not None
        self.witness.evidence.saving = self.saving
        self.created = _experiment(
            self.kernel,
            phased=phased,
            far=self.far,
            saving=self.saving,
            copying=self.copying,
            best=self.best,
        )
        if self.nodes > 1:
            self.created = _in_gangs(self.created, self.nodes)
        if seed % 11 in CONFIRMING and not phased:  # the best trials are run again
            self.created = _confirming(self.created)
        if seed % 11 == RESIZING:
            limits = replace(self.created.limits, resizable=("trialCpuNumber",))
            self.created = replace(self.created, limits=limits)
        self.created = _growing(
            self.created, self.least_nodes, self.nodes, at_once=2 if self.sharing and seed % 3 == 0 else 1
        )
        if seed % 17 == PREEMPTED:
            Rival(self)
        Tenant(self)
        Guest(self)
        self._servers: list[Server] = []
        self.user = User(self)
        network.greeted = self.user.keeper_greets
        self.serves(self._make_server())
        Chaos(self)

    def _size_gangs(self, seed: int, *, phased: bool) -> None:
        """Choose how many hosts each trial has, and whether this may vary."""
        if seed % GANGS[0] == GANGS[1] and not phased:
            self.nodes = 3 if len(self.hosts) > 3 and seed % 2 else 2
        if self.nodes > 1 and self.saving and seed % 5:
            self.least_nodes = 1 if seed % 3 == 0 else self.nodes - 1
            self.sharing = seed % 7 < 5
            self.gpus = GPUS if self.sharing else 1  # so that there is not always room for all members
        self.witness.gangs.sizes = range(self.least_nodes or self.nodes, self.nodes + 1)

    def _names(self) -> list[str]:
        names = ["ash", "elm", "oak", "fir", "yew"]
        return names[: self.kernel.random.randint(3, 5)] if self.far else names[:2]

    # ---- servers ------------------------------------------------------------------------------------------

    def _start_server(self) -> None:
        if self.server.alive:
            return
        self.serves(self._make_server())

    def serves(self, server: Server) -> None:
        """Make this the current server, which has the database or is about to get it."""
        self.server = self._network.server = server

    def _make_server(self) -> Server:
        server = Server(self, self.clock, len(self._servers) + 1)
        self._servers.append(server)
        return server

    def start_second_server(self) -> None:
        """Start a second server, which finds the database locked."""
        if self.server.alive:
            self._make_server()

    def server_ended(self) -> None:
        self._network.server_died()
        self.kernel.at(self.kernel.random.choice([0.1, 1.0, 5.0]), self._start_server)

    # ---- the end ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run from the first turn to the end of the experiment. Raises Violation."""
        kernel = self.kernel
        with _quiet(), narrow(kernel):
            try:
                kernel.run(self.chaos_s)
                self._calm()
                while not self._settled():
                    if kernel.now > self.chaos_s + SETTLE_S:
                        self._limbo()
                    kernel.run(kernel.now + LATEST_FORK_S)
                self._check_end()
                if kernel.failure is not None:
                    raise kernel.failure
            finally:
                for server in self._servers:
                    server.loop.bury()

    def _calm(self) -> None:
        """End the faults."""
        self.kernel.say("world", "the faults stop")
        self.kernel.faults = False
        for host in self.hosts:
            host.cut = host.full = host.busy = False

    def _settled(self) -> bool:
        if self.witness.evidence.leftovers():
            return False
        runner = self.server.runner
        if runner is None or runner.search is not None or runner.session.service is not None:
            return False
        state = runner.state
        over = state.status is f.ExperimentStatus.DONE or (
            state.status is f.ExperimentStatus.STOPPED and not state.detached and not self.user.wants_it
        )
        return over and state.number == len(self.store.log)  # equal: no turn is being committed

    def _limbo(self) -> None:
        state = self.store.fold()
        live = {trial.id: (trial.status, trial.reason) for trial in state.trials.values()}
        self.kernel.fail(
            f"the experiment does not end: {state.status} ({state.reason}), {live}, {state.jobs}"
        )

    def _check_end(self) -> None:
        runner = self.server.runner
        assert runner is not None
        self.witness.check_end(runner.state.status)
        if runner.state.status is f.ExperimentStatus.DONE:
            self.witness.log.confirmations.done(runner.state)
        self.check_log(runner.state)
        for host in self.hosts:
            self.witness.checkpoints.deletions.left(host, runner.state.keepers.get(host.name))
        log, curves = stored(runner.state, self.store.log)
        if log != self.store.log:
            self.kernel.fail("the log changes when it is read from its rows")
        self.witness.checkpoints.stored(curves)

    def check_log(self, state: ExperimentState) -> None:
        """Check that the state in memory equals the state from the log."""
        if self.store.fold() != state:
            self.kernel.fail("the state from the log differs from the server's")


def _experiment(
    kernel: Kernel, *, phased: bool, far: bool, saving: bool, copying: bool, best: int
) -> f.ExperimentCreated:
    chance = kernel.random
    concurrency, number = chance.randint(1, 5), chance.randint(6, 12)
    fail_fast = 1 if number % 3 == 0 else 0
    kept, within, retries = 2, 30, 0
    limit = LIMIT if best == 2 else None
    if saving:
        kept, within, retries = chance.choice([1, 1, 2, 3]), chance.choice([2, 10, 30]), chance.choice([0, 2])
    config = {
        "trialCommand": "true",
        "trialCodeDirectory": "/",
        "experimentWorkingDirectory": "/",
        "tuner": {"name": "Random"},
        "trainingService": {"platform": "local"},
        "trialConcurrency": concurrency,
        "maxTrialNumber": number,
        "failFast": fail_fast,
        "checkpoints": {
            "keepLast": kept,
            "keepBest": best,
            "saveWithin": f"{within}s",
            "keep": "newest" if copying else "none",
            **({} if limit is None else {"limit": f"{limit}b"}),
        },
        "maxRetries": {"userError": retries},
        **({"multiPhase": True} if phased else {}),
    }
    return f.ExperimentCreated(
        experiment_id="exp",
        config=config,
        search_space={"x": {"_type": "uniform", "_value": [0, 1]}},
        limits=f.Limits(
            trial_concurrency=concurrency,
            max_trial_number=number,
            multi_phase=phased,
            fail_fast=fail_fast,
            max_failed_attempts=retries,
            checkpoints_kept=kept,
            checkpoints_best=best,
            checkpoints_limit=limit,
            keeps_copies=copying,
            save_within=timedelta(seconds=within),
            slot_held_for=timedelta(seconds=chance.choice([10, 40, 600]) if far else 600),
        ),
        traits=f.TunerTraits(minimises=best == 1),
    )


def _in_gangs(created: f.ExperimentCreated, nodes: int) -> f.ExperimentCreated:
    """Return the same experiment with members of each trial on several hosts.

    The configuration allows them on one host, because it knows of one only.
    """
    config = {**created.config, "gang": {"nodes": nodes, "sameHost": True, "exitBarrier": f"{BARRIER_S:g}s"}}
    limits = replace(created.limits, exit_barrier=timedelta(seconds=BARRIER_S))
    return replace(created, config=config, limits=limits)


def _confirming(created: f.ExperimentCreated) -> f.ExperimentCreated:
    """Return the same experiment with runs that confirm its two best trials."""
    rule = f.ConfirmBest(top=2, runs=2)
    config = {**created.config, "confirmBest": {"top": rule.top, "runs": rule.runs}}
    return replace(created, config=config, limits=replace(created.limits, confirm_best=rule))


def _growing(
    created: f.ExperimentCreated, least: int | None, most: int, *, at_once: int
) -> f.ExperimentCreated:
    """Return the same experiment with a number of members that may vary, and few trials ``at_once``, so that
    there is room for more members. ``least`` None: return it as it is.
    """
    if least is None:
        return created
    members = f.MemberRange(least=least, most=most, grow_after=timedelta(seconds=1))
    gang = {**created.config["gang"], "nodes": f"{least}:{most}", "growAfter": "1s"}
    config = {**created.config, "trialConcurrency": at_once, "gang": gang}
    limits = replace(created.limits, members=members, trial_concurrency=at_once)
    return replace(created, config=config, limits=limits)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the product's log, which reports every fault."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
