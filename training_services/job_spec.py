"""Description of a job that the core gives to a training service, which ``base`` re-exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from training_services.events import JobPlaced, SaveOrdered, StopOrdered, UpdateOrdered
from training_services.job_ids import experiment_of_job, job_id_of

__all__ = [
    "Gang",
    "GangRole",
    "KeptCopy",
    "MemberProgress",
    "Origin",
    "OwnNeeds",
    "TrialJobSpec",
    "origin_id",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Checkpoint from which an attempt continues: number ``number`` of the trial's attempt ``attempt``.

    ``keeper_id``: keeper of the host that has the files; the attempt has to run there, unless the server has
    a copy. ``step``: the
    trial's own count of its progress, or None. ``position``, ``reports``: number of frames and of
    intermediate results up to the checkpoint, over all attempts that led to it. The new attempt's frames
    and results are counted from there.

    ``trial_id``: the other trial that has saved the checkpoint; None: it is the attempt's own trial.
    ``position`` is then the number of frames that the attempt's own trial has reported before.

    ``size``: bytes of all files, as the trial has reported them; None: recorded by an earlier version. It is
    not compared.
    """

    attempt: int
    number: int
    keeper_id: str
    step: int | None = None
    position: int = 0
    reports: int = 0
    trial_id: str | None = None
    size: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCopy:
    """Server's copy of a checkpoint. ``digest``: SHA-256 (hex) of its manifest; ``size``: bytes of all
    files.
    """

    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProgress:
    """Committed facts about a member of a gang. ``over``: it has ended or was lost. ``go``, ``stop``: numbers
    of the commands to run the trial's command, and to stop (``MembersStopped``).
    """

    started: bool = False
    over: bool = False
    go: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJobSpec:
    """Attempt at a trial, which the core asks the training service to run.

    ``parameter_text`` is the exact content of ``parameter.cfg``. The fields ``place`` to ``started`` are
    committed facts about the job, and so is ``members``. They are set when the job is submitted again after
    the server's restart.
    """

    id: str
    trial_id: str
    attempt: int
    sequence: int
    parameter_text: str
    place: JobPlaced | None = None
    stop: StopOrdered | None = None
    save: SaveOrdered | None = None  # the last order to save its state
    updates: tuple[tuple[UpdateOrdered, str], ...] = ()
    # number of metric frames that the core has committed, including the frames of earlier attempts up to the
    # checkpoint from which this attempt continues
    recorded: int = 0
    started: bool = False
    origin: Origin | None = None  # None: the attempt starts from the beginning
    memory_retries: int = 0  # number of earlier attempts after which the trial got more memory
    kept: KeptCopy | None = None  # the server's copy of the origin, with which the job may run on any host
    copy_comes: bool = False  # the server has no copy of the origin yet, but it is to be made
    seed: int | None = None  # for the trial's random numbers; None: the trial chooses a seed itself
    # resources that differ from the configuration: its fields, with their values (memory in MiB)
    resources: Mapping[str, float] = field(default_factory=dict)
    # committed facts about all members of a gang that has a place, the leader first
    members: tuple[MemberProgress, ...] = ()
    member: int | None = None  # this is the part of a gang's job for one member, whose id is ``id``
    # keepers that have had members of the trial's previous attempt, in the order of the members, as far as
    # they may have members again
    seats: tuple[str, ...] = ()
    most_members: int | None = None  # largest number of members of this attempt; None: as configured
    has_saved: bool = False  # the trial can continue from a checkpoint
    waits_since: datetime | None = None  # when it was first submitted; None: now
    hosts: tuple[str, ...] = ()  # addresses of the hosts of all members, for the others to reach them
    line_key: str = field(default="", repr=False)  # secret by which members prove who they are

    @property
    def origin_id(self) -> tuple[str, int] | None:
        """Job and number of the checkpoint from which the attempt continues."""
        return None if self.origin is None else origin_id(self.id, self.trial_id, self.origin)


def origin_id(job_id: str, trial_id: str, origin: Origin) -> tuple[str, int]:
    """Return the job that has saved the checkpoint from which a job continues, and the checkpoint's number.

    ``job_id``, ``trial_id``: the job that continues, and its trial.
    """
    saved_by = job_id_of(experiment_of_job(job_id), origin.trial_id or trial_id, origin.attempt)
    return saved_by, origin.number


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRole:
    """Members of a gang that are alike. ``replicas``: their number. None: the value of the whole trial.

    ``memory`` is in MiB. ``image``: image of the pods on platforms that have any.
    """

    name: str
    replicas: int = 1
    command: str | None = None
    gpus: float | None = None
    cpus: float | None = None
    memory: int | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Several worker processes that run the command of one trial. ``processes``: their number on each host,
    or "cpu", "gpu" or "auto"; None: the command runs once on each host. ``max_restarts``: number of retries
    after a failure, which the workers are told. ``nodes``: number of hosts. ``least_nodes``: number
    of hosts that an attempt needs, if it may have fewer than ``nodes``; None: it may not. ``hold_more``: then
    the longest time for which hosts for more members of a running trial are held; None: none are.
    ``same_host``: the members of one trial may run beside each other on one host. ``roles``: the roles of the
    members, which are numbered role after role; empty: all members are alike.
    """

    processes: str | None
    max_restarts: int
    nodes: int = 1
    least_nodes: int | None = None
    hold_more: timedelta | None = None
    same_host: bool = False
    roles: tuple[GangRole, ...] = ()

    @property
    def least(self) -> int:
        return self.nodes if self.least_nodes is None else self.least_nodes

    @property
    def sizes_of_roles(self) -> str:
        """Each role and the number of its members, such as "ps:1,worker:3"; "" if all members are alike."""
        return ",".join(f"{role.name}:{role.replicas}" for role in self.roles)

    def command_of(self, member: int) -> str | None:
        """Return the command of this member; None: it runs the command of the trial."""
        role = self.role_of(member)
        return None if role is None else role.command

    def role_of(self, member: int) -> GangRole | None:
        """Return the role of this member; None if all members are alike."""
        for role in self.roles:
            if member < role.replicas:
                return role
            member -= role.replicas
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNeeds:
    """Functions for the needs of a job that are not the same for all jobs. None: all jobs need the same.

    Each function depends on nothing but the job, and raises JobRejected if the job's need is not valid.
    """

    gpus: Callable[[TrialJobSpec], float | None] | None = None
    cpus: Callable[[TrialJobSpec], float | None] | None = None
    memory: Callable[[TrialJobSpec], int | None] | None = None  # MiB
