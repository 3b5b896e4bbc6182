"""Bugs to plant: each takes one rule out of the product, or out of what it stands on, for a while.

Not here, because another rule covers each of them and no run can tell the difference: the order check of the
keeper's commands, the server's check for stale requests, the second spawn after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from nnimgr.core.running import runner, service_session
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from nnimgr.rules import fold, fold_jobs, phases
from nnimgr.rules.state import ExperimentState
from tests.simulation import server
from tests.simulation.disk import Files
from tests.simulation.host import Host
from tests.simulation.shim import Shim
from tests.simulation.store import Store
from training_services import keeper_link, keeper_seat
from training_services.base import JobEvent, JobPlaced, TrialJobSpec
from training_services.keeper_link import KeeperLink
from training_services.keeper_request import Attempt as Reported
from training_services.keeper_request import Request
from training_services.keeper_seat import KeeperSeat
from training_services.keeper_service import KeeperService
from trial_keeper import core
from trial_keeper import effects as fx
from trial_keeper.attempt import Attempt
from trial_keeper.commands import Decision
from trial_keeper.core import KeeperCore
from trial_keeper.lease import Lease

Plant = Callable[[], AbstractContextManager[None]]
PLANTED: dict[str, Plant] = {}


def planted(make: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
    PLANTED[make.__name__] = contextmanager(make)
    return make


# ---- between the two --------------------------------------------------------------------------------------


@planted
def updates_not_adopted() -> Iterator[None]:
    """After a restart nothing is known of parameter sets that running trials were to get."""
    spec = service_session.job_spec

    def without(*args: Any, **kwargs: Any) -> Any:
        return replace(spec(*args, **kwargs), updates=())

    with patch.object(service_session, "job_spec", without):
        yield


@planted
def results_not_taken() -> Iterator[None]:
    """Of a turn's results only the first is taken."""
    step = phases.take_final

    def once(state: ExperimentState, *rest: Any) -> None:
        if not state.reported:
            step(state, *rest)

    with patch.object(fold_jobs, "take_final", once):
        yield


# ---- on the host ------------------------------------------------------------------------------------------


@planted
def no_claim_fence() -> Iterator[None]:
    """The claim does not keep a second shim from starting the command."""

    def take(self: Files, line: bytes) -> bool:
        self.claim = line
        return True

    with patch.object(Files, "take", take):
        yield


@planted
def kill_after_count() -> Iterator[None]:
    """What a killed shim has left is not killed before its frames are counted."""
    with patch.object(Shim, "sweep", lambda self: False):
        yield


@planted
def spawn_before_the_record() -> Iterator[None]:
    """A shim is forked before the journal knows of the start."""
    decide = KeeperCore._decide

    def early(self: KeeperCore, now: float, seq: int, kind: str, job: str, body: Any) -> Decision:
        if kind == "start" and job not in self.attempts:
            self._out.append(fx.Spawn(job, body))
        return decide(self, now, seq, kind, job, body)

    with patch.object(KeeperCore, "_decide", early):
        yield


@planted
def stop_never_journaled() -> Iterator[None]:
    """A stop is acted on and acknowledged, but a keeper that starts anew knows nothing of it."""
    with patch.object(core, "stop_record", lambda attempt: {"k": "nop"}):
        yield


@planted
def claims_not_remembered() -> Iterator[None]:
    """Only the claim file says that an attempt was started, and a trial can remove that."""
    with patch.object(core, "claimed_record", lambda attempt: {"k": "nop"}):
        yield


@planted
def vanished_claims_trusted() -> Iterator[None]:
    """An attempt whose claim is gone is still waited for, whatever became of its processes."""
    with patch.object(KeeperCore, "_judge_unread", lambda self, now, attempt, alive: None):
        yield


@planted
def acknowledged_commands_forgotten() -> Iterator[None]:
    """A keeper that has lost the end of its journal is not sent those commands again."""
    take = KeeperLink._take_acknowledgement

    def forgetful(self: KeeperLink, request: Request, events: list[JobEvent]) -> None:
        take(self, request, events)
        self._orders.forget(range(self._acked_cmd + 1))

    with patch.object(KeeperLink, "_take_acknowledgement", forgetful):
        yield


@planted
def used_numbers_given_again() -> Iterator[None]:
    """A server does not look at how far the experiment had come before its database was replaced."""

    def hopeful(state: ExperimentState, *, m_epoch: int, missing: Any) -> list[f.Fact]:
        return [f.ExperimentOpened(m_epoch=m_epoch)]

    with patch.object(server, "opening_facts", hopeful):
        yield


@planted
def used_numbers_taken_for_obeyed() -> Iterator[None]:
    """Orders of an older database keep numbers that their keeper has seen already, and it ignores them."""
    with patch.object(KeeperLink, "_renumber", lambda self, seen: None):
        yield


@planted
def lost_start_run_again() -> Iterator[None]:
    """After another boot, a start without a claim counts as never started and is run."""
    judge = KeeperCore._judge

    def hopeful(self: KeeperCore, now: float, attempt: Attempt, seen: fx.Seen) -> None:
        if seen.claim is None and not self._here(attempt) and attempt.start is not None:
            attempt.boot_id = self._identity.boot_id
        judge(self, now, attempt, seen)

    with patch.object(KeeperCore, "_judge", hopeful):
        yield


@planted
def identity_by_handle() -> Iterator[None]:
    """The process of an attempt is the shim that was spawned last, not the one in the claim."""

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
    """A keeper obeys whichever server answers, also one that died long ago.

    Under one lock all that a dead server has said is true, so the rule itself is what is seen broken.
    """

    def obeyed(self: KeeperCore, answer: dict[str, Any]) -> str | None:
        return None if answer["instance"] == self._identity.instance else "another instance"

    with patch.object(KeeperCore, "_disobeyed", obeyed):
        yield


