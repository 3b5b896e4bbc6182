"""Check that finds errors in a Kubernetes configuration by making the manifest of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec

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
