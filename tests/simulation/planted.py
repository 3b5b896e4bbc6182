"""Bugs to plant: each removes one rule from the product, or from its environment, for a while.

Rules that another rule backs up are not here, because no run can show their loss: the order check of the
keeper's commands, the server's check for stale requests, the second spawn after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from nnimgr.core.running import runner, search, service_session
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from nnimgr.rules import fold, fold_jobs, fold_trials, phases, silent_hosts
from nnimgr.rules.state import ExperimentState
from tests.simulation import server
from tests.simulation.disk import Files
from tests.simulation.host import Host
from tests.simulation.shim import Shim
from tests.simulation.store import Store
from training_services.base import JobEvent, JobPlaced, TrialJobSpec
from training_services.keepers import lease
from training_services.keepers.commands import Commands
from training_services.keepers.inventory import Inventory
from training_services.keepers.job import End
from training_services.keepers.jobs import Jobs
from training_services.keepers.link import KeeperLink
from training_services.keepers.request import Attempt as Reported
from training_services.keepers.request import Request
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.service import KeeperService
from trial_keeper.core import attempts, ends, stops
from trial_keeper.core import effects as fx
from trial_keeper.core.attempt import Attempt
from trial_keeper.core.attempts import Attempts
from trial_keeper.core.commands import Decision
from trial_keeper.core.exchange import Exchange
from trial_keeper.core.lease import Lease

Plant = Callable[[], AbstractContextManager[None]]
PLANTED: dict[str, Plant] = {}


def planted(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
    PLANTED[make.__name__] = contextmanager(make)
    return make


# ---- between the two --------------------------------------------------------------------------------------


@planted
def updates_not_adopted() -> Iterator[None]:
    """After a restart, the parameter sets ordered for running trials are forgotten."""
    spec = service_session.job_spec

    def without(*args: Any, **kwargs: Any) -> Any:
        return replace(spec(*args, **kwargs), updates=())

    with patch.object(service_session, "job_spec", without):
        yield


@planted
def results_not_taken() -> Iterator[None]:
    """Only the first of several results in one turn is recorded."""
    step = phases.take_final

    def once(state: ExperimentState, *rest: Any) -> None:
        if not state.reported:
            step(state, *rest)

    with patch.object(fold_jobs, "take_final", once):
        yield


@planted
def algorithms_hear_of_confirmations() -> Iterator[None]:
    """The tuner, the assessor and the scheduler hear of runs that only confirm other trials."""
    with patch.object(search, "about_confirmation", lambda *args: False):
        yield


@planted
def canceled_confirmations_not_repeated() -> Iterator[None]:
    """A confirmation that a stop of the experiment has canceled counts as made."""
    with patch.object(fold_trials, "count_canceled", lambda state, trial: None):
        yield


@planted
def seeds_not_rebuilt() -> Iterator[None]:
    """A start that is sent again after a restart of the server has no seed."""
    spec = service_session.job_spec

    def without(*args: Any, **kwargs: Any) -> Any:
        made = spec(*args, **kwargs)
        return replace(made, seed=None) if kwargs.get("progress") else made

    with patch.object(service_session, "job_spec", without):
        yield


@planted
def resources_not_rebuilt() -> Iterator[None]:
    """A start that is sent again after a restart of the server has the resources of the configuration."""
    spec = service_session.job_spec

    def without(*args: Any, **kwargs: Any) -> Any:
        made = spec(*args, **kwargs)
        return replace(made, resources={}) if kwargs.get("progress") else made

    with patch.object(service_session, "job_spec", without):
        yield


# ---- on the host ------------------------------------------------------------------------------------------


@planted
def no_claim_fence() -> Iterator[None]:
    """The claim does not prevent a second shim from starting the command."""

    def take(self: Files, line: bytes) -> bool:
        self.claim = line
        return True

    with patch.object(Files, "take", take):
        yield


@planted
def kill_after_count() -> Iterator[None]:
    """Processes that a killed shim has left are killed only after its frames are counted."""
    with patch.object(Shim, "sweep", lambda self: False):
        yield


@planted
def spawn_before_the_record() -> Iterator[None]:
    """A shim is forked before the start is in the journal."""
    decide = Attempts.decide

    def early(self: Attempts, now: float, seq: int, kind: str, job: str, body: Any) -> Decision:
        if kind == "start" and job not in self._held.attempts:
            self._held.out.append(fx.Spawn(job, body))
        return decide(self, now, seq, kind, job, body)

    with patch.object(Attempts, "decide", early):
        yield


@planted
def stop_never_journaled() -> Iterator[None]:
    """A stop is carried out and acknowledged, but not journaled, so a restarted keeper forgets it."""
    with patch.object(stops, "stop_record", lambda attempt: {"k": "nop"}):
        yield


@planted
def claims_not_remembered() -> Iterator[None]:
    """Only the claim file shows that an attempt was started, and a trial can remove that file."""
    with patch.object(attempts, "claimed_record", lambda attempt: {"k": "nop"}):
        yield


@planted
def vanished_claims_trusted() -> Iterator[None]:
    """An attempt without a claim file is waited for, even if its processes have ended."""
    with patch.object(Attempts, "_judge_unread", lambda self, now, attempt, alive: None):
        yield


@planted
def acknowledged_commands_forgotten() -> Iterator[None]:
    """Commands that a keeper has acknowledged are not sent again after it lost the end of its journal."""
    take = KeeperLink._take_acknowledgement

    def forgetful(self: KeeperLink, request: Request, events: list[JobEvent]) -> None:
        take(self, request, events)
        self.commands._orders.forget(range(self.commands.acked + 1))

    with patch.object(KeeperLink, "_take_acknowledgement", forgetful):
        yield


@planted
def used_numbers_given_again() -> Iterator[None]:
    """A server ignores how far the experiment had come before its database was replaced."""

    def hopeful(state: ExperimentState, *, m_epoch: int, missing: Any) -> list[f.Fact]:
        return [f.ExperimentOpened(m_epoch=m_epoch)]

    with patch.object(server, "opening_facts", hopeful):
        yield


@planted
def used_numbers_taken_for_obeyed() -> Iterator[None]:
    """Orders of an older database keep used numbers, and the keeper ignores these orders."""
    with patch.object(Jobs, "renumber", lambda self, seen: None):
        yield


@planted
def lost_start_run_again() -> Iterator[None]:
    """After another boot, a start without a claim counts as never started, and is run."""
    judge = Attempts._judge

    def hopeful(self: Attempts, now: float, attempt: Attempt, seen: fx.Seen) -> None:
        if seen.claim is None and not self._held.here(attempt) and attempt.start is not None:
            attempt.boot_id = self._held.boot_id
        judge(self, now, attempt, seen)

    with patch.object(Attempts, "_judge", hopeful):
        yield


@planted
def identity_by_handle() -> Iterator[None]:
    """The process of an attempt is the shim spawned last, instead of the shim in the claim."""

    def looks_alive(self: Host, job: str, pid: int, start_time: str) -> bool:
        handles = [shim for shim in self.shims if shim.job == job and shim.keeper is self.keeper]
        return handles[-1].alive if handles else self.find(pid, start_time) is not None

    claim = Shim._claim

    def watched(self: Shim) -> None:
        claim(self)
        if not self.alive:
            self.host.shim_gone(self)

    with patch.object(Host, "looks_alive", looks_alive), patch.object(Shim, "_claim", watched):
        yield


@planted
def no_epoch_check() -> Iterator[None]:
    """A keeper obeys every server that answers, even one that died long ago.

    With one lock per database, a dead server's answers are still correct. So only the rule itself is checked.
    """

    def obeyed(self: Exchange, answer: dict[str, Any]) -> str | None:
        return None if answer["instance"] == self._identity.instance else "another instance"

    with patch.object(Exchange, "_disobeyed", obeyed):
        yield


# ---- in the hub -------------------------------------------------------------------------------------------


@planted
def end_before_its_frames() -> Iterator[None]:
    """The end is taken at once, even if earlier frames are missing."""
    report = Jobs.report

    def hasty(self: Jobs, job: Any, attempt: Reported) -> list[JobEvent]:
        events = report(self, job, attempt._replace(final=None))
        return events if attempt.final is None else events + self._seal(job, attempt.final)

    with patch.object(Jobs, "report", hasty):
        yield


@planted
def no_deduplication() -> Iterator[None]:
    """Every frame that arrives counts as new, even a repeated one."""
    report = Jobs.report

    def naive(self: Jobs, job: Any, attempt: Reported) -> list[JobEvent]:
        return report(self, job, attempt._replace(first=job.received))

    with patch.object(Jobs, "report", naive):
        yield


@planted
def inventory_trusted_early() -> Iterator[None]:
    """An attempt that a keeper does not list counts as lost, even if its start has not arrived yet."""
    seek = Jobs.seek_missing

    def early(self: Jobs, request: Request) -> list[JobEvent]:
        return seek(self, request._replace(acked_cmd=10**9))

    with patch.object(Jobs, "seek_missing", early):
        yield


@planted
def boot_of_the_sending() -> Iterator[None]:
    """A start names the keeper's current boot, instead of the boot on which it was placed."""
    answer = KeeperLink.answer

    def present(self: KeeperLink, request: Request) -> dict[str, Any]:
        made = answer(self, request)
        made["cmds"] = [
            (seq, kind, job, {**body, "boot_id": self.caller.boot_id} if kind == "start" else body)
            for seq, kind, job, body in made["cmds"]
        ]
        return made

    with patch.object(KeeperLink, "answer", present):
        yield


