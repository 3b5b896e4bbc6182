"""What ``nnictl doctor`` finds of a cluster: whether it can be asked, takes such Jobs, and runs one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from training_services.base import TRIAL_GRACE, ExperimentContext, ServiceError
from training_services.findings import Check, Finding, Level
from training_services.keeper_host import Wants
from training_services.keeper_service import ServiceTools
from training_services.kubernetes.client import Cluster
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import ResourceFault
from training_services.kubernetes.preview import first_job, usual_namespace, verdict
from training_services.kubernetes.service import KubernetesService
from training_services.kubernetes.template import TemplateError
from training_services.rehearsal import rehearse

__all__ = ["check_cluster"]

TITLE = "the cluster"
TRIAL_S = 180.0  # an image may have to be fetched


async def check_cluster(
    context: ExperimentContext, config: KubernetesConfig, tools: ServiceTools
) -> AsyncIterator[Finding]:
    """Findings, one after the other; nothing is left there. ``context``: of an experiment of its own."""

    def finding(check: Check, sentence: str, level: Level = Level.FAULT) -> Finding:
        return Finding(machine=TITLE, check=check, level=level, sentence=sentence)

    cluster = Cluster(config.kubeconfig, config.context, context.environ)
    try:
        manifest = first_job(
            config,
            f"{context.experiment_id}-a0000-1",
            namespace=config.namespace or await usual_namespace(cluster),
            wants=Wants.of(context),
            grace=TRIAL_GRACE,
        )
        accepted, sentence = await verdict(cluster, context.experiment_id, manifest)
    except (ResourceFault, TemplateError) as error:
        yield finding(Check.CONFIG, str(error))
        return
    finally:
        await cluster.close()
    yield finding(Check.CONNECTION, sentence, Level.OK if accepted else Level.FAULT)
    if not accepted:
        return
    alone = config.model_copy(update={"reuse_mode": False})
    service = KubernetesService(context, alone, tools)
    try:
        took = await rehearse(service, experiment_id=context.experiment_id, limit_s=TRIAL_S)
    except ServiceError as error:
        yield finding(Check.TRIAL, str(error))
    else:
        done = f"a trial that does nothing ran, and both its results arrived, in {took:.1f} s"
        yield finding(Check.TRIAL, done, Level.OK)
    for left in await service.remove():
        yield finding(Check.TRIAL, left, Level.WARNING)
