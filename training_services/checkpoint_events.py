"""Facts about checkpoints of trials that a training service reports to the core. See ``events``."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "CheckpointKeepBegun",
    "CheckpointKept",
    "CheckpointLost",
    "CheckpointReported",
    "CheckpointStored",
    "CheckpointsDeleted",
    "CheckpointsPruned",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReported:
    """Fact: the trial saved its state. The files are durable in the folder of the attempt, on its host.

    ``number``: number of the checkpoint in its attempt, from 1. ``step``: the trial's own count of its
    progress, or None. ``size``: bytes of all files. ``asked``: the trial was asked to save, because it is
    being paused; an exit with code 0 that follows is the pause, and not the trial's end. ``usable``: a later
    attempt can continue from the checkpoint. ``reports``: number of the trial's intermediate results up to
    the checkpoint, which the core adds; None: recorded by an earlier version.
    """

    job_id: str
    position: int
    number: int
    step: int | None
    size: int
    files: int
    asked: bool = False
    usable: bool = True
    reports: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPruned:
    """Fact: the job's checkpoints up to number ``up_to`` are not needed any more, except those in ``keep``.

    Their files and the server's copies of them are deleted after this fact is committed. ``keeper_id``:
    keeper of the host with the files; None: only the server's copies are not needed any more.
    """

    job_id: str
    keeper_id: str | None
    up_to: int
    keep: tuple[int, ...] = ()

    def after(self, earlier: CheckpointsPruned | None) -> CheckpointsPruned:
        """Return what this fact and an earlier one about the job allow together.

        The earlier one still counts for the numbers above ``up_to``.
        """
        if earlier is None:
            return self
        kept = tuple(number for number in earlier.keep if number > self.up_to)
        return replace(self, up_to=max(self.up_to, earlier.up_to), keep=self.keep + kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsDeleted:
    """Fact: the keeper has deleted what the first ``prunes`` facts CheckpointsPruned about it allow.

    It is reported once for many of them. After a restart of the server, the keeper gets the later ones again.
    """

    keeper_id: str
    prunes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKeepBegun:
    """Fact: the server begins to copy the checkpoint. It is not deleted on its host before the copy ends."""

    job_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKept:
    """Fact: the server has a durable copy of the checkpoint, from which attempts can continue on any host.

    ``digest``: SHA-256 (hex) of the copy's manifest, which has the hashes of all files. ``size``: bytes of
    all files.
    """

    job_id: str
    number: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStored:
    """Fact: the storage that users have named has the server's copy of the checkpoint, too."""

    job_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLost:
    """Fact: files of the checkpoint are missing or damaged, and cannot be used any more.

    ``keeper_id``: keeper of the host that had them; None: the server's copy is lost. ``reason``: a sentence.
    """

    job_id: str
    number: int
    reason: str
    keeper_id: str | None = None
