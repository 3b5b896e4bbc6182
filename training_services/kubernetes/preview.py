"""Preview of the objects that an experiment creates in a cluster, and a dry run that checks them there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

from training_services.base import ServiceUnavailable
from training_services.job_ids import experiment_of_job
from training_services.kubernetes.client import CONFIG_MAPS, JOBS, PODS, SECRETS, ApiError, Resource
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import Belonging, archive_name, job, object_name, owner, secret
from training_services.kubernetes.names import pod_name
from training_services.kubernetes.rights import lacking, only_explains
from training_services.placement.needs import Wants
from trial_keeper import zipapp

__all__ = ["Asked", "first_job", "usual_namespace", "verdict"]

ANSWER_S = 20.0  # limit in seconds for all requests together, because a user waits
USUAL_NAMESPACE = "default"
_NOT_YET = "00000000-0000-0000-0000-000000000000"  # placeholder for an id that the cluster assigns


class Asked(Protocol):
    """Methods of ``Cluster``, the client for a cluster's API, that the preview uses."""

    @property
    def namespace(self) -> str: ...

    @property
    def server(self) -> str: ...

    async def connect(self) -> None: ...

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]: ...

    async def review_rights(self, namespace: str) -> dict[str, Any]: ...


def first_job(
    config: KubernetesConfig, job_id: str, *, namespace: str, wants: Wants, grace: timedelta, prefix: str = ""
) -> dict[str, Any]:
    """Return the manifest of an experiment's first Job. Raises ResourceFault, TemplateError.

    ``job_id`` is the id of the experiment's first trial job; ``prefix`` begins the Job's name. Ids that the
    cluster or the experiment's database will assign are replaced by placeholders.
    """
    experiment_id = experiment_of_job(job_id)
    belonging = _belonging(experiment_id, namespace)
    keeper = (
        None
        if config.keeper_image is not None
        else archive_name(experiment_id, zipapp.content(compiled=True))
    )
    if config.reuse_mode:
        keeper_id = object_name(f"{prefix}{experiment_id}-pool-000000")
        return job(config, belonging, keeper_id=keeper_id, wants=wants, grace=grace, archive=keeper)
    name = object_name(f"{prefix}{pod_name(job_id)}")
    return job(config, belonging, keeper_id=name, wants=wants, grace=grace, job_id=job_id, archive=keeper)


async def usual_namespace(cluster: Asked) -> str:
    """Return the namespace of the kubeconfig's context, or ``default`` if it cannot be read in time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await cluster.connect()
    except (ServiceUnavailable, TimeoutError):
        return USUAL_NAMESPACE
    return cluster.namespace


async def verdict(cluster: Asked, experiment_id: str, manifest: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Check in a dry run whether the cluster accepts an experiment's objects with this Job.

    Return True if it does, False if not, or None if the cluster does not answer; and a sentence about it.
    Nothing is created in the cluster.
    """
    namespace = manifest["metadata"]["namespace"]
    belonging = _belonging(experiment_id, namespace)
    template = manifest["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": manifest["metadata"]["name"], "namespace": namespace},
        "spec": template["spec"],
    }
    call = "the login"
    try:
        async with asyncio.timeout(ANSWER_S):
            await cluster.connect()
            for resource, body in (
                (CONFIG_MAPS, owner(belonging)),
                (SECRETS, secret(belonging, {})),
                (JOBS, manifest),
            ):
                call = f"the dry run of {resource.plural}"
                await cluster.create(resource, namespace, body, dry_run=True)
            call = f"the dry run of {PODS.plural}"
            # Check the Job's pod, too: quotas and admission policies are applied only when a pod is created.
            try:
                await cluster.create(PODS, namespace, pod, dry_run=True)
            except ApiError as error:
                # Ignore that this user may not create pods: the cluster itself creates the pods of Jobs.
                if "cannot create resource" not in error.message:
                    raise
            call = "the question what this user may do"
            missing: list[str] = []
            with contextlib.suppress(ApiError):  # a cluster that does not answer this question
                missing = lacking(await cluster.review_rights(namespace))
    except TimeoutError:
        return None, f"the cluster could not be asked: {call} has not been answered within {ANSWER_S:g} s"
    except ServiceUnavailable as error:
        return None, f"the cluster could not be asked: {error}"
    except ApiError as error:
        return False, f"the cluster rejects the Job: {error}"
    lacks = f"the user of the cluster may not {', '.join(missing)} in namespace {namespace}"
    if not all(map(only_explains, missing)):
        return False, f"{lacks}, and nnimgr needs these rights"
    accepted = f"the cluster at {cluster.server} would accept the Job, in namespace {namespace}"
    return True, f"{accepted}; {lacks}, so some reasons will not be known" if missing else accepted


def _belonging(experiment_id: str, namespace: str) -> Belonging:
    return Belonging(
        experiment_id=experiment_id, database_id="unknown-yet", namespace=namespace, owner_uid=_NOT_YET
    )
