"""Invariants: checks of the events on the hosts against the recorded facts, and vice versa."""

from __future__ import annotations

import collections
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.kernel import Kernel
from tests.simulation.shim import ENDLESS, Conduct
from training_services.base import Place
from training_services.frames import read_frame
from trial_keeper import wire
from trial_keeper.actions import journal as product
from trial_keeper.core.records import Record

if TYPE_CHECKING:
    from tests.simulation.host import Host


@dataclass(slots=True)
class _Attempt:
    """Events of one attempt on its host, and the recorded facts about it."""

    execs: int = 0
    frames: list[bytes] = field(default_factory=list)  # complete frames that were written
    exit: tuple[int | None, int | None] | None = None  # exit code and signal, as its shim saw them
    shim_killed: bool = False
    unrecorded: bool = False  # it was placed, and then the database was replaced by an older copy
    spoiled: bool = False  # its claim was removed or overwritten
    exec_failed: bool = False
    lapsed: bool = False  # its shim has ended it, or not started it, because of its lease
    forsaken: bool = False  # given up without proof at a user's request: it may still run, or start
    sealed: str | None = None  # reason of its end in its keeper's record
    place: Place | None = None  # this field and the following ones are recorded
    recorded: int = 0
    stop: f.StopOrdered | None = None
    over: str | None = None  # reason of its end for the server


@dataclass(slots=True)
class _Trial:
    parameters: str
    ended: f.TrialStatus | None = None
    stopped: bool = False  # stop requested by a user, durably
    attempt: int = 1
    declared: bool = False  # declared lost by a user, durably
    sets: dict[int, tuple[int | None, str | None]] = field(
        default_factory=dict
    )  # further parameter sets: id -> parameters
    results: dict[int | None, str] = field(default_factory=dict)  # result by the id of the parameter set


