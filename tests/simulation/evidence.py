"""Evidence of a simulated run: events on the hosts, and the recorded facts about the same attempts."""

from __future__ import annotations

import collections
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnimgr.rules import facts as f
from tests.simulation.curve import Curve
from training_services.base import Place

if TYPE_CHECKING:
    from tests.simulation.host import Host


@dataclass(slots=True)
class Attempt:
    """Events of one attempt on its host, and the recorded facts about it."""

    execs: int = 0
    frames: list[bytes] = field(default_factory=list)  # complete frames that were written
    steps: list[int | None] = field(default_factory=list)  # for each frame: the trial's step, or None
    exit: tuple[int | None, int | None] | None = None  # exit code and signal, as its shim saw them
    shim_killed: bool = False
    unrecorded: bool = False  # it was placed, and then the database was replaced by an older copy
    spoiled: bool = False  # its claim was removed or overwritten
    exec_failed: bool = False
    felled: bool = False  # its command was ended by a signal to all processes of its host
    lapsed: bool = False  # its shim has ended it, or not started it, because of its lease
    # its trial was paused by a stop of the experiment, and will continue; no user has declared it lost
    parked: bool = False
    forsaken: bool = False  # given up without proof at a user's request: it may still run, or start
    save_at: float | None = None  # time at which its keeper has recorded the order to save its state
    sealed: str | None = None  # reason of its end in its keeper's record
    place: Place | None = None  # this field and the following ones are recorded
    recorded: int = 0
    base: int = 0  # number of its first frame
    reports: int = 0  # number of intermediate results before it
    saved: int = 0  # number of its last checkpoint
    left: bool = False  # it has saved its state when asked, and reported no result since
    stop: f.StopOrdered | None = None
    over: str | None = None  # reason of its end for the server


@dataclass(slots=True)
class Trial:
    """Recorded facts about one trial."""

    parameters: str
    confirms: str | None = None  # id of the trial that it confirms
    seed: int | None = None
    resources: dict[str, float] = field(default_factory=dict)  # those that differ from the configuration
    leg_frames: int = 0  # number of frames before its present leg
    ended: f.TrialStatus | None = None
    stopped: bool = False  # stop requested by a user, durably
    attempt: int = 1
    declared: bool = False  # declared lost by a user, durably
    paused: bool = False
    exited: f.JobEnded | None = None  # its last attempt exited with code 0, and nothing followed yet
    curve: Curve = field(default_factory=Curve)
    sets: dict[int, tuple[int | None, str | None]] = field(
        default_factory=dict
    )  # further parameter sets: id -> parameters
    results: dict[int | None, str] = field(default_factory=dict)  # result by the id of the parameter set


class Evidence:
    """Events on the hosts and recorded facts, by attempt and trial."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.attempts: dict[str, Attempt] = collections.defaultdict(Attempt)
        self.trials: dict[str, Trial] = {}
        self.reported: dict[tuple[str, str | None], list[str]] = collections.defaultdict(list)
        self.leased = False  # the experiment has a lease
        self.saving = False  # trials save their state
        self.phased: random.Random | None = None  # decides how many parameter sets trials request
        self.older = False  # the database was replaced by an older copy
        self.stopped = False  # a user has stopped the experiment
        self.silent: set[str] = set()  # ids of silent keepers
        self.removed: set[str] = set()  # ids of keepers whose machine was once removed
        self.instances: dict[str, str] = {}  # keeper id -> its directory
        self.saves: dict[tuple[str, int], str] = {}  # directory and number of each order to save -> its job

    def forget_records(self) -> None:
        """Forget the recorded facts, because an older copy replaces the database."""
        self.older = True
        self.trials.clear()
        self.reported.clear()
        self.silent.clear()
        self.instances.clear()
        self.saves.clear()
        for attempt in self.attempts.values():
            attempt.unrecorded = attempt.unrecorded or attempt.place is not None
            attempt.place = attempt.stop = attempt.over = None
            attempt.recorded = attempt.base = attempt.reports = attempt.saved = 0
            attempt.left = False

    def fenced(self, attempt: Attempt) -> bool:
        """Return True if the attempt's boot or directory is gone, so that nothing of it runs."""
        if attempt.place is None:
            return False
        host = self.hosts[attempt.place.keeper_id]
        return attempt.place.boot_id != host.boot_id or attempt.place.instance != host.instance

    def ending(self, attempt: Attempt) -> bool:
        """Return True if the attempt's host has reported that it ends, unless its lease ends first."""
        if attempt.place is None or (self.leased and attempt.place.keeper_id in self.silent):
            return False
        return self.hosts[attempt.place.keeper_id].ending is not None

    def runs(self, job: str) -> bool:
        return any(shim.main and shim.job == job for host in self.hosts.values() for shim in host.shims)

    def leftovers(self) -> list[str]:
        """Return the attempts that still run although they must not.

        Attempts that an older database does not know are exempt, and attempts that were given up at a user's
        request on a machine that was then removed: nobody waits for such a machine.
        """
        return [
            f"{shim.job} still runs on {host.name}"
            for host in self.hosts.values()
            for shim in host.shims
            if shim.stirs
            and not (self.attempts[shim.job].unrecorded and self.attempts[shim.job].place is None)
            and not (self.attempts[shim.job].forsaken and host.name in self.removed)
        ]
