"""The first Kubernetes Job that an experiment would create, for ``nnictl create --dry-run``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.model import Member
from nnimgr.config.spill import member_on, one_of_several

__all__ = ["PlannedJob", "plan_job"]


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """Kubernetes Job that an experiment would create.

    ``accepted``: True if the cluster would accept the Job; None if unknown. ``verdict``: one sentence about
    ``accepted``. ``pooled``: the Job's pod runs several trials, one after the other.
    """

    manifest: dict[str, Any]
    accepted: bool | None
    verdict: str
    pooled: bool

    def plain(self) -> dict[str, Any]:
        return {"manifest": self.manifest, "accepted": self.accepted, "verdict": self.verdict}


def plan_job(config: ExperimentConfig, experiment_id: str, environ: Mapping[str, str]) -> PlannedJob | None:
    """Return the Kubernetes Job of the experiment's first trial. Nothing is created.

    Return None if Kubernetes is not a platform of the experiment.
    """
    member = member_on(config, "kubernetes")
    return None if member is None else asyncio.run(_plan(member, experiment_id, environ))


async def _plan(member: Member, experiment_id: str, environ: Mapping[str, str]) -> PlannedJob:
    from nnimgr.config.trial_needs import sample_wants
    from nnimgr.rules.state import job_id_of, trial_id_of
    from training_services.allocations.service import prefix_of
    from training_services.base import TRIAL_GRACE
    from training_services.kubernetes.client import Cluster
    from training_services.kubernetes.config import KubernetesConfig
    from training_services.kubernetes.preview import first_job, usual_namespace, verdict

    service = member.service
    assert isinstance(service, KubernetesConfig)
    cluster = Cluster(service.kubeconfig, service.context, environ)
    try:
        manifest = first_job(
            service,
            job_id_of(experiment_id, trial_id_of(experiment_id, 0), 1),
            namespace=service.namespace or await usual_namespace(cluster),
            wants=sample_wants(member),
            grace=TRIAL_GRACE,
            prefix=prefix_of(one_of_several(member)),
        )
        accepted, sentence = await verdict(cluster, experiment_id, manifest)
    finally:
        await cluster.close()
    return PlannedJob(manifest, accepted, sentence, service.reuse_mode)