class Witness:
    """Observer of all events. A broken promise ends the run."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.hosts: dict[str, Host] = {}
        self.attempts: dict[str, _Attempt] = collections.defaultdict(_Attempt)
        self.trials: dict[str, _Trial] = {}
        self.reported: dict[tuple[str, str | None], list[str]] = collections.defaultdict(list)
        self._conducts: dict[str, Conduct] = {}
        self._epochs: dict[str, int] = {}  # instance -> epoch of the last server that it obeyed
        self.leased = False
        self._older = False  # the database was replaced by an older copy
        self._stopped = False  # a user has stopped the experiment
        self._silent: set[str] = set()  # ids of silent keepers
        self.phased: random.Random | None = None  # decides how many parameter sets trials request
        self.number = 0
        self._at: datetime | None = None  # time of the last fact

    def conduct(self, trial_id: str) -> Conduct:
        """Return the behaviour of this trial's command, the same in every attempt."""
        if trial_id not in self._conducts:
            drawn = Conduct.draw(self._kernel)
            sets = 1 if self.phased is None else self.phased.choice([1, 2, 3, 5])
            # Requests after junk are not read, so such a trial would wait forever for further sets.
            self._conducts[trial_id] = replace(drawn, sets=1 if drawn.junk else sets)
        return self._conducts[trial_id]

    def endless(self) -> list[str]:
        """Return the trials that will not end by themselves."""
        return [
            trial_id
            for trial_id, trial in self.trials.items()
            if trial.ended is None and self.conduct(trial_id).frames == ENDLESS
        ]

    # ---- on the hosts -------------------------------------------------------------------------------------

    def started(self, job: str, host: Host, start: wire.Start, instance: str | None) -> None:
        """Check the start of an attempt's command, whose shim was forked by a keeper of this directory."""
        fail, attempt = self._kernel.fail, self.attempts[job]
        attempt.execs += 1
        trial_id = trial_of_job(job)[0]
        trial = self.trials.get(trial_id)
        if attempt.execs > 1:
            fail(f"attempt {job} was started {attempt.execs} times")
        for other in self.hosts.values():
            for shim in other.shims:
                old = self.attempts[shim.job]
                excused = (
                    (old.unrecorded and old.place is None)
                    or old.forsaken
                    or attempt.forsaken
                    or (self.leased and old.shim_killed)
                )  # a shim with a lease can have been killed
                if shim.main and shim.job != job and trial_of_job(shim.job)[0] == trial_id and not excused:
                    fail(f"attempts {shim.job} and {job} of one trial run together")
        self._check_gpus(job, host)
        if attempt.place is None and attempt.unrecorded:
            return
        if attempt.place is None or trial is None:
            fail(f"attempt {job} was started before its place was recorded")
            return
        if attempt.place.boot_id != host.boot_id or attempt.place.keeper_id != host.name:
            fail(f"attempt {job} was started in {host.boot_id}, but its place is {attempt.place}")
        if attempt.over is not None and not attempt.forsaken:
            fail(f"attempt {job} was started after its end was recorded: {attempt.over}")
        if trial.parameters not in start["parameter"]:
            fail(f"attempt {job} was started with parameters {start['parameter']}, not {trial.parameters}")
        known = {record.get("job") for record in product.parse(host.journal.content)[0]}
        if instance == host.instance and job not in known and not host.journal.shortened:
            fail(f"attempt {job} runs, but it is not in its keeper's journal")

    def _check_gpus(self, job: str, host: Host) -> None:
        """Check that no other attempt computes on the GPUs of this attempt."""
        place = self.attempts[job].place
        if place is None:
            return
        for shim in host.shims:
            other = None if self.attempts[shim.job].forsaken else self.attempts[shim.job].place
            if shim.main and shim.job != job and other is not None and set(place.gpus) & set(other.gpus):
                self._kernel.fail(f"attempts {shim.job} and {job} share a GPU of {host.name}")

    def wrote(self, job: str, payload: bytes, *, readable: bool) -> None:
        """Record a complete frame; not ``readable``: bytes without a header precede it."""
        attempt = self.attempts[job]
        if readable:
            attempt.frames.append(payload)
        if attempt.sealed is not None:
            self._kernel.fail(f"attempt {job} wrote frame {len(attempt.frames)} after its end was sealed")

    def given(self, job: str, index: int, record: dict[str, Any]) -> None:
        """Check a further parameter set that the command of an attempt has found."""
        found = self.trials[trial_of_job(job)[0]].sets.get(index)
        parameters = None if record["parameters"] is None else json.dumps(record["parameters"])
        if found != (record["parameter_id"], parameters) or record["parameter_index"] != index:
            self._kernel.fail(f"attempt {job} got {record} as set {index}; {found} is recorded")

    def exited(self, job: str, code: int | None, signal: int | None) -> None:
        self.attempts[job].exit = (code, signal)

    def lapsed(self, job: str) -> None:
        self.attempts[job].lapsed = True

    def shim_killed(self, job: str) -> None:
        self.attempts[job].shim_killed = True

    def spoiled(self, job: str) -> None:
        self.attempts[job].spoiled = True

    def exec_failed(self, job: str) -> None:
        self.attempts[job].exec_failed = True

    def journaled(self, host: Host, record: Record) -> None:
        """Check a record that a keeper has written."""
        if record["k"] == "server":
            assert host.instance is not None
            if record["m_epoch"] < self._epochs.get(host.instance, 0):
                self._kernel.fail(
                    f"{host.name} obeys the server of epoch {record['m_epoch']} after a later one"
                )
            self._epochs[host.instance] = record["m_epoch"]
        elif record["k"] == "final":
            job, final = record["job"], record["final"]
            self.attempts[job].sealed = final["reason"]
            for shim in host.shims:
                if shim.job == job and (shim.main or shim.strays):
                    self._kernel.fail(f"attempt {job} is sealed while it runs")

    # ---- in the database ----------------------------------------------------------------------------------

    def committed(self, turn: Sequence[f.Recorded]) -> None:
        """Check a turn that is durable."""
        for number, at, fact in turn:
            if number != self.number + 1 or (self._at is not None and at < self._at):
                self._kernel.fail(f"fact {number} of {at} follows fact {self.number} of {self._at}")
            self.number, self._at = number, at
            if isinstance(fact, f.MetricReported | f.FrameSkipped | f.ParametersWanted):
                self._frame(fact)
            else:
                self._fact(fact)

    def stop_accepted(self, trial_id: str) -> None:
        """Record that a user was told that the trial will stop."""
        if not self.trials[trial_id].stopped:
            self._kernel.fail(f"the stop of trial {trial_id} was accepted and is not recorded")

    def replay(self, log: Sequence[f.Recorded]) -> None:
        """Rebuild the recorded facts from this log, as if the database had never contained other facts."""
        self._older = True
        self.number, self._at = 0, None
        self.trials.clear()
        self.reported.clear()
        self._silent.clear()
        for attempt in self.attempts.values():
            attempt.unrecorded = attempt.unrecorded or attempt.place is not None
            attempt.place = attempt.stop = attempt.over = None
            attempt.recorded = 0
        self.committed(log)

    def _frame(self, fact: f.MetricReported | f.FrameSkipped | f.ParametersWanted) -> None:
        job, fail = fact.job_id, self._kernel.fail
        attempt = self.attempts[job]
        if attempt.over is not None:
            fail(f"frame {fact.position} of {job} was recorded after its end: {attempt.over}")
        if fact.position != attempt.recorded:
            fail(f"frame {fact.position} of {job} was recorded as number {attempt.recorded}")
        attempt.recorded += 1
        if fact.position >= len(attempt.frames):
            fail(f"frame {fact.position} of {job} was recorded, {len(attempt.frames)} were written")
            return
        payload = attempt.frames[fact.position]
        written = read_frame(job, trial_of_job(job)[0], position=fact.position, payload=payload)
        if fact != written:
            fail(f"frame {fact.position} of {job} was recorded as {fact}, not {written}")
        if self.phased is not None and isinstance(fact, f.MetricReported) and fact.type == "FINAL":
            self.reported[trial_of_job(job)[0], fact.parameter_id].append(fact.text)

    def _fact(self, fact: f.Fact) -> None:
        fail = self._kernel.fail
        match fact:
            case f.Suggested():
                if fact.trial_id in self.trials:
                    fail(f"trial {fact.trial_id} was suggested twice")
                self.trials[fact.trial_id] = _Trial(fact.parameters)
            case f.FurtherSuggested(late=False) | f.ResultTaken():
                self._phase(fact)
            case f.JobPlaced():
                self._placed(fact)
            case f.StopOrdered():
                self._stop_ordered(fact)
            case f.JobStarted():
                if self.attempts[fact.job_id].execs == 0:
                    fail(f"attempt {fact.job_id} is recorded as started and was not")
            case f.KeeperSilent() | f.KeeperHeard():
                self._heard(fact)
            case f.JobEnded():
                self._ended(fact)
            case f.JobLost():
                self._lost(fact)
            case f.LossDeclared() | f.StopRequested() | f.ExperimentStopRequested():
                self._wished(fact)
            case f.AttemptDue():
                self._due(fact)
            case f.TrialEnded():
                trial = self.trials[fact.trial_id]
                if trial.ended is not None:
                    fail(f"trial {fact.trial_id} was {trial.ended} and is {fact.status}")
                trial.ended = fact.status
            case f.ExperimentMoved(status=f.ExperimentStatus.ERROR):
                fail(f"the experiment is ERROR: {fact.reason}")

    def _stop_ordered(self, fact: f.StopOrdered) -> None:
        attempt = self.attempts[fact.job_id]
        attempt.stop = fact
        if fact.cmd_seq is None:
            attempt.over = "it was never placed"

    def _heard(self, fact: f.KeeperSilent | f.KeeperHeard) -> None:
        if isinstance(fact, f.KeeperSilent):
            self._silent.add(fact.keeper_id)
        else:
            self._silent.discard(fact.keeper_id)

    def _wished(self, fact: f.LossDeclared | f.StopRequested | f.ExperimentStopRequested) -> None:
        """Record the wish of a user, durably."""
        match fact:
            case f.LossDeclared():
                self.trials[fact.trial_id].declared = True
            case f.StopRequested(kind=f.StopKind.USER):
                self.trials[fact.trial_id].stopped = True
            case f.ExperimentStopRequested():
                self._stopped = True

    def _phase(self, fact: f.FurtherSuggested | f.ResultTaken) -> None:
        trial = self.trials[fact.trial_id]
        if isinstance(fact, f.ResultTaken):
            if fact.parameter_id in trial.results:
                self._kernel.fail(f"the result of set {fact.parameter_id} was taken twice")
            trial.results[fact.parameter_id] = fact.text
        else:
            if fact.index in trial.sets:
                self._kernel.fail(f"trial {fact.trial_id} was given set {fact.index} twice")
            trial.sets[fact.index] = (fact.parameter_id, fact.parameters)

    def _due(self, fact: f.AttemptDue) -> None:
        trial = self.trials[fact.trial_id]
        if trial.stopped:
            self._kernel.fail(f"trial {fact.trial_id} was stopped and gets attempt {fact.attempt}")
        follows = fact.attempt > trial.attempt if self._older else fact.attempt == trial.attempt + 1
        if not follows or trial.ended is not None:
            self._kernel.fail(f"trial {fact.trial_id} ({trial.ended}) gets attempt {fact.attempt}")
        trial.attempt = fact.attempt
        trial.declared = False

    def _placed(self, fact: f.JobPlaced) -> None:
        attempt = self.attempts[fact.job_id]
        trial_id, number = trial_of_job(fact.job_id)
        trial = self.trials[trial_id]
        if attempt.place is not None:
            self._kernel.fail(f"attempt {fact.job_id} was placed twice")
        if trial.ended is not None or trial.attempt != number:
            self._kernel.fail(f"attempt {fact.job_id} was placed, but {trial}")
        attempt.place = fact.place

    def _ends(self, job: str, how: str) -> _Attempt:
        attempt = self.attempts[job]
        if attempt.over is not None:
            self._kernel.fail(f"attempt {job} ended twice: {attempt.over}; {how}")
        attempt.over = how
        return attempt

    def _ended(self, fact: f.JobEnded) -> None:
        job, fail = fact.job_id, self._kernel.fail
        attempt = self._ends(job, f"{fact.reason} {fact.exit_code}")
        if attempt.recorded < fact.metrics:
            fail(f"attempt {job} ended with {fact.metrics} frames, {attempt.recorded} are recorded")
        if not self._fenced(attempt) and attempt.recorded != len(attempt.frames):
            fail(f"attempt {job} wrote {len(attempt.frames)} frames, {attempt.recorded} are recorded")
        match fact.reason:
            case f.EndReason.NEVER_STARTED:
                justified = attempt.execs == 0 and (attempt.exec_failed or attempt.stop is not None)
            case f.EndReason.STOPPED:
                justified = attempt.stop is not None and (attempt.execs == 1 or attempt.shim_killed)
            case f.EndReason.LEASE:
                justified = attempt.lapsed
            case _:
                justified = attempt.execs == 1 or attempt.shim_killed
        if fact.exit_code is None and fact.signal is None:
            unsaid = fact.reason is f.EndReason.NEVER_STARTED or attempt.execs == 0
            justified = justified and (unsaid or attempt.shim_killed or attempt.spoiled)
        elif attempt.exit != (fact.exit_code, fact.signal):
            justified = False
        if not justified and not attempt.unrecorded:  # the reason of its stop may be forgotten
            fail(f"attempt {job} ended without cause: {fact}; {attempt}")

    def _fenced(self, attempt: _Attempt) -> bool:
        """Return True if the attempt's boot or directory is gone, so that nothing of it runs."""
        if attempt.place is None:
            return False
        host = self.hosts[attempt.place.keeper_id]
        return attempt.place.boot_id != host.boot_id or attempt.place.instance != host.instance

    def _lost(self, fact: f.JobLost) -> None:
        attempt = self._ends(fact.job_id, f"lost: {fact.reason}")
        trial = self.trials[trial_of_job(fact.job_id)[0]]
        wanted = attempt.stop is not None and (trial.declared or trial.stopped)
        if wanted or self._stopped:
            attempt.forsaken = True  # even if its directory is gone: perhaps nobody has ended it there yet
            self._kernel.counts["given up by a user"] += 1
        elif self._fenced(attempt) or attempt.unrecorded:
            return
        elif self._older and not attempt.execs:
            # the newer database had used its number before
            self._kernel.counts["given up behind an older database"] += 1
        elif self._ending(attempt):
            if self._runs(fact.job_id) or attempt.recorded != len(attempt.frames):
                self._kernel.fail(
                    f"attempt {fact.job_id} was told to end with its host, too early: {attempt}"
                )
            self._kernel.counts["told to end with its host"] += 1
        elif not self.leased:
            self._kernel.fail(f"attempt {fact.job_id} was given up without cause: {fact.reason}")
        elif not attempt.shim_killed and self._runs(fact.job_id):
            self._kernel.fail(f"attempt {fact.job_id} was given up and runs: {fact.reason}")
        else:
            self._kernel.counts["given up by its lease"] += 1

    def _ending(self, attempt: _Attempt) -> bool:
        """Return True if the attempt's host has reported that it ends, unless its lease ends first."""
        if attempt.place is None or (self.leased and attempt.place.keeper_id in self._silent):
            return False
        return self.hosts[attempt.place.keeper_id].ending is not None

    def _runs(self, job: str) -> bool:
        return any(shim.main and shim.job == job for host in self.hosts.values() for shim in host.shims)

    def leftovers(self) -> list[str]:
        """Return the attempts that still run although they must not.

        Attempts that an older database does not know are exempt.
        """
        return [
            f"{shim.job} still runs on {host.name}"
            for host in self.hosts.values()
            for shim in host.shims
            if shim.stirs
            and not (self.attempts[shim.job].unrecorded and self.attempts[shim.job].place is None)
        ]

    # ---- at the end ---------------------------------------------------------------------------------------

    def check_end(self, status: f.ExperimentStatus) -> None:
        """Check the end: no faults for a long time, and the experiment reports that it has ended."""
        fail = self._kernel.fail
        if status not in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED):
            fail(f"the experiment is {status} in the end")
        for trial_id, trial in self.trials.items():
            if trial.ended is None:
                fail(f"trial {trial_id} has not ended: {trial}")
            final = (f.TrialStatus.USER_CANCELED, f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED)
            if trial.stopped and trial.ended not in (*final, *_OTHER_STOPS):
                fail(f"trial {trial_id} was stopped and is {trial.ended}")
        for (trial_id, parameter_id), texts in self.reported.items():
            key = None if parameter_id is None else int(parameter_id)
            if self.trials[trial_id].results.get(key) != texts[0]:
                fail(f"set {parameter_id} of trial {trial_id} has {texts}; not the first was taken")
        for leftover in self.leftovers():
            fail(leftover)
        for job, attempt in self.attempts.items():
            if attempt.place is not None and attempt.over is None:
                fail(f"attempt {job} is open in the end: {attempt}")
            excused = attempt.unrecorded or self._fenced(attempt) or self._ending(attempt)
            # A withdrawn start that a restarted server sends again is sealed without having run.
            if attempt.sealed == wire.HOST_LOST and attempt.execs and not excused:
                fail(f"attempt {job} was sealed as lost without cause")


_OTHER_STOPS = (f.TrialStatus.EARLY_STOPPED, f.TrialStatus.SYS_CANCELED)  # another stop may have come first
