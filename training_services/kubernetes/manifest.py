"""Makes the manifests of an experiment's objects in the cluster, as plain dicts. Does no I/O."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from training_services.base import ServiceUnavailable
from training_services.job_ids import trial_of_job
from training_services.kubernetes.config import (
    EnvironmentSource,
    EnvironmentValue,
    EnvironmentValues,
    KubernetesConfig,
    PodVolume,
    Toleration,
)
from training_services.kubernetes.syntax import (
    CONTAINER,
    EXPERIMENT_LABEL,
    OWN_FOLDER,
    OWN_VOLUMES,
    cpu_quantity,
    label_value,
    object_name,
    parse_quantity,
)
from training_services.kubernetes.template import merged
from training_services.placement.needs import Wants

__all__ = [
    "DATABASE_LABEL",
    "KEEPER_LABEL",
    "Belonging",
    "archive",
    "archive_name",
    "ResourceFault",
    "container_resources",
    "job",
    "labels",
    "object_name",
    "owner",
    "secret",
    "secret_patch",
    "secret_texts",
    "shared_name",
]

DATABASE_LABEL = "nnimgr.io/database"
KEEPER_LABEL = "nnimgr.io/keeper"
TRIAL_LABEL = "nnimgr.io/trial"
ATTEMPT_LABEL = "nnimgr.io/attempt"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "nnimgr"

ARCHIVE = "trial_keeper.pyz"
MOST_ARCHIVE = 1_000_000  # bytes: the limit of a ConfigMap is 1 MiB
_KEEPER = f"{OWN_FOLDER}/keeper"
_IMAGE_FOLDER = "/nnimgr-keeper"  # path in the keeper's image; deploy/keeper-image has the same path
_MANAGER = f"{OWN_FOLDER}/manager"
_WORK = f"{OWN_FOLDER}/work"
_CODE = f"{OWN_FOLDER}/code"
_KEEPER_VOLUME = f"{OWN_VOLUMES}keeper"
_MANAGER_VOLUME = f"{OWN_VOLUMES}manager"
_WORK_VOLUME = f"{OWN_VOLUMES}work"
_CODE_VOLUME = f"{OWN_VOLUMES}code"
# time for which a pod that cannot reach the server keeps trying to report the ends of its trials
_UNREPORTED = timedelta(days=1)
_LAST_STEPS = timedelta(seconds=10)  # seconds that the keeper gets after the grace of its trial
# File mode of the Secret in the container: readable by all users, because an image may set any user.
_READABLE = 0o444


class ResourceFault(ValueError):
    """Error: a trial's resources contradict each other.

    ``path``: path of the wrong field in the configuration.
    """

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """Experiment to which an object in the cluster belongs.

    ``owner_uid``: uid of the ConfigMap that owns all other objects; None before it exists.
    """

    experiment_id: str
    database_id: str
    namespace: str
    owner_uid: str | None = None


def shared_name(experiment_id: str) -> str:
    """Return the name of the experiment's ConfigMap, which owns all its other objects, and of its Secret."""
    return object_name(f"nnimgr-{experiment_id}")


def labels(belonging: Belonging) -> dict[str, str]:
    """Return the labels that all objects of an experiment get."""
    return {
        MANAGED_LABEL: MANAGER,
        EXPERIMENT_LABEL: label_value(belonging.experiment_id),
        DATABASE_LABEL: label_value(belonging.database_id),
    }


