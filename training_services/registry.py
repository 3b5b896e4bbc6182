"""Platform name -> its configuration and its service. A platform is imported when it is first asked for.

Third parties add platforms by entry points of the group ``nnimgr.training_services``: the name is the
platform, the object a module with ``CONFIG`` (a pydantic model) and ``SERVICE`` (called with context, config
and tools; gives a TrainingService).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from training_services.base import ExperimentContext, TrainingService

if TYPE_CHECKING:
    from training_services.keeper_service import ServiceTools

__all__ = ["GROUP", "Platform", "UnknownPlatform", "config_class", "create", "platforms", "service_class"]

GROUP = "nnimgr.training_services"

_BUILT_IN = {"local": "training_services.local:LocalConfig:LocalService"}

ServiceClass = Callable[[ExperimentContext, Any, "ServiceTools"], TrainingService]


class UnknownPlatform(ValueError):
    """There is no training service of this name; the message lists those there are."""


class Platform(NamedTuple):
    config: type[BaseModel]
    service: ServiceClass


def platforms() -> list[str]:
    """The names that can be used."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points())})


def create(platform: str) -> Platform:
    """The configuration and the service of a platform. Raises UnknownPlatform."""
    if platform in _BUILT_IN:
        module_name, config, service = _BUILT_IN[platform].split(":")
        module = import_module(module_name)
        return Platform(getattr(module, config), getattr(module, service))
    for point in _entry_points():
        if point.name == platform:
            module = point.load()
            return Platform(module.CONFIG, module.SERVICE)
    raise UnknownPlatform(f"unknown platform {platform!r}; valid are: {', '.join(platforms())}")


def config_class(platform: str) -> type[BaseModel]:
    """The model of the platform's ``trainingService``. Raises UnknownPlatform."""
    return create(platform).config


def service_class(platform: str) -> ServiceClass:
    """What makes the platform's service. Raises UnknownPlatform."""
    return create(platform).service


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))
