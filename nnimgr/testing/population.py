"""Experiment whose trials obey a scheduler under test: it works as a server does, but in one process."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.scheduler import SchedulerHost
from nnimgr.rules import facts as f
from nnimgr.search_space import parse, sample
from nnimgr.testing.harness import Hosted, Made, start_message
from nnimgr.testing.record import EXPERIMENT, Record

__all__ = ["RESOURCES", "Disturbances", "HostedScheduler", "Member", "Population"]

RESOURCES = {"trialGpuNumber": 1, "trialCpuNumber": 2, "trialMemorySize": 1024}  # of a trial at first

_MOST_ROUNDS = 2000  # rounds after which an experiment counts as one that never ends
_SILENCE = 3  # rounds for which a silent host is silent, and for which a user pauses a trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """Probabilities, for each trial and round, of what can happen to it beside its results."""

    fails: float = 0.0
    is_lost: float = 0.0  # another attempt continues from its last checkpoint, or starts again
    is_silent: float = 0.0
    user_pauses: float = 0.0
    user_stops: float = 0.0
    odd_results: float = 0.0  # results that are no finite numbers
    saves: float = 1.0  # probability that a result comes with a checkpoint


@dataclass(slots=True, eq=False)
class Member:
    """Trial of the experiment.

    ``saved``: its usable checkpoints, each with its attempt, number, and the number of results and frames
    that it covers. ``origin``: results and frames with which its leg began. ``wanted``: the decision that is
    being carried out.
    """

    id: str
    quality: float
    parameters: str
    attempt: int = 1
    reports: int = 0
    position: int = 0
    leg: int = 0
    saved: list[tuple[int, int, int, int]] = field(default_factory=list)
    origin: tuple[int, int] = (0, 0)
    last_number: int = 0  # number of the last checkpoint in this attempt
    running: bool = False
    paused: str | None = None
    wanted: m.Decided | None = None
    back_in: int = 0  # rounds until its silent host is back, or a user resumes it
    silent: bool = False
    coming: Mapping[str, float] = field(default_factory=dict)  # other resources for the next attempt


class HostedScheduler(Hosted):
    """Process of the scheduler under test. ``decided`` has all of its decisions."""

    def __init__(
        self,
        make: Callable[[], Any],
        database: Path,
        space: Mapping[str, Any],
        *,
        builtin: bool,
        rebuild_to: int = 0,
    ) -> None:
        super().__init__()
        start = start_message("scheduler", database, space, rebuild_to=rebuild_to, resources=RESOURCES)
        calls = Made(self.heard, "scheduler", make, builtin=builtin)
        self._host = SchedulerHost(self.heard, start, calls=calls)
        self.do(self._host.build)

    @property
    def decided(self) -> list[m.Decided]:
        return [message for message in self.heard.messages if isinstance(message, m.Decided)]

    def send(self, message: m.ToChild) -> None:
        self.do(lambda: self._host.handle(message))

    def leave(self) -> None:
        self.do(self._host.leave)


class _Events:
    """Recorder of an experiment's events, which also reports each of them to the scheduler."""

    def __init__(self, record: Record, scheduler: HostedScheduler) -> None:
        self.record, self.scheduler = record, scheduler
        self.sent: list[m.ToChild] = []

    def send(self, message: m.ToChild) -> None:
        self.sent.append(message)
        self.scheduler.send(message)

    def about(self, kind: Any, fact: str, member: Member, **fields: Any) -> None:
        """Record a fact, and send its message. Both have the same fields."""
        number = self.record.named(fact, member.id, **fields)
        self.send(kind(number=number, trial_id=member.id, **fields))

    def created(self, trial_id: str, parameters: str) -> None:
        self.send(m.TrialCreated(number=self.record.number, trial_id=trial_id, parameters=parameters))

    def drained(self) -> None:
        status, drain = f.ExperimentStatus.DRAINING, f.DrainReason.BUDGET
        number = self.record.add(f.ExperimentMoved(status=status, reason="enough trials", drain=drain))
        self.send(m.NoMoreTrials(number=number))

    def resumed(self) -> None:
        number = self.record.add(f.ExperimentMoved(status=f.ExperimentStatus.RUNNING, reason="a new limit"))
        self.send(m.TrialsAgain(number=number))

    def reported(self, member: Member, value: Any) -> None:
        text = json.dumps(value)
        number = self.record.reported(member.id, member.position, text, attempt=member.attempt)
        item = (member.id, member.attempt, member.position, member.reports, text)
        self.send(m.Metrics(items=(item,), numbers=(number,)))

    def saved(self, member: Member) -> None:
        number = self.record.named(
            "CheckpointReported",
            member.id,
            job_id=f"{EXPERIMENT}-{member.id}-{member.attempt}",
            number=member.last_number,
            step=member.reports,
            reports=member.reports,
        )
        self.send(
            m.CheckpointSaved(
                number=number,
                trial_id=member.id,
                attempt=member.attempt,
                checkpoint=member.last_number,
                reports=member.reports,
                step=member.reports,
            )
        )

    def continued(self, member: Member, rolled_back: int) -> None:
        """Another attempt of the trial has begun, with its present number of results."""
        origin = {"position": member.position, "reports": member.reports} if member.position else None
        resources = self._resources(member)
        number = self.record.named(
            "AttemptDue",
            member.id,
            attempt=member.attempt,
            origin=origin,
            rolled_back=rolled_back,
            resources=resources,
        )
        if origin is not None or rolled_back or resources is not None:
            self.send(
                m.RolledBack(
                    number=number,
                    trial_id=member.id,
                    attempt=member.attempt,
                    position=member.position,
                    reports=member.reports,
                    resources=resources,
                )
            )

    def _resources(self, member: Member) -> Mapping[str, float] | None:
        """Return the other resources with which the next attempt begins; None if there are none."""
        coming, member.coming = member.coming, {}
        return coming or None

    def leg_began(self, member: Member) -> None:
        fields: dict[str, Any] = {
            "attempt": member.attempt,
            "leg": member.leg,
            "parameters": member.parameters,
            "resources": self._resources(member),
        }
        point: dict[str, Any] = {"position": member.position, "reports": member.reports}
        number = self.record.named("AttemptDue", member.id, origin=point, **fields)
        self.send(m.LegBegan(number=number, trial_id=member.id, **fields, **point))

    def ended(self, member: Member, status: str) -> None:
        text = "1.0" if status == "SUCCEEDED" else None
        end = f.TrialEnded(trial_id=member.id, status=f.TrialStatus(status), reason="it has ended")
        self.send(
            m.TrialFinished(
                number=self.record.over(end, text),
                trial_id=member.id,
                parameter_id=None,
                parameters=member.parameters,
                text=text,
                success=text is not None,
                status=status,
            )
        )

    def decided(self, decided: m.Decided) -> int:
        fields: dict[str, Any] = {"cause": decided.cause, "reason": decided.reason}
        if decided.kind == "stop":
            return self.record.named("Verdict", decided.trial_id, by="scheduler", **fields)
        return self.record.named("Decided", decided.trial_id, kind=decided.kind, **fields)

    def refused(self, decided: m.Decided, reason: str) -> int:
        fields: dict[str, Any] = {"cause": decided.cause, "kind": decided.kind, "reason": reason}
        number = self.record.named("DecisionRefused", decided.trial_id, **fields)
        self.send(m.DecisionRefused(number=number, trial_id=decided.trial_id, **fields))
        return number


