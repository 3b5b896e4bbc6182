"""Members of gangs on simulated hosts: how they meet, and what must hold for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.evidence import Evidence
from tests.simulation.gang_sizes import GangSizeCheck
from tests.simulation.kernel import Kernel
from training_services.base import job_of_member, member_id_of
from training_services.keepers.gangs import GO

if TYPE_CHECKING:
    from tests.simulation.shim import Shim

LOOK_S = 0.25  # interval in which a member looks for the order to join its leader
REACH_S = 5.0  # longest time in which it tries to reach the leader
FAILS = 0.1  # probability that a member fails by itself
TALKS = 0.3  # probability that the processes of a member write metrics, too
HANGS = 0.2  # probability that a member that has done its work does not end
BARRIER_S = 20.0  # time for the members to end after their leader (see ``exit_barrier``)
UNREACHED = 2  # exit code
LEFT_S = 120.0  # time after which a member still runs only because nobody has ordered its stop


@dataclass(slots=True)
class Gang:
    """Recorded facts about one gang, and which of its members have joined the leader."""

    size: int
    started: set[int] = field(default_factory=set)
    over: dict[int, f.MemberEnded | f.MemberLost] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)  # members whose stop is recorded
    stop: f.StopOrdered | None = None
    first: tuple[int, float] | None = None  # the first member that has failed, before any stop, and when
    led: float | None = None  # when the leader has ended well, before any failure and any stop
    gathered: bool = False
    closed: bool = False
    joined: dict[int, tuple[Shim, Callable[[], None]]] = field(default_factory=dict)


class Companion:
    """Command of a member that is not the leader: it works as long as the leader, fails itself, or hangs."""

    def __init__(self, shim: Shim) -> None:
        chance = shim.kernel.random
        self._shim, self._step = shim, 0
        self._talks = chance.random() < TALKS
        self._fails_after = chance.randint(0, 5) if chance.random() < FAILS else None
        self._hangs = chance.random() < HANGS

    def live(self) -> None:
        """Take the next step."""
        shim, conduct, step = self._shim, self._shim.conduct, self._step
        if not shim.main:
            return
        if step == self._fails_after:
            shim.ends(3)
        elif step >= conduct.frames:
            if not self._hangs:
                shim.ends(0)
        else:
            if self._talks and not shim.output.half:
                shim.output.write(shim.output.metric(step, conduct, step))
            self._step += 1
            shim.kernel.at(shim.kernel.random.uniform(0.0, conduct.gap), self.live)


class GangCheck:
    """Check of the promises about gangs. ``sizes``: numbers of members that an attempt may have."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence
        self.sizes = range(1, 2)
        self._gangs: dict[str, Gang] = {}
        self._asked: dict[str, bool] = {}  # job that is to grow -> whether it has saved since
        self._sizes = GangSizeCheck(kernel)
        self._growing: dict[str, f.JobEnded | None] = {}  # trial that is to grow -> end of its attempt

    # ---- on the hosts -------------------------------------------------------------------------------------

    def begins(self, shim: Shim) -> None:
        """Let a member, whose crew has begun, meet the others. Then it runs the command."""
        job, member = job_of_member(shim.job)
        if member == 0:
            self._joins(job, 0, shim, shim.live)
        else:
            self._look(shim, Companion(shim).live)

    def _look(self, shim: Shim, run: Callable[[], None]) -> None:
        if not shim.main:
            return
        if GO not in shim.files.parameters:
            self._kernel.at(LOOK_S, self._look, shim, run)
        else:
            self._reach(shim, run, until=self._kernel.now + REACH_S)

    def _reach(self, shim: Shim, run: Callable[[], None], *, until: float) -> None:
        job, member = job_of_member(shim.job)
        leader = self._gangs[job].joined.get(0) if job in self._gangs else None
        if not shim.main:
            return
        if leader is not None and leader[0].main and not (shim.host.cut or leader[0].host.cut):
            self._joins(job, member, shim, run)
        elif self._kernel.now < until:
            self._kernel.at(LOOK_S, partial(self._reach, shim, run, until=until))
        else:
            self._kernel.counts["leader not reached"] += 1
            shim.ends(UNREACHED)

    def _joins(self, job: str, member: int, shim: Shim, run: Callable[[], None]) -> None:
        gang = self._gangs.get(job)
        if gang is None:
            if not self._evidence.attempts[shim.job].unrecorded:
                self._kernel.fail(f"{shim.job} runs, and no gang was placed")
            return
        gang.joined[member] = shim, run
        if len(gang.joined) < gang.size or not all(each.main for each, _ in gang.joined.values()):
            return
        if not gang.gathered and not self._evidence.older:
            self._kernel.fail(f"the command of {job} runs before the gang was gathered")
        self._kernel.counts["gang runs"] += 1
        for _, begin in list(gang.joined.values()):
            self._kernel.at(self._kernel.random.choice([0.0, 0.01, 0.5]), begin)

    # ---- what is recorded ---------------------------------------------------------------------------------

    def fact(self, fact: f.Fact) -> bool:
        """Check a fact. Return True if it is about a whole gang, or a member of one."""
        self._grows(fact)
        self._sizes.fact(fact)
        if isinstance(fact, f.JobPlaced):
            self._sized(fact)
        match fact:
            case f.JobPlaced() if fact.members:
                self._placed(fact)
            case f.MemberStarted() | f.MemberEnded() | f.MemberLost():
                self._member(fact)
            case f.GangGathered():
                self._gathered(fact)
            case f.MembersStopped():
                for member, _ in fact.orders:
                    self._told(fact, member)
            case f.StopOrdered() if fact.job_id in self._gangs:
                self._gangs[fact.job_id].stop = fact
                return False
            case f.JobStarted() | f.JobEnded() | f.JobLost() if fact.job_id in self._gangs:
                self._whole(fact)
            case _:
                return False
        return True

    def _sized(self, fact: f.JobPlaced) -> None:
        size = 1 + len(fact.members)
        if size not in self.sizes:
            self._kernel.fail(f"{fact.job_id} has {size} members, not one of {list(self.sizes)}")
        if size < self.sizes[-1]:
            self._kernel.counts["fewer members"] += 1

    def saved(self, job: str) -> None:
        """Record that a job has reported a checkpoint."""
        self._sizes.saved(job)
        if job in self._asked:
            self._asked[job] = True

    def _grows(self, fact: f.Fact) -> None:
        """Check that only a trial that has saved its state is stopped for a growth, which costs no retry."""
        match fact:
            case f.GrowthBegun():
                self._asked[fact.job_id] = False
                self._kernel.counts["growth begun"] += 1
            case f.GrowthEnded():
                self._asked.pop(fact.job_id, None)
                self._kernel.counts["growth ended"] += 1
            case f.TargetMoved(kind=f.StopKind.GROW):
                jobs = [job for job in self._asked if trial_of_job(job)[0] == fact.trial_id]
                if not jobs or not self._asked[jobs[-1]]:  # again, if a user has paused and resumed it since
                    self._kernel.fail(f"{fact.trial_id} is stopped for a growth and has not saved its state")
                self._growing[fact.trial_id] = None
            case f.JobEnded() if trial_of_job(fact.job_id)[0] in self._growing:
                self._growing[trial_of_job(fact.job_id)[0]] = fact
            case f.AttemptDue() if fact.trial_id in self._growing:
                end = self._growing.pop(fact.trial_id)
                if end is not None and end.reason is f.EndReason.STOPPED:
                    self._kernel.counts["grown"] += 1
                    if fact.failed or fact.lost or fact.cause is not None:
                        self._kernel.fail(f"a growth is counted: {fact}")
            case f.TrialEnded() | f.TrialPaused():
                self._growing.pop(fact.trial_id, None)

    def _placed(self, fact: f.JobPlaced) -> None:
        self._gangs[fact.job_id] = Gang(size=1 + len(fact.members))
        places = [fact.place, *(member.place for member in fact.members)]
        if len({place.keeper_id for place in places}) < len(places):
            self._kernel.fail(f"two members of {fact.job_id} are on one host: {places}")

    def _member(self, fact: f.MemberStarted | f.MemberEnded | f.MemberLost) -> None:
        gang, job, member = self._gangs[fact.job_id], fact.job_id, fact.member
        if isinstance(fact, f.MemberStarted):
            if self._evidence.attempts[member_id_of(job, member)].execs == 0:
                self._kernel.fail(f"member {member} of {job} is recorded as started and was not")
            gang.started.add(member)
            return
        if member in gang.over:
            self._kernel.fail(f"member {member} of {job} is over twice")
        gang.over[member] = fact
        failed = isinstance(fact, f.MemberLost) or not _is_good(fact)
        if gang.first is None and gang.stop is None and gang.led is None:
            if failed:
                gang.first = member, self._kernel.now
            elif member == 0:
                gang.led = self._kernel.now

    def _gathered(self, fact: f.GangGathered) -> None:
        gang = self._gangs[fact.job_id]
        if gang.started != set(range(gang.size)) or gang.over or gang.stop is not None:
            self._kernel.fail(f"{fact.job_id} is gathered, but {gang}")
        gang.gathered = True

    def _told(self, fact: f.MembersStopped, member: int) -> None:
        gang = self._gangs[fact.job_id]
        if member in gang.told or member in gang.over:
            self._kernel.fail(f"member {member} of {fact.job_id} is stopped twice, or over")
        gang.told.add(member)
        order = f.StopOrdered(job_id=fact.job_id, cmd_seq=1, grace=fact.grace)
        self._evidence.attempts[member_id_of(fact.job_id, member)].stop = order
        if gang.first is not None and self._kernel.now - gang.first[1] > LEFT_S:
            self._kernel.fail(f"member {member} of {fact.job_id} was stopped late after a failure: {gang}")
        if gang.led is not None:
            self._kernel.counts["member stopped after its leader"] += 1
            if self._kernel.now - gang.led > BARRIER_S + LEFT_S:
                self._kernel.fail(
                    f"member {member} of {fact.job_id} was stopped late after its leader: {gang}"
                )

    def _whole(self, fact: f.JobStarted | f.JobEnded | f.JobLost) -> None:
        gang, job = self._gangs[fact.job_id], fact.job_id
        if isinstance(fact, f.JobStarted):
            if gang.started != set(range(gang.size)):
                self._kernel.fail(f"{job} has started, but only {gang.started} of {gang.size} members")
            return
        if set(gang.over) != set(range(gang.size)):
            self._kernel.fail(f"{job} is over, but not all its members: {fact}, {gang}")
        if gang.closed:
            self._kernel.fail(f"{job} is over twice: {fact}")
        gang.closed = True
        for member in range(gang.size):
            member_id = member_id_of(job, member)
            attempt = self._evidence.attempts[member_id]
            if self._evidence.runs(member_id) and not attempt.forsaken and not attempt.shim_killed:
                if not self._evidence.fenced(attempt) and not self._evidence.older:
                    self._kernel.fail(f"{job} is over, and member {member} runs")
        ended_well = isinstance(fact, f.JobEnded) and _is_good(fact)
        leader = gang.over[0]
        if ended_well and not (isinstance(leader, f.MemberEnded) and _is_good(leader)):
            self._kernel.fail(f"{job} has ended well, but not its leader: {gang}")
        left = self._evidence.attempts[job].left  # the leader has saved its state as asked, and continues
        if gang.stop is None and not left and ended_well != (gang.led is not None):
            self._kernel.fail(f"{job} must end as its leader, and has ended as {fact}: {gang}")

    def has_succeeded(self, job_id: str) -> bool:
        """Return whether the leader has ended well, so that nobody needs the other members."""
        return job_id in self._gangs and self._gangs[job_id].led is not None

    def forget(self) -> None:
        """Forget what is recorded, because an older copy replaces the database."""
        for gang in self._gangs.values():
            gang.started, gang.over, gang.told = set(), {}, set()
            gang.stop, gang.first, gang.gathered, gang.closed, gang.led = None, None, False, False, None
        self._growing = {}
        self._sizes.forget()

    # ---- at the end ---------------------------------------------------------------------------------------

    def left(self) -> Iterator[str]:
        """Yield the gangs of which a member is not over, although the job is, or that nobody has ended."""
        for job, gang in self._gangs.items():
            open_members = set(range(gang.size)) - set(gang.over)
            if gang.closed and open_members:
                yield f"gang {job} is over, and its members {open_members} are not"


def _is_good(end: f.MemberEnded | f.JobEnded) -> bool:
    return end.reason is f.EndReason.EXITED and end.exit_code == 0