@planted
def withdrawn_start_sent() -> Iterator[None]:
    """A start that was given up before it was sent is sent nevertheless."""
    with (
        patch.object(Commands, "_is_void", lambda self, seq, command, job: False),
        patch.object(Commands, "_body", lambda self, command, job: command.body),
    ):
        yield


# ---- the lease --------------------------------------------------------------------------------------------


@planted
def start_not_revoked() -> Iterator[None]:
    """A start that has not left yet leaves, though its attempt was given up by its lease."""
    with (
        patch.object(Commands, "_is_void", lambda self, seq, command, job: command.withdrawn),
        patch.object(Commands, "_body", lambda self, command, job: command.body),
    ):
        yield


@planted
def lease_in_the_keeper_only() -> Iterator[None]:
    """Only the keeper, and no shim, ends attempts when the lease has ended."""
    write = Host.write_lease

    def watched(self: Host, order: fx.Extend) -> None:
        write(self, order)
        self.kernel.at((order.until - self.boottime()) / self.clock.rate, enforce, self, order)

    def enforce(host: Host, order: fx.Extend) -> None:
        if host.keeper is not None and host.leases == {order.number: order.until}:
            for shim in host.shims:
                shim.terminate()

    with (
        patch.object(Host, "write_lease", watched),
        patch.object(Shim, "may_begin", lambda self: True),
        patch.object(Shim, "_mind_lease", lambda self: None),
    ):
        yield


