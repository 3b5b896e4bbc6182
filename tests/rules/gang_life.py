"""A scripted life whose jobs are gangs, with one member on each of several hosts."""

from __future__ import annotations

from typing import Any

from nnimgr.rules import facts as f
from nnimgr.rules.commands import CancelJob, Command, GatherGang, StopMembers, SubmitJob
from nnimgr.rules.state import JobState
from tests.rules.driver import Life
from training_services.base import Place

HOSTS = ("ash", "elm", "oak")


def place(member: int) -> Place:
    return Place(keeper_id=HOSTS[member], instance=f"i-{HOSTS[member]}", boot_id="b1")


class GangLife(Life):
    """An experiment of gangs, whose training service is played by the test."""

    places = tuple(place(member) for member in range(len(HOSTS)))

    def __init__(self, *, nodes: int = 2, **limits: Any) -> None:
        self.nodes = nodes  # number of members of the next job
        limits.setdefault("trial_concurrency", 1)
        super().__init__(**limits)

    def job_state(self, sequence: int = 0, attempt: int = 1) -> JobState:
        return self.state.jobs[self.job(sequence, attempt)]

    def _grant(self, commands: tuple[Command, ...]) -> list[f.Fact]:
        facts: list[f.Fact] = []
        for command in commands:
            match command:
                case SubmitJob() if any(keeper.silent for keeper in self.state.keepers.values()):
                    facts.append(f.JobWaiting(job_id=command.job_id, reason="waits for all hosts"))
                case SubmitJob() if self.wait_reason is not None:
                    facts.append(f.JobWaiting(job_id=command.job_id, reason=self.wait_reason))
                case SubmitJob():
                    facts.append(self.placed(command.job_id))
                case CancelJob():
                    facts += self._cancel(command)
                case GatherGang():
                    members = self.state.jobs[command.job_id].members
                    orders = tuple(self._next() for _ in members[1:])
                    facts.append(f.GangGathered(job_id=command.job_id, orders=orders))
                case StopMembers():
                    orders_of = tuple((member, self._next()) for member in command.members)
                    facts.append(
                        f.MembersStopped(job_id=command.job_id, orders=orders_of, grace=command.grace)
                    )
                case _:
                    facts += super()._grant((command,))
        return facts

    def _cancel(self, command: CancelJob) -> list[f.Fact]:
        leader = self.state.jobs[command.job_id].members[:1]
        if leader and (leader[0].over or leader[0].stop is not None):
            return [f.StopOrdered(job_id=command.job_id, cmd_seq=0, grace=command.grace)]
        return super()._grant((command,))

    def _next(self) -> int:
        self.cmd_seq += 1
        return self.cmd_seq

    def placed(self, job_id: str) -> f.JobPlaced:
        """Return the placing of a job, with a member on each host."""
        others = tuple(
            f.MemberPlace(place=place(member), cmd_seq=self._next()) for member in range(1, self.nodes)
        )
        return f.JobPlaced(job_id=job_id, place=place(0), cmd_seq=self._next(), members=others)

    def member_starts(self, *members: int, sequence: int = 0, attempt: int = 1) -> list[f.Fact]:
        job_id = self.job(sequence, attempt)
        return self.take(
            *(f.MemberStarted(job_id=job_id, member=member, started_at=self.now) for member in members)
        )

    def member_ends(
        self,
        member: int,
        code: int | None = 0,
        *,
        sequence: int = 0,
        attempt: int = 1,
        reason: f.EndReason = f.EndReason.EXITED,
        message: str | None = None,
        cause: f.Cause | None = None,
        signal: int | None = None,
        acked: int | None = None,
    ) -> list[f.Fact]:
        return self.take(
            f.MemberEnded(
                job_id=self.job(sequence, attempt),
                member=member,
                reason=reason,
                exit_code=code,
                signal=signal,
                metrics=0,
                acked_cmd=self.cmd_seq if acked is None else acked,
                ended_at=self.now,
                message=message,
                cause=cause,
            )
        )

    def checkpoint(self, number: int = 1, *, step: int = 1, asked: bool = False) -> list[f.Fact]:
        """Report a checkpoint of the first trial."""
        job_id = self.state.trials[self.trial(0)].job_id or ""
        position = self.state.jobs[job_id].recorded
        return self.take(
            f.CheckpointReported(
                job_id=job_id, position=position, number=number, step=step, size=1, files=1, asked=asked
            )
        )

    def room(self, members: int, *, attempt: int = 1) -> list[f.Fact]:
        """Report how many members the first trial could have."""
        return self.take(f.RoomForMembers(job_id=self.job(0, attempt), members=members))

    def member_is_lost(self, member: int, reason: str = "gone", *, attempt: int = 1) -> list[f.Fact]:
        return self.take(f.MemberLost(job_id=self.job(0, attempt), member=member, reason=reason))

    def goes_silent(self, member: int) -> list[f.Fact]:
        name = HOSTS[member]
        return self.take(f.KeeperSilent(keeper_id=name, reason=f"{name} has not called for 30 s"))