# ---- in the hub -------------------------------------------------------------------------------------------


@planted
def end_before_its_frames() -> Iterator[None]:
    """The end is taken as it comes, whatever of the stream before it is missing."""
    report = KeeperLink._report

    def hasty(self: KeeperLink, job_id: str, job: Any, attempt: Reported, events: list[JobEvent]) -> None:
        report(self, job_id, job, attempt._replace(final=None), events)
        if attempt.final is not None:
            self._seal(job_id, job, attempt.final, events)

    with patch.object(KeeperLink, "_report", hasty):
        yield


@planted
def no_deduplication() -> Iterator[None]:
    """Every frame that comes is news."""
    report = KeeperLink._report

    def naive(self: KeeperLink, job_id: str, job: Any, attempt: Reported, events: list[JobEvent]) -> None:
        report(self, job_id, job, attempt._replace(first=job.received), events)

    with patch.object(KeeperLink, "_report", naive):
        yield


@planted
def inventory_trusted_early() -> Iterator[None]:
    """What a keeper does not list is lost, whether its start has arrived or not."""
    take = KeeperLink._take_inventory

    def early(self: KeeperLink, request: Request, events: list[JobEvent]) -> None:
        take(self, request._replace(acked_cmd=10**9), events)

    with patch.object(KeeperLink, "_take_inventory", early):
        yield


@planted
def boot_of_the_sending() -> Iterator[None]:
    """A start names the boot that its keeper is in now, not the one that it was placed on."""
    outgoing = KeeperLink._outgoing

    def present(self: KeeperLink) -> list[Sequence[Any]]:
        return [
            (seq, kind, job, {**body, "boot_id": self.boot_id} if kind == "start" else body)
            for seq, kind, job, body in outgoing(self)
        ]

    with patch.object(KeeperLink, "_outgoing", present):
        yield


@planted
def withdrawn_start_sent() -> Iterator[None]:
    """A start that was given up before it was sent leaves all the same."""
    with patch.object(KeeperLink, "_is_void", lambda self, seq, command, job: False):
        yield


# ---- the lease --------------------------------------------------------------------------------------------


@planted
def start_not_revoked() -> Iterator[None]:
    """A start that has not left yet leaves, though its attempt was given up by its lease."""
    with patch.object(KeeperLink, "_is_void", lambda self, seq, command, job: command.withdrawn):
        yield


@planted
def lease_in_the_keeper_only() -> Iterator[None]:
    """The keeper ends what runs when the lease is over; no shim does."""
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
    """A server that starts takes it that no host was answered for a long time."""
    begin = KeeperSeat.open

    def hasty(self: KeeperSeat) -> None:
        begin(self)
        if self._lease_timer is not None:
            self.desk.answered_at = -1e9
            self._watch_lease(self._platform.context.lease or timedelta())

    with patch.object(KeeperSeat, "open", hasty):
        yield


@planted
def lease_on_the_wall_clock() -> Iterator[None]:
    """The end of the lease is an instant of a clock that is set."""

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
    """A shim looks at the lease only once its command runs."""
    with patch.object(Shim, "may_begin", lambda self: True):
        yield


@planted
def late_answers_obeyed() -> Iterator[None]:
    """Whatever the server answers extends the lease, also when it was over."""
    with patch.object(Lease, "refuses", lambda self, *args, **kwargs: False):
        yield


@planted
def margin_forgotten() -> Iterator[None]:
    """The server reckons neither with clocks that differ nor with the time that killing takes."""
    with patch.object(keeper_seat, "LEASE_CLOCKS", 1.0), patch.object(keeper_seat, "LEASE_KILL_S", 0.0):
        yield


# ---- in the core and the database -------------------------------------------------------------------------


@planted
def terminal_overwritten() -> Iterator[None]:
    """A second end of an attempt is taken for news."""
    admits = fold.admits

    def gullible(state: ExperimentState, fact: f.Fact) -> bool:
        if isinstance(fact, f.JobEnded | f.JobLost) and fact.job_id in state.jobs:
            return True
        return admits(state, fact)

    report = KeeperLink._report

    def again(self: KeeperLink, job_id: str, job: Any, attempt: Reported, events: list[JobEvent]) -> None:
        report(self, job_id, job, attempt, events)
        if attempt.final is not None and job.end is keeper_link._End.TOLD:
            job.end = keeper_link._End.NONE

    with patch.object(runner, "admits", gullible), patch.object(KeeperLink, "_report", again):
        yield


@planted
def acknowledged_before_commit() -> Iterator[None]:
    """Commands leave and keepers are answered before what they rest on is durable."""
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
        for machine in self._tools.ledger._machines.values():
            machine.held.pop(job.id, None)

    with patch.object(KeeperService, "_adopt", forgetful):
        yield


@planted
def commit_not_durable() -> Iterator[None]:
    """A commit is in the page cache: the server's machine loses the last ones with its power."""

    def lose_power(self: Store) -> None:
        lost = min(len(self.log) - 3, self.kernel.random.randint(1, 15))
        if lost > 0:
            del self.log[-lost:]
            self.m_epoch, self._snapshot, self.mark = self.fold().m_epoch, None, None
            self.witness.replay(self.log)

    with patch.object(Store, "lose_power", lose_power):
        yield


@planted
def silent_keepers_ended_at_once() -> Iterator[None]:
    """A keeper that has not called when its experiment is over is killed, and not told what to stop."""
    with patch.object(keeper_seat, "FAREWELL_S", 0.0):
        yield
