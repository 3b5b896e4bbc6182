"""Checks of the files of checkpoints that hosts delete: only what is recorded, and all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnimgr.rules import facts as f
from nnimgr.rules.state import KeeperState, trial_of_job
from tests.simulation.evidence import Evidence
from tests.simulation.kernel import Kernel
from training_services.keepers.host import attempt_folder

if TYPE_CHECKING:
    from tests.simulation.host import Host


class DeletionCheck:
    """Check that hosts delete what the facts allow."""

    def __init__(self, kernel: Kernel, evidence: Evidence) -> None:
        self._kernel, self._evidence = kernel, evidence
        self._ordered: set[tuple[str, str, int]] = set()  # keeper, folder and number

    def ordered(self, fact: f.CheckpointsPruned) -> None:
        """Record that the keeper of this fact may delete checkpoints."""
        assert fact.keeper_id is not None
        folder = _folder(fact.job_id)
        self._ordered |= {
            (fact.keeper_id, folder, number) for number in range(1, fact.up_to + 1) if number not in fact.keep
        }

    def deleted(self, host: Host, directory: str, number: int) -> None:
        """Check that the deletion of a checkpoint was recorded first."""
        if (host.name, directory, number) not in self._ordered and not self._evidence.older:
            self._kernel.fail(f"checkpoint {number} of {directory} was deleted on {host.name} without order")
        self._kernel.counts["checkpoint deleted"] += 1

    def left(self, host: Host, keeper: KeeperState | None) -> None:
        """Check that what was to be deleted is deleted, or known to be left: a resume deletes it then."""
        if keeper is None or keeper.instance != host.instance or self._evidence.older:
            return
        for name, folder, number in self._ordered:
            if name != host.name or number not in host.files(folder).checkpoints:
                continue
            if not any(
                number <= fact.up_to and number not in fact.keep
                for _, fact in keeper.unpruned.values()
                if _folder(fact.job_id) == folder
            ):
                self._kernel.fail(f"checkpoint {number} of {folder} on {name} is never deleted")
            self._kernel.counts["deletion left to a resume"] += 1


def _folder(job_id: str) -> str:
    return "/".join(attempt_folder(*trial_of_job(job_id)))
