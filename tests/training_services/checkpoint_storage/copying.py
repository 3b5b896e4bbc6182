"""Copies on the server's disk, for tests of their storage."""

from __future__ import annotations

import hashlib

from training_services.base import KeptCopy
from training_services.checkpoint_store import CheckpointStore
from trial_keeper.checkpoints.contents import Entry

JOB = "exp-aaaaa-1"
ENTRIES = [Entry("a", 5), Entry("b/c", 3), Entry("d", 0), Entry("e/", 0)]
HASHES = [hashlib.sha256(content).hexdigest() for content in (b"first", b"two", b"")]
FILES = ["files/a", "files/b/c", "files/d", "manifest.json"]


def keep(store: CheckpointStore, number: int, job_id: str = JOB) -> KeptCopy:
    """Let the server have a copy of a checkpoint."""
    incoming = store.begin(job_id, number, ENTRIES)
    incoming.write(b"firsttwo")
    return store.finish(job_id, number, incoming, HASHES)


def stored(*numbers: int, trial_id: str = "aaaaa", attempt: int = 1) -> list[str]:
    """Return the names of all files of these copies in the storage."""
    return [f"{trial_id}/{attempt}-{number}/{name}" for number in numbers for name in FILES]
