"""The first job that an experiment would submit to Ray, for ``nnictl create --dry-run``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.model import Member
from nnimgr.config.spill import member_on, one_of_several

__all__ = ["PlannedRayJob", "plan_ray_job"]


@dataclass(frozen=True, slots=True)
class PlannedRayJob:
    """Body of the request by which an experiment would submit an allocation to Ray.

    ``accepted``: True if the cluster could run it; None if unknown. ``verdict``: one sentence about that.
    """

    body: Mapping[str, Any]
    accepted: bool | None
    verdict: str

    def plain(self) -> dict[str, Any]:
        return {"rayJob": self.body, "accepted": self.accepted, "verdict": self.verdict}


def plan_ray_job(config: ExperimentConfig, experiment_id: str) -> PlannedRayJob | None:
    """Return the job of the experiment's first allocation. Nothing is submitted.

    Return None if Ray is not a platform of the experiment.
    """
    member = member_on(config, "ray")
    return None if member is None else asyncio.run(_plan(member, experiment_id))


async def _plan(member: Member, experiment_id: str) -> PlannedRayJob:
    from nnimgr.config.trial_needs import sample_wants
    from training_services.allocations.service import prefix_of
    from training_services.ray.cluster import Cluster
    from training_services.ray.config import RayConfig
    from training_services.ray.preview import first_job, verdict
    from training_services.ray.service import credentials

    assert isinstance(member.service, RayConfig)
    wants = sample_wants(member)
    cluster = Cluster(member.service.address, credentials(member.service))
    try:
        accepted, sentence = await verdict(cluster, member.service, wants=wants)
    finally:
        await cluster.close()
    prefix = prefix_of(one_of_several(member))
    job = first_job(member.service, experiment_id, wants=wants, prefix=prefix)
    return PlannedRayJob(job, accepted, sentence)
