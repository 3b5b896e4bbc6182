"""The first script that an experiment would submit to Slurm, for ``nnictl create --dry-run``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.model import Member
from nnimgr.config.spill import member_on, one_of_several

__all__ = ["PlannedScript", "plan_script"]


@dataclass(frozen=True, slots=True)
class PlannedScript:
    """Script for sbatch that an experiment would submit.

    ``accepted``: True if the cluster would accept it; None if unknown. ``verdict``: one sentence about that.
    """

    script: str
    accepted: bool | None
    verdict: str

    def plain(self) -> dict[str, Any]:
        return {"script": self.script, "accepted": self.accepted, "verdict": self.verdict}


def plan_script(
    config: ExperimentConfig, experiment_id: str, environ: Mapping[str, str]
) -> PlannedScript | None:
    """Return the script of the experiment's first allocation. Nothing is submitted.

    Return None if Slurm is not a platform of the experiment.
    """
    member = member_on(config, "slurm")
    return None if member is None else asyncio.run(_plan(member, experiment_id, environ))


async def _plan(member: Member, experiment_id: str, environ: Mapping[str, str]) -> PlannedScript:
    from nnimgr.config.trial_needs import sample_wants
    from training_services.allocations.service import prefix_of
    from training_services.keepers.hub import KeeperHub
    from training_services.placement.ledger import HostLedger
    from training_services.slurm.config import SlurmConfig
    from training_services.slurm.preview import first_script, shown, verdict
    from training_services.slurm.service import commands_of
    from training_services.tools import ServiceTools

    assert isinstance(member.service, SlurmConfig)
    tools = ServiceTools(hub=KeeperHub(), ledger=HostLedger())
    service = member.service.in_environment(environ)
    commands = commands_of(service, environ, tools)
    try:
        text = first_script(
            service,
            experiment_id,
            command=member.job_command,
            wants=sample_wants(member),
            prefix=prefix_of(one_of_several(member)),
        )
        accepted, sentence = await verdict(commands, text)
    finally:
        await commands.close()
    return PlannedScript(shown(text), accepted, sentence)
