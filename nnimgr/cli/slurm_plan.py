"""The first script that an experiment would submit to Slurm, for ``nnictl create --dry-run``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.config import ExperimentConfig

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

    Return None if the experiment's platform is not Slurm.
    """
    return None if config.platform != "slurm" else asyncio.run(_plan(config, experiment_id, environ))


async def _plan(config: ExperimentConfig, experiment_id: str, environ: Mapping[str, str]) -> PlannedScript:
    from nnimgr.config.trial_needs import sample_wants
    from training_services.keepers.hub import KeeperHub
    from training_services.placement.ledger import HostLedger
    from training_services.slurm.config import SlurmConfig
    from training_services.slurm.preview import first_script, shown, verdict
    from training_services.slurm.service import commands_of
    from training_services.tools import ServiceTools

    (member,) = config.members
    assert isinstance(member.service, SlurmConfig)
    tools = ServiceTools(hub=KeeperHub(), ledger=HostLedger())
    commands = commands_of(member.service, environ, tools)
    try:
        text = first_script(member.service, experiment_id, wants=sample_wants(member))
        accepted, sentence = await verdict(commands, text)
    finally:
        await commands.close()
    return PlannedScript(shown(text), accepted, sentence)