@planted
def no_wait_after_server_start() -> Iterator[None]:
    """A server that starts assumes that no host got an answer for a long time."""
    begin = KeeperSeat.open

    def hasty(self: KeeperSeat) -> None:
        begin(self)
        if self._lease is not None:
            self.desk.answered_at = -1e9
            self._lease._look()

    with patch.object(KeeperSeat, "open", hasty):
        yield


@planted
def lease_on_the_wall_clock() -> Iterator[None]:
    """The end of the lease is measured by a wall clock, which can be set."""

    def write(self: Host, order: fx.Extend) -> None:
        self._lease_number = order.number
        self.leases = {order.number: order.until - self.boottime() + self.clock.unix()}

    def find(self: Host) -> tuple[int, float]:
        until = self.leases.get(self._lease_number, 0.0)
        return self._lease_number, until - self.clock.unix() + self.boottime()

    with (
        patch.object(Host, "write_lease", write),
        patch.object(Host, "find_lease", find),
        patch.object(Shim, "lease_clock", lambda self: self.host.clock.unix()),
    ):
        yield


@planted
def begins_without_a_lease() -> Iterator[None]:
    """A shim checks the lease only when its command already runs."""
    with patch.object(Shim, "may_begin", lambda self: True):
        yield


@planted
def late_answers_obeyed() -> Iterator[None]:
    """Every answer of the server extends the lease, even after the lease has ended."""
    with patch.object(Lease, "refuses", lambda self, *args, **kwargs: False):
        yield


