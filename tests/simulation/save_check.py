"""Checks of requests to save: each reaches its trial, although keepers and servers die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnimgr.rules.state import trial_of_job
from tests.simulation.disk import Files
from tests.simulation.evidence import Evidence
from tests.simulation.kernel import Kernel
from training_services.keepers.host import attempt_folder
from trial_keeper.core.attempt import Attempt as Held

if TYPE_CHECKING:
    from tests.simulation.host import Host

CLOCKS = 0.9  # a host's clock may be faster than the world's
ASKED_S = 15.0  # time in which a keeper that works has certainly asked a trial to save its state


class SaveCheck:
    """Check of requests to save: those of users, and those before a pause."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence

    def ignored(self, host: Host, seq: int) -> None:
        """Check that a command without effect does not take the place of an order to save."""
        saves, instance = self._evidence.saves, host.instance or ""
        job = saves.get((instance, seq))
        attempt = None if job is None else self._evidence.attempts[job]
        if job is None or attempt is None or self._evidence.older:
            return
        if any(saves[other] == job and other > (instance, seq) for other in saves if other[0] == instance):
            return  # a later order takes its place
        held = None if host.keeper is None else host.keeper.core.attempts.get(job)
        if held is not None and (held.evicted or held.orphaned or held.doomed):
            return  # the keeper itself stops the attempt
        if self._evidence.runs(job) and attempt.stop is None and attempt.over is None:
            self._kernel.fail(f"the order {seq} of {host.name}, that {job} saves its state, was not sent")

    def exited(self, job: str) -> None:
        """Check that a trial which ends was asked to save its state, if its keeper has had time for that."""
        attempt = self._evidence.attempts[job]
        if attempt.save_at is None or attempt.place is None or attempt.stop is not None or attempt.spoiled:
            return
        host, now = self._evidence.hosts[attempt.place.keeper_id], self._kernel.now
        if host.keeper is None or host.journal.shortened or attempt.place.instance != host.instance:
            return
        began = max(attempt.save_at, host.keeper.launched_at, host.keeper.stalled_until)
        if now - began > ASKED_S and not host.files("/".join(attempt_folder(*trial_of_job(job)))).requests:
            self._kernel.fail(f"{job} was not asked to save its state for {now - began:.0f} s")

    def signalled(self, job: str, files: Files, held: Held | None) -> None:
        """Check that a trial that was asked to save has had the time for it."""
        stop = self._evidence.attempts[job].stop
        if stop is None or stop.save_within is None or held is None or not files.save:
            return
        if held.orphaned or held.evicted or held.doomed or files.asked_at is None:
            return
        waited = self._kernel.now - files.asked_at
        if waited < CLOCKS * stop.save_within.total_seconds():
            self._kernel.fail(f"attempt {job} is stopped {waited:.1f} s after it was asked to save")
