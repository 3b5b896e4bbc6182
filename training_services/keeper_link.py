"""The server's side of ``sync`` with one keeper of one experiment, as a pure state machine.

Inputs: a request, an order of the service (start, update, stop), facts that were committed. Outputs: job
events for the core, and the answer. No clock, no I/O, no asyncio: ``keeper_hub`` drives it in the server, and
a simulator drives it through faults. It persists nothing: what the keeper still has to be told is a function
of the jobs that the core submits, so a new link is built from them after every restart.

Rules kept here (the reasons are in docs/architecture.md): no command leaves before its fact is committed;
commands are numbered without a gap and repeated until they have arrived; frames are counted by position;
metrics precede the end; the first end wins; what is unknown here is killed there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple

from training_services.base import (
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobPlaced,
    JobStarted,
    KeeperAcknowledged,
    KeeperBound,
    KnownKeeper,
    Place,
    StopOrdered,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.frames import read_frames
from training_services.keeper_orders import Command, Orders
from training_services.keeper_request import Attempt, Final, HostFacts, Request
from training_services.needs import GpuReading

__all__ = ["Backlog", "Key", "KeeperLink", "Received", "Refused", "StartOrder"]

MAX_COMMANDS = 500  # in one answer; the keeper calls again at once for more
_FORGOTTEN = "its keeper had lost the end of its journal; the commands for the trial were sent again"
MAX_UNTOLD = 2000  # committed frames after which an answer is due to say so

StartOrder = Mapping[str, Any]  # the ``start`` of trial_keeper.wire without its boot_id
Key = tuple[str, ...]  # a fact whose commit a call waits for


class Refused(Exception):
    """The keeper belongs to another server, database or directory; ``reason`` is the wire's word for it."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Received(NamedTuple):
    """What a request has brought.

    ``events`` in order; ``needs`` are the facts to commit before it is answered; ``ended`` the jobs that hold
    their places no longer; ``gpus`` a new reading of the host's GPUs; ``host`` what is told of the host.
    """

    events: list[JobEvent]
    needs: set[Key]
    ended: list[str]
    gpus: GpuReading | None = None
    host: HostFacts | None = None


@dataclass(slots=True)
class Backlog:
    """Frames handed to the core and not committed yet, of all keepers of one experiment."""

    frames: int = 0


class _End(Enum):
    """How far the end of a job has come."""

    NONE = auto()
    TOLD = auto()  # its event is on the way to the core
    COMMITTED = auto()


@dataclass(slots=True)
class _Job:
    trial_id: str
    place: Place
    start_cmd: int
    last_cmd: int
    commands: list[int] = field(default_factory=list)  # their numbers
    sought: bool = False  # its keeper did not know it, and was given the start once more
    received: int = 0  # frames handed to the core
    committed: int = 0  # frames
    started: bool = False  # told to the core
    stopped: bool = False  # a stop was ordered
    lost: bool = False  # it ends without an end of its own: its commands become nop, but for a stop
    astray: bool = False  # lost without proof: it may still run there
    end: _End = _End.NONE
    notes: set[str] = field(default_factory=set)