@planted
def margin_forgotten() -> Iterator[None]:
    """The server does not allow for clocks of different speed, nor for the time that killing takes."""
    with patch.object(lease, "LEASE_CLOCKS", 1.0), patch.object(lease, "LEASE_KILL_S", 0.0):
        yield


# ---- in the core and the database -------------------------------------------------------------------------


@planted
def terminal_overwritten() -> Iterator[None]:
    """A second end of an attempt counts as news."""
    admits = fold.admits

    def gullible(state: ExperimentState, fact: f.Fact) -> bool:
        if isinstance(fact, f.JobEnded | f.JobLost) and fact.job_id in state.jobs:
            return True
        return admits(state, fact)

    report = Jobs.report

    def again(self: Jobs, job: Any, attempt: Reported) -> list[JobEvent]:
        events = report(self, job, attempt)
        if attempt.final is not None and job.end is End.TOLD:
            job.end = End.NONE
        return events

    with patch.object(runner, "admits", gullible), patch.object(Jobs, "report", again):
        yield


@planted
def acknowledged_before_commit() -> Iterator[None]:
    """Commands leave and keepers are answered before the facts behind them are durable."""
    commit = ExperimentRunner._commit

    async def hasty(self: ExperimentRunner, turn: Any) -> None:
        if self.session.service is not None:
            self.session.service.committed([r.fact for r in turn.recorded if isinstance(r.fact, f.JobEvent)])
        await commit(self, turn)

    with patch.object(ExperimentRunner, "_commit", hasty):
        yield


@planted
def gpus_not_rebuilt() -> Iterator[None]:
    """A server that starts does not know which GPUs the running jobs hold."""
    adopt = KeeperService._adopt

    def forgetful(self: KeeperService, job: TrialJobSpec, placed: JobPlaced) -> None:
        adopt(self, job, placed)
        for machine in self._ledger._machines.values():
            machine.held.pop(job.id, None)

    with patch.object(KeeperService, "_adopt", forgetful):
        yield


@planted
def unwanted_attempts_not_awaited() -> Iterator[None]:
    """A machine takes new jobs while attempts that were given up still run there.

    A stop gives attempts up sooner than it should, because few lives meet one that was given up.
    """
    with (
        patch.object(silent_hosts, "_stop_limit", lambda state: silent_hosts.STOP_LIMIT),
        patch.object(Inventory, "unwanted", False),
        patch.object(Inventory, "lists", lambda self, job_id: False),
    ):
        yield


@planted
def commit_not_durable() -> Iterator[None]:
    """A commit stays in the page cache: if the server's machine loses power, the last commits are lost."""

    def lose_power(self: Store) -> None:
        if self.cut(self.kernel.random.randint(1, 15)):
            self._snapshot = self.mark = None

    with patch.object(Store, "lose_power", lose_power):
        yield


@planted
def signals_of_ending_hosts_believed() -> Iterator[None]:
    """A command that a signal to all processes of its host has ended counts as failed at once."""
    with patch.object(ends, "doubt", lambda attempt, now: None):
        yield
