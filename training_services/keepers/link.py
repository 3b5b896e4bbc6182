"""Server's side of the protocol with one keeper (``sync``), as a pure state machine.

Inputs: requests of the keeper, orders of the training service (start, update, stop), and committed facts.
Outputs: events for the core, and answers to the keeper. The link uses no clock, no I/O and no asyncio:
``hub`` drives it in the server, and a simulator drives it through failures. It stores nothing on disk: after
a restart, a new link learns its commands from the jobs that the core submits again.

Rules (the reasons are in docs/architecture.md): no command is sent before its fact is committed; commands are
numbered without a gap and repeated until they have arrived; metrics are counted by their position in the
trial's metrics file; metrics are reported before the trial's end; only the first end counts; the keeper kills
attempts that the link does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from training_services.base import JobEvent, KeeperAcknowledged, KeeperBound, KnownKeeper
from training_services.keepers.caller import Caller, Key, Refused
from training_services.keepers.commands import Commands
from training_services.keepers.gone import HostGone
from training_services.keepers.inventory import Inventory
from training_services.keepers.job import End
from training_services.keepers.jobs import Backlog, Jobs
from training_services.keepers.prunes import Prunes
from training_services.keepers.request import HostFacts, Request
from training_services.placement.needs import GpuReading

__all__ = ["MAX_UNTOLD", "KeeperLink", "Received", "Refused"]

MAX_UNTOLD = 2000  # number of committed metrics after which a waiting call is answered to acknowledge them


class Received(NamedTuple):
    """Result of a keeper's request.

    ``events``: events for the core; ``needs``: facts to commit before the request is answered; ``ended``:
    jobs that no longer occupy their places; ``gpus``: a new reading of the host's GPUs; ``facts``: the
    keeper's report on its host.
    """

    events: list[JobEvent]
    needs: set[Key]
    ended: list[str]
    gpus: GpuReading | None = None
    facts: HostFacts | None = None


class KeeperLink:
    """Server's side of the protocol with one keeper, from one start of the server to the next.

    ``status`` is the keeper's sentence about its own state; ``facts`` is its last report on its host. While
    ``leaving`` is True, answers order the keeper to exit. ``ending`` is True if the host is about to shut
    down. ``verdict`` returns a sentence if the job on the host has caused the end of the host, else None.
    ``departure`` returns why else the host ends, if that is known. ``needed`` returns True while files on the
    host are to be copied to the server.
    """

    def __init__(
        self,
        known: KnownKeeper,
        *,
        db_id: str,
        m_epoch: int,
        backlog: Backlog,
        reads_gpus: bool = False,
        lease: timedelta | None = None,
        restored: bool = False,
        verdict: Callable[[], HostGone | None] = lambda: None,
        departure: Callable[[], str | None] = lambda: None,
        needed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.caller = Caller(known, db_id=db_id, m_epoch=m_epoch)
        self.commands = Commands(known.instance, last=known.last_cmd, restored=restored)
        self.inventory = Inventory()
        self.jobs = Jobs(
            self.caller,
            self.commands,
            self.inventory,
            backlog=backlog,
            leased=lease is not None,
            verdict=verdict,
            departure=lambda: departure() if self.ending else None,
        )
        self.status: str | None = None
        self.facts: HostFacts | None = None
        self.leaving = False
        # True: the keeper was ordered to exit; if it calls again, some of its attempts have not ended yet
        self.leave_told = False
        self.ending = False
        self._needed = needed
        self._stay_told = False  # True: the last answer has asked the keeper to stay until files are copied
        self._reads_gpus = reads_gpus  # True: the keeper must read its host's GPUs
        self._lease_s = None if lease is None else lease.total_seconds()
        self._reads: dict[int, Sequence[Any]] = {}  # orders to send a file that are not carried out yet
        self._unsent: set[int] = set()  # orders to send a file that no answer has contained yet
        self.prunes = Prunes(known)

    @property
    def keeper_id(self) -> str:
        return self.caller.keeper_id

    @property
    def ready(self) -> bool:
        """True if the keeper has called since the server opened the experiment."""
        return self.caller.ready

    # ---- orders to send files -----------------------------------------------------------------------------

    def order_read(
        self,
        number: int,
        kind: str,
        directory: str,
        name: str,
        *,
        offset: int,
        follow: bool,
        tail: int | None,
    ) -> None:
        """Order the keeper to send a file, a listing or a checkpoint.

        Every answer repeats the order until the keeper makes the call that delivers the file.
        """
        self._reads[number] = (number, kind, directory, name, offset, follow, tail)
        self._unsent.add(number)

    def drop_read(self, number: int) -> None:
        """Withdraw the order to send a file, because the keeper has called or no reader waits for it."""
        self._reads.pop(number, None)
        self._unsent.discard(number)

    # ---- requests -----------------------------------------------------------------------------------------

    def receive(self, request: Request, *, newest: bool = True) -> Received:
        """Apply a keeper's request and return the result. A request that arrives again or late changes
        nothing.

        ``newest``: the keeper has read the latest version of its ``manager.json``. Raises Refused if this
        server must not answer the keeper.
        """
        caller = self.caller
        caller.check(request, newest=newest)
        events: list[JobEvent] = []
        needs: set[Key] = set()
        if caller.is_of_an_earlier_start(request):
            return Received(events, needs, [])
        ended = self.jobs.ended = []
        gpus: GpuReading | None = None
        facts: HostFacts | None = None
        if caller.is_of_a_restart(request):
            events += self.jobs.note_losses(request.seen_cmd)
        self._bind(request, events)
        if caller.binding is not None:
            needs.add(caller.binding)
        self._take_acknowledgement(request, events)
        if caller.is_newest(request):
            self.status, gpus, facts = request.status, request.gpus, request.facts
            self.ending = request.ending
            self.facts = facts or self.facts
            for job_id, attempt in request.attempts.items():
                job = self.jobs.by_id.get(job_id)
                if job is not None and job.is_open:
                    events += self.jobs.report(job, attempt)
            if request.all:
                events += self.jobs.seek_missing(request)
            self.inventory.take(request, self.jobs.is_wanted)
            events += self.prunes.confirm(request.pruned)
        self._await_commits(request, needs)
        return Received(events, needs, ended, gpus, facts)

    def _bind(self, request: Request, events: list[JobEvent]) -> None:
        caller = self.caller
        same = request.instance == caller.instance
        if not same:
            self.commands.rebind(request.instance)
            self.inventory.clear()
            caller.replace()
        if caller.begins(request):
            self.commands.restart()
        if not caller.ready:
            events += self.jobs.lose_others(request.instance)
        if not same or request.boot_id != caller.boot_id:
            caller.bind(request.instance, request.boot_id)
            bound = KeeperBound(
                keeper_id=caller.keeper_id, instance=request.instance, boot_id=request.boot_id
            )
            events.append(bound)

    def _take_acknowledgement(self, request: Request, events: list[JobEvent]) -> None:
        commands = self.commands
        awaited = False
        if not self.ready and commands.is_ahead(request.seen_cmd):
            self.jobs.renumber(request.seen_cmd)
        commands.take(seen=request.seen_cmd)
        if not self.ready:
            self.caller.ready = True
            # Jobs that ended before the server's restart may still wait in the core for the fact that the
            # keeper has carried out all commands for them.
            awaited = commands.last > 0
            commands.acked = request.acked_cmd
        for seq, command in commands.acknowledge(request.acked_cmd):
            job = None if command is None else self.jobs.by_id.get(command.job_id)
            awaited = awaited or job is None or (not job.is_open and job.last_cmd == seq)
        if awaited:
            events.append(KeeperAcknowledged(keeper_id=self.keeper_id, acked_cmd=commands.acked))

    def _await_commits(self, request: Request, needs: set[Key]) -> None:
        for job_id, attempt in request.attempts.items():
            job = self.jobs.by_id.get(job_id)
            if job is None or job.end is not End.TOLD:
                continue
            if attempt.final is not None or job.lost:
                needs.add(("ended", job_id))

    # ---- answers ------------------------------------------------------------------------------------------

    def has_word(self, request: Request, *, arrived: bool) -> bool:
        """Return True if there is something to answer to a waiting call.

        ``arrived``: the call has just arrived.
        """
        return (
            (self.leaving and not self.leave_told)
            or self.commands.waiting(arrived=arrived)
            or bool(self._unsent)
            or (self.ending and (request.stays or self._stay_told) and not self._needed())
            or self.jobs.untold >= MAX_UNTOLD
            or request.m_epoch_seen != self.caller.m_epoch
            or request.db_id_seen is None
            or self.inventory.due
        )

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the answer to a keeper's request, in the format of ``trial_keeper.wire``."""
        jobs = self.jobs.by_id
        acks = {job_id: jobs[job_id].committed - jobs[job_id].base for job_id in self.jobs.fresh}
        rewind: dict[str, int] = {}
        done: list[str] = []
        kill: list[str] = []
        for job_id, attempt in request.attempts.items():
            if not self.jobs.is_wanted(job_id):
                (kill if attempt.final is None else done).append(job_id)
                continue
            job = jobs[job_id]
            acks[job_id] = job.committed - job.base
            if not job.has_all(attempt) and job.is_open:
                rewind[job_id] = job.received - job.base
        self.jobs.fresh.clear()
        self.jobs.untold = 0
        self._unsent.clear()
        self._stay_told = self._needed()
        if not request.news:
            self.leave_told = self.leaving
        return {
            "db_id": self.caller.db_id,
            "m_epoch": self.caller.m_epoch,
            "instance": self.caller.instance,
            "all": self.inventory.ask(waiting=not request.news),
            "acks": acks,
            "rewind": rewind,
            "done": done,
            "kill": kill,
            "cmds": self.commands.outgoing(jobs),
            "leave": self.leaving,
            "stay": self._stay_told,
            "gpu": self._reads_gpus,
            "reads": list(self._reads.values()),
            **self.prunes.outgoing(),
            "lease_s": self._lease_s,
        }