class KeeperLink:
    """One keeper of one experiment, during one start of the experiment's runner.

    ``verdict`` says why its host ends, if a job that ends with it has failed by that, and is not lost.
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
        verdict: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.keeper_id = known.keeper_id
        self.instance = known.instance
        self.boot_id = known.boot_id
        self.status: str | None = None  # the keeper's sentence on itself
        self.host: HostFacts | None = None  # as it was told last
        self.leaving = False  # answers tell the keeper to exit
        self._leave_told = False  # to a call that waits: if another comes, attempts are left there
        self.ready = False  # it has spoken to this runner: jobs may be placed on it
        self.untold = 0  # frames committed since an answer carried acknowledgements
        self._db_id = db_id
        self._m_epoch = m_epoch
        self._reads_gpus = reads_gpus  # the keeper is to
        self._lease_s = None if lease is None else lease.total_seconds()
        self._verdict = verdict
        self._backlog = backlog
        self._jobs: dict[str, _Job] = {}
        last = known.last_cmd
        self._orders = Orders(last=last, committed=last, stored=last)  # for ``instance``
        self._elsewhere: dict[str, Orders] = {}  # for jobs adopted on instances that are not it (yet)
        self._acked_cmd = 0
        self._seen_cmd = 0
        self._sent_cmd = 0
        self._k_epoch = -1
        self._named = False  # everything that the keeper holds, to this link
        self._asked = False  # for that
        self._reported = -1  # sync_no of the last request with news
        self._waited = -1  # sync_no of the last one without
        self._binding: Key | None = None  # KeeperBound is on its way
        self._retired = set(known.retired)  # instances that were replaced
        self._reads: dict[int, Sequence[Any]] = {}  # wanted, and their calls have not come
        self._unsent: set[int] = set()  # of these
        self._fresh: dict[str, None] = {}  # jobs with frames committed and not told
        self._ended: list[str] = []  # during the request being applied

    # ---- orders of the service ----------------------------------------------------------------------------

    def adopt(self, job: TrialJobSpec, start: StartOrder) -> None:
        """Take a job whose place is committed, after a restart of the runner."""
        placed = job.place
        if placed is None:
            raise ValueError(f"job {job.id} has no place")
        self._jobs[job.id] = _Job(
            trial_id=job.trial_id,
            place=placed.place,
            start_cmd=placed.cmd_seq,
            last_cmd=placed.cmd_seq,
            received=job.recorded,
            committed=job.recorded,
            started=job.started,
            stopped=job.stop is not None,
        )
        body = self._start_body(start, boot_id=placed.place.boot_id)
        self._put(placed.cmd_seq, "start", job.id, body, committed=True)
        for order, parameter in job.updates:
            body = {"index": order.index, "parameter": parameter}
            self._put(order.cmd_seq, "update", job.id, body, committed=True)
        if job.stop is not None and job.stop.cmd_seq is not None:
            body = {"grace": job.stop.grace.total_seconds()}
            self._put(job.stop.cmd_seq, "stop", job.id, body, committed=True)

    def order_start(
        self, job_id: str, trial_id: str, *, gpus: tuple[int, ...], start: StartOrder
    ) -> JobPlaced:
        """Give the job a place here. Only when ``ready``."""
        if not self.ready or self.instance is None or self.boot_id is None:
            raise ValueError(f"keeper {self.keeper_id} has not spoken to this runner yet")
        place = Place(keeper_id=self.keeper_id, instance=self.instance, boot_id=self.boot_id, gpus=gpus)
        seq = self._orders.last + 1
        self._jobs[job_id] = _Job(trial_id=trial_id, place=place, start_cmd=seq, last_cmd=seq)
        self._put(seq, "start", job_id, self._start_body(start, boot_id=self.boot_id))
        return JobPlaced(job_id=job_id, place=place, cmd_seq=seq)

    def _start_body(self, start: StartOrder, *, boot_id: str) -> StartOrder:
        leased = {} if self._lease_s is None else {"lease": True}
        return {**start, "boot_id": boot_id, **leased}

    def order_update(self, job_id: str, *, index: int, parameter: str) -> UpdateOrdered | None:
        job = self._jobs.get(job_id)
        if job is None or job.end is not _End.NONE:
            return None
        seq = self._orders_of(job_id).last + 1
        self._put(seq, "update", job_id, {"index": index, "parameter": parameter})
        return UpdateOrdered(job_id=job_id, index=index, cmd_seq=seq)

    def order_stop(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        """Stop the job; a start whose place is not committed yet is withdrawn and nothing has to be sent."""
        job = self._jobs.get(job_id)
        if job is None or job.stopped or job.end is not _End.NONE:
            return None
        job.stopped = True
        orders = self._orders_of(job_id)
        start = orders.find(job.start_cmd)
        if start is not None and not start.committed:
            start.withdrawn = job.lost = True
            job.end = _End.COMMITTED
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        seq = orders.last + 1
        self._put(seq, "stop", job_id, {"grace": grace.total_seconds()})
        return StopOrdered(job_id=job_id, cmd_seq=seq, grace=grace)

    def order_read(
        self, number: int, kind: str, directory: str, name: str, *, follow: bool, tail: int | None
    ) -> None:
        """Have the keeper stream this, as ``trial_keeper.wire`` says; every answer repeats it until then."""
        self._reads[number] = (number, kind, directory, name, 0, follow, tail)
        self._unsent.add(number)

    def drop_read(self, number: int) -> None:
        """Its call has come, or nobody waits for that any more."""
        self._reads.pop(number, None)
        self._unsent.discard(number)

    def give_up(self, reason: str) -> list[JobEvent]:
        """Every open job is lost: nothing of it runs. A start that has not left never will."""
        events: list[JobEvent] = []
        for job_id, job in self._jobs.items():
            if job.end is _End.NONE:
                self._lose(job_id, job, reason, events)
        return events

    def fail(self, reason: str, at: datetime) -> list[JobEvent]:
        """Every open job has ended by itself, and its keeper, which is gone, could not tell of it."""
        final = Final(reason=EndReason.EXITED, code=None, signal=None, frames=0, message=reason, at=at)
        events: list[JobEvent] = []
        for job_id, job in self._jobs.items():
            if job.end is _End.NONE:
                self._seal(job_id, job, final._replace(frames=job.received), events)
        return events

    def _put(
        self, seq: int, kind: str, job_id: str, body: Mapping[str, Any], *, committed: bool = False
    ) -> None:
        self._orders_of(job_id).put(seq, Command(kind=kind, job_id=job_id, body=body, committed=committed))
        job = self._jobs[job_id]
        job.last_cmd = max(job.last_cmd, seq)
        job.commands.append(seq)

    def _orders_of(self, job_id: str) -> Orders:
        """Numbers are an instance's own: a job's place may be committed before its instance is bound."""
        job = self._jobs.get(job_id)
        if job is None or job.place.instance == self.instance:
            return self._orders
        return self._elsewhere.setdefault(job.place.instance, Orders())

    # ---- facts that were committed ------------------------------------------------------------------------

    def command_committed(self, job_id: str, seq: int) -> None:
        """The job's start, update or stop of this number may leave."""
        self._orders_of(job_id).commit(seq)

    def frames_committed(self, job_id: str, count: int) -> None:
        """The job's first ``count`` frames are durable."""
        job = self._jobs.get(job_id)
        if job is None or count <= job.committed:
            return
        fresh = min(count, job.received) - job.committed
        job.committed += fresh
        self.untold += fresh
        self._backlog.frames -= fresh
        self._fresh[job_id] = None

    def end_committed(self, job_id: str, *, lost: bool) -> list[JobEvent]:
        """JobEnded or JobLost of the job is durable (the core may have decided a loss by itself)."""
        job = self._jobs.get(job_id)
        if job is None or job.end is _End.COMMITTED:
            return []
        told = job.end is _End.TOLD
        job.end = _End.COMMITTED
        job.lost = job.lost or lost
        job.astray = lost and not told
        self._backlog.frames -= job.received - job.committed
        job.committed = job.received
        self._fresh.pop(job_id, None)
        return [] if told else self._acknowledged(job)

    def bound_committed(self, instance: str, boot_id: str) -> None:
        if self._binding == ("bound", instance, boot_id):
            self._binding = None

    def forget_ended(self, job_id: str) -> bool:
        """Let go of a job whose end is committed and whose commands are all applied."""
        job = self._jobs.get(job_id)
        if job is None:
            return True
        if job.end is not _End.COMMITTED or (
            job.last_cmd > self._acked_cmd and job.place.instance == self.instance
        ):
            return False
        self._orders_of(job_id).forget(job.commands)
        del self._jobs[job_id]
        return True

    # ---- requests -----------------------------------------------------------------------------------------

    def receive(self, request: Request, *, newest: bool = True) -> Received:
        """Apply a request; doubled and overtaken ones change nothing. Raises Refused.

        ``newest``: it was sent by somebody who has read ``manager.json`` since it was last written.
        """
        self._refuse(request, newest=newest)
        events: list[JobEvent] = []
        needs: set[Key] = set()
        if request.instance == self.instance and request.k_epoch < self._k_epoch:
            return Received(events, needs, [])
        ended = self._ended = []
        gpus: GpuReading | None = None
        host: HostFacts | None = None
        if request.instance == self.instance and request.k_epoch > self._k_epoch:
            self._note_losses(request, events)
        self._bind(request, events)
        if self._binding is not None:
            needs.add(self._binding)
        self._take_acknowledgement(request, events)
        if self._is_newest(request):
            self.status, gpus, host = request.status, request.gpus, request.host
            self.host = host or self.host
            for job_id, attempt in request.attempts.items():
                job = self._jobs.get(job_id)
                if job is not None and job.end is _End.NONE:
                    self._report(job_id, job, attempt, events)
            if request.all:
                self._named = True
                self._take_inventory(request, events)
        self._await_commits(request, needs)
        return Received(events, needs, ended, gpus, host)

    def _refuse(self, request: Request, *, newest: bool) -> None:
        if request.db_id_seen not in (None, self._db_id):
            raise Refused("database", "This keeper has obeyed another database of the experiment.")
        if request.m_epoch_seen > self._m_epoch:
            raise Refused("fenced", "This keeper has obeyed a later start of the experiment's runner.")
        if request.instance in self._retired:
            raise Refused("instance", "The directory of this keeper was replaced by another one.")
        if request.instance != self.instance and not newest:
            # A late word of a directory that is gone by now, maybe: it may not take its successor's place.
            raise Refused("turn", "This is a new keeper, and manager.json was written since it has read it.")

    def _bind(self, request: Request, events: list[JobEvent]) -> None:
        same = request.instance == self.instance
        if not same:
            known, self._orders = self._orders, self._elsewhere.pop(request.instance, Orders())
            if self.instance is None:
                self._orders.reach(known.last)
            else:
                self._retired.add(self.instance)
                self._acked_cmd = 0
                self._k_epoch = -1
                self.ready = False
        if request.k_epoch > self._k_epoch:
            self._k_epoch = request.k_epoch
            self._reported = self._waited = -1
            self._seen_cmd = self._sent_cmd = 0
        if not self.ready:
            for job_id, job in self._jobs.items():
                if job.place.instance != request.instance and job.end is _End.NONE:
                    self._lose(job_id, job, "its keeper's directory was made anew", events)
        if not same or request.boot_id != self.boot_id:
            self.instance, self.boot_id = request.instance, request.boot_id
            self._binding = ("bound", self.instance, self.boot_id)
            events.append(KeeperBound(keeper_id=self.keeper_id, instance=self.instance, boot_id=self.boot_id))

    def _note_losses(self, request: Request, events: list[JobEvent]) -> None:
        """Note on which jobs a restarted keeper has lost commands that it had acknowledged.

        They are sent again. A call of the same keeper that is overtaken by another proves nothing.
        """
        for job_id, job in self._jobs.items():
            lost = request.seen_cmd < job.last_cmd <= self._acked_cmd
            if lost and job.end is _End.NONE and job.place.instance == self.instance:
                self._note(job_id, job, _FORGOTTEN, events)

    def _note(self, job_id: str, job: _Job, note: str, events: list[JobEvent]) -> None:
        if note not in job.notes:
            job.notes.add(note)
            events.append(JobNoted(job_id=job_id, note=note))

    def _is_newest(self, request: Request) -> bool:
        """Calls with news overtake only one another: the waiting call has a connection of its own."""
        if request.news:
            newest = request.sync_no > self._reported
            self._reported = max(self._reported, request.sync_no)
        else:
            newest = request.sync_no > self._waited
            self._waited = max(self._waited, request.sync_no)
        return newest

    def _take_acknowledgement(self, request: Request, events: list[JobEvent]) -> None:
        acked = request.acked_cmd
        awaited = False
        if not self.ready and request.seen_cmd > self._orders.stored:
            self._renumber(request.seen_cmd)
        self._orders.reach(request.seen_cmd)
        if not self.ready:
            self.ready = True
            awaited = self._orders.last > 0  # ended jobs may wait for it that were not submitted again
            self._acked_cmd = acked
        self._seen_cmd = max(self._seen_cmd, min(request.seen_cmd, self._orders.last))
        for seq in range(self._acked_cmd + 1, min(acked, self._orders.last) + 1):
            self._acked_cmd = seq
            command = self._orders.find(seq)
            job = None if command is None else self._jobs.get(command.job_id)
            awaited = awaited or job is None or (job.end is not _End.NONE and job.last_cmd == seq)
        if awaited:
            events.append(KeeperAcknowledged(keeper_id=self.keeper_id, acked_cmd=self._acked_cmd))

    def _renumber(self, seen: int) -> None:
        """Give a keeper that has obeyed a later state of the database its stops and updates again.

        The keeper ignores all numbers up to ``seen``, also those that this server has used a second time.
        Obeying a stop or an update twice changes nothing.
        """
        self._orders.reach(seen)
        for job in self._jobs.values():
            if job.end is not _End.NONE or job.place.instance != self.instance:
                continue
            for seq in [each for each in job.commands if each <= seen]:
                command = self._orders.find(seq)
                if command is not None and command.kind != "start":
                    job.last_cmd = self._orders.renumber(seq)
                    job.commands.append(job.last_cmd)

    def _report(self, job_id: str, job: _Job, attempt: Attempt, events: list[JobEvent]) -> None:
        started = attempt.started
        if started is not None and not job.started:
            job.started = True
            events.append(JobStarted(job_id=job_id, started_at=started.at, pid=started.pid))
        fresh = attempt.payloads[job.received - attempt.first :] if attempt.first <= job.received else []
        if fresh:
            events += read_frames(job_id, job.trial_id, position=job.received, payloads=fresh)
            job.received += len(fresh)
            self._backlog.frames += len(fresh)
        if attempt.note is not None:
            self._note(job_id, job, attempt.note, events)
        if attempt.final is not None and attempt.reach <= job.received:
            self._seal(job_id, job, attempt.final, events)

    def _seal(self, job_id: str, job: _Job, final: Final, events: list[JobEvent]) -> None:
        missing = job.received - final.frames
        if missing > 0:
            note = f"{missing} metrics were lost on the host's disk; they are recorded here."
            events.append(JobNoted(job_id=job_id, note=note))
        if final.reason is None and (verdict := self._verdict()) is not None:
            final = final._replace(reason=EndReason.EXITED, code=None, signal=None, message=verdict)
        if final.reason is None:
            self._lose(job_id, job, final.message or "its host was restarted while it ran", events)
            return
        job.end = _End.TOLD
        self._ended.append(job_id)
        events.append(
            JobEnded(
                job_id=job_id,
                reason=final.reason,
                exit_code=final.code,
                signal=final.signal,
                metrics=final.frames,
                acked_cmd=self._acked_cmd,
                ended_at=final.at,
                message=final.message,
            )
        )

    def _lose(self, job_id: str, job: _Job, reason: str, events: list[JobEvent]) -> None:
        job.end, job.lost = _End.TOLD, True
        self._ended.append(job_id)
        events.append(JobLost(job_id=job_id, reason=reason))
        events += self._acknowledged(job)

    def _acknowledged(self, job: _Job) -> list[JobEvent]:
        """What tells the core that a lost job has no command under way, if so."""
        if job.place.instance != self.instance or job.last_cmd > self._acked_cmd:
            return []
        return [KeeperAcknowledged(keeper_id=self.keeper_id, acked_cmd=self._acked_cmd)]

    def _take_inventory(self, request: Request, events: list[JobEvent]) -> None:
        for job_id, job in self._jobs.items():
            if (
                job.end is _End.NONE
                and job_id not in request.attempts
                and job.start_cmd <= request.acked_cmd
                and job.place.instance == self.instance
            ):
                self._seek(job_id, job, events)

    def _seek(self, job_id: str, job: _Job, events: list[JobEvent]) -> None:
        """Give a keeper that has forgotten a job the start once more, under a new number.

        It has obeyed a later state of the database than this one, where the job had ended. The command is not
        started a second time: from the job's claim and metrics the keeper reports how it ended.
        """
        start = self._orders.find(job.start_cmd)
        if job.sought or start is None:
            self._lose(job_id, job, "its keeper does not know it any more", events)
            return
        job.sought = True
        job.start_cmd = self._orders.last + 1
        self._put(job.start_cmd, "start", job_id, {**start.body, "sought": True})
        self._orders.commit(job.start_cmd)

    def _await_commits(self, request: Request, needs: set[Key]) -> None:
        for job_id, attempt in request.attempts.items():
            job = self._jobs.get(job_id)
            if job is None or job.end is _End.COMMITTED:
                continue
            if (attempt.final is not None or job.lost) and job.end is _End.TOLD:
                needs.add(("ended", job_id))

    # ---- answers ------------------------------------------------------------------------------------------

    def has_word(self, request: Request, *, arrived: bool) -> bool:
        """Whether a waiting call should be answered. ``arrived``: it has just come in."""
        told = self._seen_cmd if arrived else max(self._seen_cmd, self._sent_cmd)
        return (
            (self.leaving and not self._leave_told)
            or self._orders.committed > told
            or bool(self._unsent)
            or self.untold >= MAX_UNTOLD
            or request.m_epoch_seen != self._m_epoch
            or request.db_id_seen is None
            or not (self._named or self._asked)
        )

    def answer(self, request: Request) -> dict[str, Any]:
        """The answer to a request from the present state, as ``trial_keeper.wire`` describes it."""
        acks = {job_id: self._jobs[job_id].committed for job_id in self._fresh}
        rewind: dict[str, int] = {}
        done: list[str] = []
        kill: list[str] = []
        for job_id, attempt in request.attempts.items():
            job = self._jobs.get(job_id)
            if job is None or job.end is _End.COMMITTED:
                (kill if attempt.final is None else done).append(job_id)
                continue
            acks[job_id] = job.committed
            if attempt.reach > job.received and job.end is _End.NONE:
                rewind[job_id] = job.received
        self._fresh.clear()
        self.untold = 0
        self._unsent.clear()
        self._asked = not self._named
        if not request.news:
            self._leave_told = self.leaving
        return {
            "db_id": self._db_id,
            "m_epoch": self._m_epoch,
            "instance": self.instance,
            "all": not self._named,
            "acks": acks,
            "rewind": rewind,
            "done": done,
            "kill": kill,
            "cmds": self._outgoing(),
            "leave": self.leaving,
            "gpu": self._reads_gpus,
            "reads": list(self._reads.values()),
            "lease_s": self._lease_s,
        }

    def _outgoing(self) -> list[Sequence[Any]]:
        """The committed commands that have not arrived, in order. A number nobody uses any more is a nop.

        So is the start of a lost job, unless it arrived before: a keeper that has lost such a start gets it
        again, to know what to stop.
        """
        commands: list[Sequence[Any]] = []
        for seq in range(self._seen_cmd + 1, min(self._orders.committed, self._seen_cmd + MAX_COMMANDS) + 1):
            command = self._orders.find(seq)
            job = None if command is None else self._jobs.get(command.job_id)
            if command is None or job is None or self._is_void(seq, command, job):
                commands.append((seq, "nop", command.job_id if command else "", {}))
            else:
                commands.append((seq, command.kind, command.job_id, command.body))
            self._sent_cmd = max(self._sent_cmd, seq)
        return commands

    def _is_void(self, seq: int, command: Command, job: _Job) -> bool:
        """Check whether the command is sent as a nop. What was sent as a nop once is never sent as itself."""
        if not job.lost or command.kind == "stop" or job.started:
            return False
        command.withdrawn = command.withdrawn or seq > self._acked_cmd
        return command.withdrawn

    # ---- questions ----------------------------------------------------------------------------------------

    @property
    def ordered(self) -> int:
        """The number of the last command that may leave."""
        return self._orders.committed

    @property
    def arrived(self) -> int:
        """The number of the last command that the keeper is known to have."""
        return self._seen_cmd

    @property
    def leave_told(self) -> bool:
        """Whether an answer has told the keeper to leave."""
        return self._leave_told

    def is_astray(self, job_id: str) -> bool:
        """Whether the job was given up without proof that nothing of it runs."""
        job = self._jobs.get(job_id)
        return job is not None and job.astray

    def is_open(self, job_id: str) -> bool:
        """Whether the job is here and has not ended."""
        job = self._jobs.get(job_id)
        return job is not None and job.end is _End.NONE

    def jobs(self) -> list[TrialJobDetail]:
        return [
            TrialJobDetail(
                job_id=job_id, place=job.place, started=job.started, ended=job.end is not _End.NONE
            )
            for job_id, job in self._jobs.items()
        ]