def owner(belonging: Belonging) -> dict[str, Any]:
    """Return the manifest of the ConfigMap that owns all other objects of the experiment.

    When it is deleted, Kubernetes deletes all other objects as well.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": shared_name(belonging.experiment_id),
            "namespace": belonging.namespace,
            "labels": labels(belonging),
        },
    }


def archive_name(experiment_id: str, content: bytes) -> str:
    """Return the name of the ConfigMap that contains this version of the keeper program.

    The name depends on the content, because running pods have the ConfigMap mounted and keep reading from it.
    """
    return object_name(f"{shared_name(experiment_id)}-{hashlib.sha256(content).hexdigest()[:8]}")


def archive(belonging: Belonging, content: bytes) -> dict[str, Any]:
    """Return the manifest of the ConfigMap with the keeper program. It is not used with ``keeperImage``.

    Raises ServiceUnavailable if the program is too large for a ConfigMap.
    """
    if len(content) > MOST_ARCHIVE:
        raise ServiceUnavailable(f"the keeper has {len(content):,} bytes, more than a ConfigMap can contain")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(belonging, archive_name(belonging.experiment_id, content), labels(belonging)),
        "binaryData": {ARCHIVE: base64.b64encode(content).decode()},
        "immutable": True,
    }


def secret(belonging: Belonging, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of the experiment's Secret, which contains these texts.

    It holds the ``manager.json`` of each keeper, and secret values of the user's environment variables.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(belonging, shared_name(belonging.experiment_id), labels(belonging)),
        "type": "Opaque",
        "data": {key: _encoded(text) for key, text in texts.items()},
    }


def secret_texts(config: KubernetesConfig) -> dict[str, str]:
    """Return the values of the user's variables in ``env``, by their keys in the experiment's Secret."""
    return {
        _variable_key(name): value.get_secret_value()
        for name, value in config.env.items()
        if isinstance(value, SecretStr)
    }


def secret_patch(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a merge patch for the Secret that sets keys, or removes the keys whose text is None."""
    return {"data": {key: None if text is None else _encoded(text) for key, text in texts.items()}}


def job(
    config: KubernetesConfig,
    belonging: Belonging,
    *,
    keeper_id: str,
    wants: Wants,
    grace: timedelta,
    job_id: str | None = None,
    archive: str | None = None,
) -> dict[str, Any]:
    """Return the manifest of the Job that runs a keeper's pod. Raises ResourceFault, TemplateError.

    ``keeper_id``: a valid name for a Job. ``archive``: name of the ConfigMap with the keeper program; None
    with ``keeperImage``. ``job_id``: the only job, or member of a gang, that the pod runs; None: it runs many
    jobs. ``grace``: time that a stopped trial has to end.
    """
    tags = {**config.labels, **labels(belonging), KEEPER_LABEL: keeper_id}
    if job_id is not None:
        trial_id, attempt = trial_of_job(job_id)
        tags |= {TRIAL_LABEL: label_value(trial_id), ATTEMPT_LABEL: str(attempt)}
    metadata: dict[str, Any] = {"labels": tags}
    if config.annotations:
        metadata["annotations"] = dict(config.annotations)
    template = {"metadata": metadata, "spec": _pod(config, belonging, keeper_id, wants, grace, archive)}
    spec: dict[str, Any] = {"backoffLimit": 0, "ttlSecondsAfterFinished": _seconds(config.kept)}
    if config.deadline is not None:
        spec["activeDeadlineSeconds"] = _seconds(config.deadline)
    spec["template"] = merged(template, config.pod_template)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(belonging, keeper_id, tags),
        "spec": spec,
    }


def container_resources(config: KubernetesConfig, wants: Wants) -> dict[str, Any]:
    """Return the limits and requests of a trial's container.

    Values that the configuration omits are taken from ``wants``. Raises ResourceFault.
    """
    own = config.resources
    gpus = own.gpu if own.gpu is not None else wants.gpus or 0
    if gpus != int(gpus):
        raise ResourceFault(
            ("trialGpuNumber",),
            f"{gpus:g} of a GPU is not possible: Kubernetes assigns whole GPUs. Write 1, or name "
            "with resources.gpuResource the shared GPU resource of your cluster",
        )
    limits: dict[str, str] = {}
    cpu = own.cpu or (None if wants.cpus is None else cpu_quantity(wants.cpus))
    memory = own.memory or (None if wants.memory is None else f"{wants.memory}Mi")
    if cpu is not None:
        limits["cpu"] = cpu
    if memory is not None:
        limits["memory"] = memory
    requests = dict(limits)
    for name, less in (("cpu", own.requests.cpu), ("memory", own.requests.memory)):
        if less is None:
            continue
        if name in limits and parse_quantity(less) > parse_quantity(limits[name]):
            sentence = f"the request of {less} is more than the limit of {limits[name]}"
            raise ResourceFault(("resources", "requests", name), sentence)
        requests[name] = less
    if gpus:
        limits[own.gpu_resource] = requests[own.gpu_resource] = str(int(gpus))
    return {part: amounts for part, amounts in (("limits", limits), ("requests", requests)) if amounts}


