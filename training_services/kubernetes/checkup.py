"""Checks of ``nnictl doctor`` for a cluster: is it reachable, does it accept our Jobs, can it run a trial?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from training_services.base import TRIAL_GRACE
from training_services.examination import Examination, look_at_code, run_one_trial
from training_services.findings import Check, Finding, Level
from training_services.kubernetes.client import Cluster
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import ResourceFault
from training_services.kubernetes.preview import first_job, usual_namespace, verdict
from training_services.kubernetes.service import KubernetesService
from training_services.kubernetes.template import TemplateError
from training_services.placement.needs import Wants

__all__ = ["examine"]

TITLE = "the cluster"
TRIAL_S = 180.0  # an image may have to be pulled


def examine(examination: Examination, config: KubernetesConfig) -> Sequence[AsyncIterator[Finding]]:
    """Return iterators of findings: one for the trial code that all pods get, one for the cluster."""
    return [look_at_code(examination.context), _cluster(examination, config)]


async def _cluster(examination: Examination, config: KubernetesConfig) -> AsyncIterator[Finding]:
    """Yield findings about the cluster. A test trial is run, and its objects are removed afterwards."""
    context = examination.for_one_trial()

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
    service = KubernetesService(context, alone, examination.tools)
    yield await run_one_trial(examination, TITLE, service, context.experiment_id, limit_s=TRIAL_S)
    for left in await service.remove():
        yield finding(Check.TRIAL, left, Level.WARNING)