class Population:
    """Experiment of ``count`` trials, of which ``slots`` run at the same time.

    In each round, every running trial makes one result. A trial ends after ``length`` results. Better trials
    have a higher ``Member.quality``. ``recorded``: the number of the first fact by which a decision was
    recorded or refused, by its cause and trial.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        record: Record,
        space: Mapping[str, Any],
        *,
        builtin: bool = False,
        count: int = 12,
        slots: int = 4,
        length: int = 12,
        seed: int = 0,
        disturbances: Disturbances | None = None,
    ) -> None:
        self.record, self.space, self.count, self.slots = record, space, count, slots
        self.scheduler = HostedScheduler(make, record.path, space, builtin=builtin)
        self.events = _Events(record, self.scheduler)
        self.members: dict[str, Member] = {}  # trials that have not ended
        self.ended: dict[str, str] = {}  # trial -> its last status
        self.recorded: dict[tuple[int, str], int] = {}
        self._length, self._random = length, Random(seed)
        self._disturbances = disturbances or Disturbances()
        self._created = 0
        self._next: deque[Member] = deque()  # trials that are to continue, in this order
        self._taken = 0  # number of decisions that were taken from the scheduler

    def run(self) -> None:
        """Run until all trials have ended. Raise AssertionError if some of them never end."""
        for _ in range(_MOST_ROUNDS):
            self.round()
            if not self.members and self._created == self.count:
                return
        waits = ", ".join(f"{each.id} ({each.paused or 'runs'})" for each in self.members.values())
        raise AssertionError(f"the experiment does not end, because of {waits}")

    def round(self) -> None:
        """Start trials on free slots, let each running trial make a result, and carry out decisions."""
        self._fill()
        for member in list(self.members.values()):
            if member.back_in:
                self._wait(member)
            elif member.running:
                self._work(member)
        self._obey()

    def change_space(self, space: Mapping[str, Any]) -> None:
        """Replace the search space. New trials are created in it."""
        self.space = space
        number = self.record.space_changed(space)
        self.events.send(m.SpaceChanged(number=number, search_space=space))

    def add_trials(self, count: int) -> None:
        """Let the experiment create more trials, as if a user had raised a limit."""
        if self._created == self.count:
            self.events.resumed()
        self.count += count

    # ---- trials -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        free = self.slots - sum(each.running and not each.silent for each in self.members.values())
        for _ in range(free):
            if self._next:
                self._next.popleft().running = True
            elif self._created < self.count:
                self._create()

    def _create(self) -> None:
        parameters = sample(parse(self.space), self._random)
        text = json.dumps(parameters)
        trial_id = self.record.suggested(self._created, text)
        self.members[trial_id] = Member(trial_id, self._random.random(), text, running=True)
        self._created += 1
        self.events.created(trial_id, text)
        if self._created == self.count:
            self.events.drained()

    def _wait(self, member: Member) -> None:
        """Let a round pass for a trial whose host is silent, or that a user has paused."""
        member.back_in -= 1
        if member.back_in:
            return
        if member.silent:
            member.silent = False
            self._report(member)
        elif member.paused is not None:
            self.events.about(m.TrialContinued, "ResumeRequested", member)
            self._queue(member)

    def _work(self, member: Member) -> None:
        happens, chance = self._disturbances, self._random.random
        if chance() < happens.fails:
            self._end(member, "FAILED")
        elif chance() < happens.user_stops:
            self._end(member, "USER_CANCELED")
        elif member.wanted is not None and chance() < 0.7:
            self._carry_out(member, member.wanted)
        elif chance() < happens.is_lost:
            self._set_back(member)
        elif chance() < happens.is_silent:
            member.silent, member.back_in = True, _SILENCE
            self.events.about(m.SlotLent, "SlotLent", member)
        elif chance() < happens.user_pauses:
            member.wanted = None
            self._pause(member, "user")
            member.back_in = _SILENCE
        else:
            self._report(member)
            if member.reports >= self._length:
                self._end(member, "SUCCEEDED")

    def _report(self, member: Member) -> None:
        value: Any = member.quality + 1 - math.exp(-(member.reports + 1) / 4)
        if self._random.random() < self._disturbances.odd_results:
            odd = [{"default": value, "note": "x"}, math.nan, "x", 3, [], {"loss": 1}, None]
            value = self._random.choice(odd)
        self.events.reported(member, value)
        member.reports, member.position = member.reports + 1, member.position + 1
        if self._random.random() < self._disturbances.saves:
            self._save(member)

    def _save(self, member: Member) -> None:
        member.last_number += 1
        member.position += 1
        member.saved.append((member.attempt, member.last_number, member.reports, member.position))
        self.events.saved(member)

    def _pause(self, member: Member, by: str) -> None:
        member.running, member.paused = False, by
        self.events.about(m.TrialPaused, "TrialPaused", member, by=by)

    def _queue(self, member: Member) -> None:
        """Let a paused trial continue from its last checkpoint when a slot is free."""
        member.paused = None
        self._set_back(member)
        self._next.append(member)

    def _set_back(self, member: Member) -> None:
        """Begin another attempt of a trial, from its last checkpoint or from the beginning."""
        reports, position = member.saved[-1][2:] if member.saved else member.origin
        member.attempt, member.last_number, member.wanted = member.attempt + 1, 0, None
        rolled_back, member.reports, member.position = member.reports - reports, reports, position
        self.events.continued(member, rolled_back)

    def _end(self, member: Member, status: str) -> None:
        del self.members[member.id]
        self.ended[member.id] = status
        if member in self._next:
            self._next.remove(member)
        self.events.ended(member, status)

    # ---- decisions ----------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """Record the scheduler's new decisions, or why they are refused, and begin to carry them out."""
        while self._taken < len(self.scheduler.decided):
            decided = self.scheduler.decided[self._taken]
            self._taken += 1
            key = decided.cause, decided.trial_id
            assert key not in self.recorded, f"two decisions about trial {decided.trial_id} at one event"
            member = self.members.get(decided.trial_id)
            why = "the trial has ended" if member is None else self._refusal(member, decided)
            if why is not None or member is None:
                self._refuse(decided, why or "")
                continue
            number = self.recorded[key] = self.events.decided(decided)
            if decided.kind == "continue":
                self.events.send(m.TrialContinued(number=number, trial_id=member.id))
                self._queue(member)
            elif member.running:
                member.wanted = decided
            else:
                self._carry_out(member, decided)

    def _refusal(self, member: Member, decided: m.Decided) -> str | None:
        if decided.kind == "stop":
            return None
        if member.paused == "user":
            return "a user has paused the trial"
        if decided.kind in ("pause", "resize") and not member.saved:
            return "the trial has saved no checkpoint"
        if decided.kind == "pause" and (member.wanted is not None or not member.running):
            return "the trial is already being interrupted"
        if decided.kind == "continue" and member.paused is None:
            return "the trial is not paused"
        if decided.kind == "exploit" and self._checkpoint(decided) is None:
            return "there is no such checkpoint any more"
        return None

    def _checkpoint(self, decided: m.Decided) -> tuple[int, int, int, int] | None:
        donor = self.members.get(decided.donor or "")
        saved = [] if donor is None else donor.saved
        return next((each for each in saved if each[:2] == decided.checkpoint), None)

    def _refuse(self, decided: m.Decided, reason: str) -> None:
        number = self.events.refused(decided, reason)
        self.recorded.setdefault((decided.cause, decided.trial_id), number)

    def _carry_out(self, member: Member, decided: m.Decided) -> None:
        member.wanted = None
        match decided.kind:
            case "pause":
                self._pause(member, "scheduler")
            case "stop":
                self._end(member, "EARLY_STOPPED")
            case "exploit":
                self._begin_leg(member, decided)
            case "resize":
                member.coming = decided.resources or {}
                if member.paused is None:
                    self._set_back(member)

    def _begin_leg(self, member: Member, decided: m.Decided) -> None:
        checkpoint = self._checkpoint(decided)
        if checkpoint is None:
            self._refuse(decided, "the donor has ended")
            return
        member.attempt, member.last_number, member.leg = member.attempt + 1, 0, member.leg + 1
        member.parameters = decided.parameters or ""
        member.saved, member.reports, member.paused = [], checkpoint[2], None
        member.origin = member.reports, member.position
        self.events.leg_began(member)
        if not member.running:
            self._next.append(member)