def _pod(
    config: KubernetesConfig,
    belonging: Belonging,
    keeper_id: str,
    wants: Wants,
    grace: timedelta,
    archive: str | None,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _whole_grace(config, grace),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    if config.service_account is not None:
        spec["serviceAccountName"] = config.service_account
    if config.priority_class is not None:
        spec["priorityClassName"] = config.priority_class
    if config.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in config.image_pull_secrets]
    if config.node_selector:
        spec["nodeSelector"] = dict(config.node_selector)
    if config.tolerations:
        spec["tolerations"] = [_toleration(toleration) for toleration in config.tolerations]
    if config.affinity:
        spec["affinity"] = config.affinity
    if config.keeper_image is not None:
        spec["initContainers"] = [_install(config, config.keeper_image)]
    spec["containers"] = [_container(config, belonging, keeper_id, wants, grace)]
    spec["volumes"] = _volumes(config, belonging, keeper_id, archive)
    return spec


def _install(config: KubernetesConfig, image: str) -> dict[str, Any]:
    """Return the init container that copies the keeper program and its own Python into the pod."""
    return {
        "name": f"{OWN_VOLUMES}install",
        "image": image,
        **_pull_policy(config),
        "command": [*_python(_IMAGE_FOLDER), f"{_IMAGE_FOLDER}/install.py", _KEEPER],
        "securityContext": _harmless(),
        "volumeMounts": [{"name": _KEEPER_VOLUME, "mountPath": _KEEPER}],
    }


def _python(folder: str) -> list[str]:
    """Return the command that starts the Python of a keeper's image.

    This Python has its own dynamic loader, so it works in any image.
    """
    loader = [f"{folder}/lib/ld.so", "--inhibit-cache", "--library-path", f"{folder}/lib"]
    return [*loader, f"{folder}/bin/python3", "-I", "-S"]


def _container(
    config: KubernetesConfig, belonging: Belonging, keeper_id: str, wants: Wants, grace: timedelta
) -> dict[str, Any]:
    if config.keeper_image is None:
        program = [config.python, "-S", "-E", f"{_KEEPER}/{ARCHIVE}"]
    else:
        program = [*_python(_KEEPER), f"{_KEEPER}/{ARCHIVE}"]
    mounts: list[dict[str, Any]] = [
        {"name": _KEEPER_VOLUME, "mountPath": _KEEPER, "readOnly": True},
        {"name": _MANAGER_VOLUME, "mountPath": _MANAGER, "readOnly": True},
        {"name": _WORK_VOLUME, "mountPath": _WORK},
    ]
    if (code := config.trial_code) is not None and code.image is None:
        mounts.append(
            _given(
                name=_CODE_VOLUME,
                mountPath=_CODE,
                subPath=code.path,
                readOnly=code.read_only or None,
            )
        )
    mounts += [_mount(volume) for volume in config.volumes]
    found: dict[str, Any] = {
        "name": CONTAINER,
        "image": config.image,
        **_pull_policy(config),
        "command": [*program, "wrap", _MANAGER, _WORK],
        "env": _environment(config, belonging, keeper_id, grace),
    }
    if config.env_from:
        found["envFrom"] = [_environment_from(source) for source in config.env_from]
    found["resources"] = container_resources(config, wants)
    found["securityContext"] = _harmless()
    found["volumeMounts"] = mounts
    return found


def _environment(
    config: KubernetesConfig, belonging: Belonging, keeper_id: str, grace: timedelta
) -> list[dict[str, Any]]:
    own = {
        "NNIMGR_EXPERIMENT": belonging.experiment_id,
        "NNIMGR_KEEPER": keeper_id,
        "NNIMGR_POD_REASON": "/dev/termination-log",  # read by the cluster into the status of the pod
        "NNIMGR_POD_GRACE_S": str(_seconds(grace)),
        "NNIMGR_POD_WHOLE_GRACE_S": str(_whole_grace(config, grace)),
        "NNIMGR_KEEPER_UNREPORTED_S": str(_seconds(config.orphaned or _UNREPORTED)),
    }
    if config.orphaned is not None:
        own["NNIMGR_KEEPER_ORPHAN_S"] = str(_seconds(config.orphaned))
    if config.reuse_mode:
        own["NNIMGR_KEEPER_IDLE_S"] = str(_seconds(config.idle))
    uid = {"name": "NNIMGR_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    return [
        *({"name": name, "value": value} for name, value in own.items()),
        uid,
        *(_variable(name, value, belonging) for name, value in config.env.items()),
    ]


