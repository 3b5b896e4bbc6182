"""Check that finds errors in a Kubernetes configuration by making the manifest of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec

from training_services.base import OwnNeeds
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.manifest import Belonging, ResourceFault, job
from training_services.kubernetes.template import TemplateError
from training_services.placement.needs import Wants
from training_services.platform import ConfigFault

__all__ = ["faults"]

_NO_CLIENT = (
    "the platform needs the package kubernetes, which this Python does not have; install it with: "
    "pip install 'nnimgr[kubernetes]'"
)


def faults(config: KubernetesConfig, wants: Wants) -> Iterator[ConfigFault]:
    """Yield the errors in a Kubernetes configuration. ``wants``: resources that each job needs."""
    if find_spec("kubernetes") is None:
        yield ConfigFault(("platform",), _NO_CLIENT)
        return
    if config.reuse_mode and wants.own is not None:
        yield ConfigFault(
            ("reuseMode",),
            "all trials of a pod that is used again have its resources, so the resources of trials cannot "
            "differ: remove reuseMode, or give plain numbers in trialGpuNumber, trialCpuNumber and "
            "trialMemorySize",
        )
    for name, field in _fixed(config, wants):
        sentence = f"all trials get this amount, so {field} has no effect: remove one of the two"
        yield ConfigFault(("resources", name), sentence)
    try:
        job(
            config,
            Belonging(experiment_id="experiment", database_id="database", namespace="default"),
            keeper_id="keeper",
            wants=wants,
            grace=timedelta(0),
        )
    except ResourceFault as fault:
        yield ConfigFault(tuple(fault.path), str(fault), shared=True)
    except TemplateError as fault:
        yield ConfigFault(("podTemplate", *fault.path), str(fault))


def _fixed(config: KubernetesConfig, wants: Wants) -> Iterator[tuple[str, str]]:
    """Yield the resources that are the same for all pods although trials differ, with the trials' field."""
    own, fixed = wants.own or OwnNeeds(), config.resources
    if fixed.gpu is not None and own.gpus is not None:
        yield "gpu", "trialGpuNumber"
    if fixed.cpu is not None and own.cpus is not None:
        yield "cpu", "trialCpuNumber"
    if fixed.memory is not None and own.memory is not None:
        yield "memory", "trialMemorySize"
