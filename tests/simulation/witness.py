"""Invariants: checks of the events on the hosts against the recorded facts, and vice versa."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.checkpoint_check import CheckpointCheck
from tests.simulation.evidence import Evidence
from tests.simulation.gangs import GangCheck
from tests.simulation.kernel import Kernel
from tests.simulation.log_check import LogCheck
from tests.simulation.save_check import SaveCheck
from tests.simulation.shim import ENDLESS, Conduct
from training_services.base import job_of_member
from trial_keeper import wire
from trial_keeper.actions import journal as product
from trial_keeper.core.records import Record

if TYPE_CHECKING:
    from tests.simulation.host import Host


class Witness:
    """Observer of a simulated run. A broken promise ends the run.

    ``log`` checks what the database records, ``checkpoints`` checks what is said of checkpoints, ``saves``
    checks orders to save, ``gangs`` checks jobs on several hosts.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.evidence = Evidence()
        self.checkpoints = CheckpointCheck(kernel, self.evidence)
        self.saves = SaveCheck(kernel, self.evidence)
        self.gangs = GangCheck(kernel, self.evidence)
        self.log = LogCheck(kernel, self.evidence, self.checkpoints, self.gangs)
        self._conducts: dict[str, Conduct] = {}
        self._epochs: dict[str, int] = {}  # instance -> epoch of the last server that it obeyed

    def conduct(self, trial_id: str) -> Conduct:
        """Return the behaviour of this trial's command, the same in every attempt."""
        if trial_id not in self._conducts:
            drawn = Conduct.draw(self._kernel)
            sets = 1 if self.evidence.phased is None else self.evidence.phased.choice([1, 2, 3, 5])
            # Requests after junk are not read, so such a trial would wait forever for further sets.
            drawn = replace(drawn, sets=1 if drawn.junk else sets)
            self._conducts[trial_id] = drawn.saving(self._kernel) if self.evidence.saving else drawn
        return self._conducts[trial_id]

    def endless(self) -> list[str]:
        """Return the trials that will not end by themselves."""
        return [
            trial_id
            for trial_id, trial in self.evidence.trials.items()
            if trial.ended is None and self.conduct(trial_id).frames == ENDLESS
        ]

    # ---- on the hosts -------------------------------------------------------------------------------------

    def started(self, job: str, host: Host, start: wire.Start, instance: str | None) -> None:
        """Check the start of an attempt's command, whose shim was forked by a keeper of this directory."""
        fail, attempt = self._kernel.fail, self.evidence.attempts[job]
        attempt.execs += 1
        trial_id = trial_of_job(job)[0]
        trial = self.evidence.trials.get(trial_id)
        if attempt.execs > 1:
            fail(f"attempt {job} was started {attempt.execs} times")
        for other in self.evidence.hosts.values():
            for shim in other.shims:
                old = self.evidence.attempts[shim.job]
                excused = (
                    any(each.unrecorded and each.place is None for each in (old, attempt))
                    or (old.forsaken and not old.parked)
                    or attempt.forsaken
                    or (self.evidence.leased and old.shim_killed)
                )  # a shim with a lease can have been killed
                others = job_of_member(shim.job)[0] != job_of_member(job)[0]
                if shim.main and others and trial_of_job(shim.job)[0] == trial_id and not excused:
                    fail(f"attempts {shim.job} and {job} of one trial run together")
        self._check_gpus(job, host)
        if attempt.place is None and attempt.unrecorded:
            return
        if attempt.place is None or trial is None:
            fail(f"attempt {job} was started before its place was recorded")
            return
        if attempt.place.boot_id != host.boot_id or attempt.place.keeper_id != host.name:
            fail(f"attempt {job} was started in {host.boot_id}, but its place is {attempt.place}")
        if trial.paused and not attempt.forsaken:
            fail(f"attempt {job} was started, and its trial is paused")
        if attempt.over is not None and not attempt.forsaken:
            fail(f"attempt {job} was started after its end was recorded: {attempt.over}")
        if trial.parameters not in start["parameter"]:
            fail(f"attempt {job} was started with parameters {start['parameter']}, not {trial.parameters}")
        self.log.confirmations.started(trial, start)
        if (given := json.loads(start["environment"].get("RESOURCES") or "{}")) != trial.resources:
            fail(f"attempt {job} was started with the resources {given}, not {trial.resources}")
        known = {record.get("job") for record in product.parse(host.journal.content)[0]}
        if instance == host.instance and job not in known and not host.journal.shortened:
            fail(f"attempt {job} runs, but it is not in its keeper's journal")

    def _check_gpus(self, job: str, host: Host) -> None:
        """Check that no other attempt computes on the GPUs of this attempt."""
        place = self.evidence.attempts[job].place
        if place is None:
            return
        for shim in host.shims:
            other = (
                None if self.evidence.attempts[shim.job].forsaken else self.evidence.attempts[shim.job].place
            )
            if shim.main and shim.job != job and other is not None and set(place.gpus) & set(other.gpus):
                self._kernel.fail(f"attempts {shim.job} and {job} share a GPU of {host.name}")

    def wrote(self, job: str, payload: bytes, *, readable: bool, step: int | None) -> None:
        """Record a complete frame; not ``readable``: bytes without a header precede it."""
        attempt = self.evidence.attempts[job]
        if readable:
            attempt.frames.append(payload)
            attempt.steps.append(step)
        if attempt.sealed is not None:
            self._kernel.fail(f"attempt {job} wrote frame {len(attempt.frames)} after its end was sealed")

    def given(self, job: str, index: int, record: dict[str, Any]) -> None:
        """Check a further parameter set that the command of an attempt has found."""
        found = self.evidence.trials[trial_of_job(job)[0]].sets.get(index)
        parameters = None if record["parameters"] is None else json.dumps(record["parameters"])
        if found != (record["parameter_id"], parameters) or record["parameter_index"] != index:
            self._kernel.fail(f"attempt {job} got {record} as set {index}; {found} is recorded")

    def exited(self, job: str, code: int | None, signal: int | None) -> None:
        self.evidence.attempts[job].exit = (code, signal)
        self.saves.exited(job)

    def felled(self, job: str) -> None:
        self.evidence.attempts[job].felled = True

    def lapsed(self, job: str) -> None:
        self.evidence.attempts[job].lapsed = True

    def shim_killed(self, job: str) -> None:
        self.evidence.attempts[job].shim_killed = True

    def spoiled(self, job: str) -> None:
        self.evidence.attempts[job].spoiled = True

    def exec_failed(self, job: str) -> None:
        self.evidence.attempts[job].exec_failed = True

    def journaled(self, host: Host, record: Record) -> None:
        """Check a record that a keeper has written."""
        if record["k"] == "server":
            assert host.instance is not None
            if record["m_epoch"] < self._epochs.get(host.instance, 0):
                self._kernel.fail(
                    f"{host.name} obeys the server of epoch {record['m_epoch']} after a later one"
                )
            self._epochs[host.instance] = record["m_epoch"]
        elif record["k"] == "save" and "seq" in record:
            self.evidence.attempts[record["job"]].save_at = self._kernel.now
        elif record["k"] == "nop":
            self.saves.ignored(host, record["seq"])
        elif record["k"] == "final":
            job, final = record["job"], record["final"]
            self.evidence.attempts[job].sealed = final["reason"]
            for shim in host.shims:
                if shim.job == job and (shim.main or shim.strays):
                    self._kernel.fail(f"attempt {job} is sealed while it runs")

    def stop_accepted(self, trial_id: str) -> None:
        """Check that the stop of a trial is recorded, after the server has accepted it from a user."""
        if not self.evidence.trials[trial_id].stopped:
            self._kernel.fail(f"the stop of trial {trial_id} was accepted and is not recorded")

    # ---- at the end ---------------------------------------------------------------------------------------

    def check_end(self, status: f.ExperimentStatus) -> None:
        """Check the end: no faults for a long time, and the experiment reports that it has ended."""
        fail = self._kernel.fail
        if status not in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED):
            fail(f"the experiment is {status} in the end")
        for trial_id, trial in self.evidence.trials.items():
            if trial.ended is None and not (trial.paused and status is f.ExperimentStatus.STOPPED):
                fail(f"trial {trial_id} has not ended: {trial}")
            final = (f.TrialStatus.USER_CANCELED, f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED)
            if trial.stopped and trial.ended not in (*final, *_OTHER_STOPS):
                fail(f"trial {trial_id} was stopped and is {trial.ended}")
        for (trial_id, parameter_id), texts in self.evidence.reported.items():
            key = None if parameter_id is None else int(parameter_id)
            if self.evidence.trials[trial_id].results.get(key) != texts[0]:
                fail(f"set {parameter_id} of trial {trial_id} has {texts}; not the first was taken")
        for leftover in (*self.evidence.leftovers(), *self.gangs.left()):
            fail(leftover)
        for host in self.evidence.hosts.values():
            self.checkpoints.host(host)
        for job, attempt in self.evidence.attempts.items():
            if attempt.place is not None and attempt.over is None:
                fail(f"attempt {job} is open in the end: {attempt}")
            excused = attempt.unrecorded or self.evidence.fenced(attempt) or self.evidence.ending(attempt)
            # A withdrawn start that a restarted server sends again is sealed without having run.
            if attempt.sealed == wire.HOST_LOST and attempt.execs and not excused:
                fail(f"attempt {job} was sealed as lost without cause")


_OTHER_STOPS = (f.TrialStatus.EARLY_STOPPED, f.TrialStatus.SYS_CANCELED)  # another stop may have come first