def _whole_grace(config: KubernetesConfig, grace: timedelta) -> int:
    """Return the seconds that a pod has from SIGTERM until it is killed. ``podTemplate`` may set them."""
    own = (config.pod_template or {}).get("spec")
    seconds = own.get("terminationGracePeriodSeconds") if isinstance(own, Mapping) else None
    return seconds if isinstance(seconds, int) else _seconds(grace + _LAST_STEPS)


def _variable(name: str, value: EnvironmentValue, belonging: Belonging) -> dict[str, Any]:
    if isinstance(value, EnvironmentSource):
        kind, source = _source(value)
        reference = _given(name=source, key=value.key, optional=value.optional or None)
        return {"name": name, "valueFrom": {f"{kind}KeyRef": reference}}
    reference = {"name": shared_name(belonging.experiment_id), "key": _variable_key(name)}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _environment_from(source: EnvironmentValues) -> dict[str, Any]:
    kind, name = _source(source)
    return _given(prefix=source.prefix, **{f"{kind}Ref": _given(name=name, optional=source.optional or None)})


def _source(source: EnvironmentSource | EnvironmentValues) -> tuple[str, str | None]:
    return ("configMap", source.config_map) if source.secret is None else ("secret", source.secret)


def _volumes(
    config: KubernetesConfig, belonging: Belonging, keeper_id: str, archive: str | None
) -> list[dict[str, Any]]:
    shared = shared_name(belonging.experiment_id)
    manager = {"key": keeper_id, "path": "manager.json"}
    found: list[dict[str, Any]] = [
        {"name": _KEEPER_VOLUME, "configMap": {"name": archive}}
        if config.keeper_image is None
        else {"name": _KEEPER_VOLUME, "emptyDir": {}},
        {
            "name": _MANAGER_VOLUME,
            "secret": {"secretName": shared, "items": [manager], "defaultMode": _READABLE},
        },
        {"name": _WORK_VOLUME, "emptyDir": {}},
    ]
    if (code := config.trial_code) is not None and code.image is None:
        found.append({"name": _CODE_VOLUME, **_claim_or_map(code.pvc, code.config_map, code.read_only)})
    return found + [_volume(volume) for volume in config.volumes]


def _volume(volume: PodVolume) -> dict[str, Any]:
    found: dict[str, Any]
    if volume.secret is not None:
        found = {"secret": {"secretName": volume.secret}}
    elif volume.empty_dir is not None:
        limit = volume.empty_dir.size_limit
        found = {"emptyDir": _given(medium=volume.empty_dir.medium, sizeLimit=limit)}
    elif volume.host_path is not None:
        found = {"hostPath": {"path": volume.host_path}}
    elif volume.nfs is not None:
        export = {"server": volume.nfs.server, "path": volume.nfs.path}
        found = {"nfs": _given(**export, readOnly=volume.read_only or None)}
    else:
        found = _claim_or_map(volume.pvc, volume.config_map, volume.read_only)
    return {"name": volume.name, **found}


def _claim_or_map(pvc: str | None, config_map: str | None, read_only: bool) -> dict[str, Any]:
    if pvc is None:
        return {"configMap": {"name": config_map}}
    return {"persistentVolumeClaim": _given(claimName=pvc, readOnly=read_only or None)}


def _mount(volume: PodVolume) -> dict[str, Any]:
    return _given(
        name=volume.name,
        mountPath=volume.mount_path,
        subPath=volume.sub_path,
        readOnly=volume.read_only or None,
    )


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return toleration.model_dump(mode="json", by_alias=True, exclude_none=True)


def _pull_policy(config: KubernetesConfig) -> dict[str, str]:
    policy = config.image_pull_policy
    return {} if policy is None else {"imagePullPolicy": policy.value}


def _harmless() -> dict[str, Any]:
    """Return the security context of a container that needs no privileges."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _metadata(belonging: Belonging, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "namespace": belonging.namespace, "labels": dict(tags)}
    if belonging.owner_uid is not None:
        found["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": shared_name(belonging.experiment_id),
                "uid": belonging.owner_uid,
            }
        ]
    return found


def _variable_key(name: str) -> str:
    """Return the key in the Secret for the value of an environment variable.

    It contains a dot, so it differs from the Secret's other keys, which are ids of keepers.
    """
    return f"env.{name}"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _seconds(duration: timedelta) -> int:
    return math.ceil(duration.total_seconds())


def _given(**fields: Any) -> dict[str, Any]:
    """Return those arguments that are not None, as a dict."""
    return {name: value for name, value in fields.items() if value is not None}
