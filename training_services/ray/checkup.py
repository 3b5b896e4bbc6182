"""Checks of ``nnictl doctor`` for Ray: does it answer, does an allocation fit, can it run a trial?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

from training_services.examination import Examination, look_at_code, run_one_trial
from training_services.findings import Check, Finding, Level
from training_services.placement.needs import Wants
from training_services.ray.cluster import Cluster
from training_services.ray.config import RayConfig
from training_services.ray.preview import verdict
from training_services.ray.service import RayService, credentials

__all__ = ["examine"]

TITLE = "Ray"
TRIAL_S = 120.0  # the allocation may have to wait for resources
_HERE = ("127.0.0.1", "localhost", "::1")


def examine(examination: Examination, config: RayConfig) -> Sequence[AsyncIterator[Finding]]:
    """Return iterators of findings: one for the trial code that all nodes get, one for the cluster."""
    return [look_at_code(examination.context), _cluster(examination, config)]


async def _cluster(examination: Examination, config: RayConfig) -> AsyncIterator[Finding]:
    """Yield findings about the cluster. A test trial is run in an allocation of its own."""
    context = examination.for_one_trial()
    cluster = Cluster(config.address, credentials(config))
    try:
        accepted, sentence = await verdict(cluster, config, wants=Wants.of(examination.context))
        answers = cluster.session is not None and cluster.trouble is None
    finally:
        await cluster.close()
    level = Level.OK if accepted else Level.WARNING if answers else Level.FAULT
    yield Finding(machine=TITLE, check=Check.CONNECTION, level=level, sentence=sentence)
    if not answers:
        return
    url = urlsplit(config.address)
    if url.scheme == "http" and url.hostname not in _HERE and not config.insecure:
        sentence = (
            "the token is sent over http, so it can be read on the way: use a private network, a tunnel, "
            "or a proxy with https"
        )
        yield Finding(machine=TITLE, check=Check.CONNECTION, level=Level.WARNING, sentence=sentence)
    changes: dict[str, object] = {"gpus": None, "cpus": 1, "memory": None, "resources": {}, "labels": {}}
    service = RayService(context, config.model_copy(update=changes), examination.tools)
    yield await run_one_trial(examination, TITLE, service, context.experiment_id, limit_s=TRIAL_S)
