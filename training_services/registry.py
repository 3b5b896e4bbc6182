"""Platform name -> its configuration and its service. A platform is imported when it is first asked for.

Third parties add platforms by entry points of the group ``nnimgr.training_services``: the name is the
platform, the object a module with ``CONFIG`` (a pydantic model) and ``SERVICE`` (called with context, config
and tools; gives a TrainingService), and perhaps ``HOSTS`` (called with the same, gives KeeperHosts).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import BaseModel

from training_services import userfile
from training_services.base import ExperimentContext, TrainingService

if TYPE_CHECKING:
    from training_services.keeper_host import KeeperHost
    from training_services.keeper_service import ServiceTools

__all__ = [
    "GROUP",
    "BrokenPlatform",
    "Platform",
    "UnknownPlatform",
    "config_class",
    "create",
    "hosts_class",
    "load",
    "platforms",
    "register",
    "service_class",
    "sources",
    "unregister",
]

GROUP = "nnimgr.training_services"


class _BuiltIn(NamedTuple):
    """Where a platform's parts are, as "module:name": a configuration is read without its service."""

    config: str
    service: str
    hosts: str | None = None


_IN_CLUSTER = "training_services.kubernetes.service:KubernetesService"
_BUILT_IN = {
    "local": _BuiltIn(
        "training_services.local:LocalConfig",
        "training_services.local:LocalService",
        "training_services.local:LocalHosts",
    ),
    "remote": _BuiltIn(
        "training_services.ssh.config:RemoteConfig",
        "training_services.remote:RemoteService",
        "training_services.remote:RemoteHosts",
    ),
    "kubernetes": _BuiltIn("training_services.kubernetes.config:KubernetesConfig", _IN_CLUSTER),
    # These two become the platform kubernetes when a configuration is read.
    "kubeflow": _BuiltIn("training_services.kubernetes.kubeflow:KubeflowConfig", _IN_CLUSTER),
    "frameworkcontroller": _BuiltIn(
        "training_services.kubernetes.kubeflow:FrameworkControllerConfig", _IN_CLUSTER
    ),
}

_KEY = "trainingServices"
_CONTENT = "a list of training services"

ServiceClass = Callable[[ExperimentContext, Any, "ServiceTools"], TrainingService]
HostsClass = Callable[[ExperimentContext, Any, "ServiceTools"], "KeeperHosts"]


class BrokenPlatform(ValueError):
    """A third party's training service cannot be used; one sentence."""


class KeeperHosts(Protocol):
    """The machines of a platform whose jobs are run by keepers: such platforms can be used together."""

    def all(self) -> Sequence[KeeperHost]: ...


class UnknownPlatform(ValueError):
    """There is no training service of this name; the message lists those there are."""


class Platform(NamedTuple):
    """``hosts`` None: its jobs are not run by keepers."""

    config: type[BaseModel]
    service: ServiceClass
    hosts: HostsClass | None = None


def platforms() -> list[str]:
    """The names that can be used."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points()), *_registered()})


def create(platform: str) -> Platform:
    """The configuration and the service of a platform. Raises UnknownPlatform, BrokenPlatform."""
    if platform in _BUILT_IN:
        config, service, hosts = _BUILT_IN[platform]
        return Platform(_named(config), _named(service), None if hosts is None else _named(hosts))
    for point in _entry_points():
        if point.name == platform:
            return load(point.module)[1]
    package = _registered().get(platform)
    if package is None:
        raise UnknownPlatform(f"unknown platform {platform!r}; valid are: {', '.join(platforms())}")
    return load(package)[1]


def load(package: str) -> tuple[str, Platform]:
    """The name and the platform that a third party's module brings. Raises BrokenPlatform."""
    try:
        module = import_module(package)
    except Exception as error:  # whatever their module raises
        why = " ".join(str(error).split()) or type(error).__name__
        raise BrokenPlatform(f"the training service in {package} cannot be imported: {why}") from error
    config, service = getattr(module, "CONFIG", None), getattr(module, "SERVICE", None)
    if not (isinstance(config, type) and issubclass(config, BaseModel) and callable(service)):
        own = " (it is made for NNI's own manager)" if hasattr(module, "nni_training_service_info") else ""
        needs = "it needs CONFIG, a pydantic model, and SERVICE"
        raise BrokenPlatform(f"{package} is no training service of nnimgr{own}: {needs}")
    named = config.model_fields.get("platform")
    if named is None or not isinstance(named.default, str):
        raise BrokenPlatform(f"the CONFIG of {package} has no field 'platform' with its name for a default")
    return named.default, Platform(config, service, getattr(module, "HOSTS", None))


def register(package: str) -> str:
    """Let a module's training service be used by its name, which is returned.

    Raises BrokenPlatform, ValueError (a name that is taken), UserFileError.
    """
    name, _ = load(package)
    if name in _BUILT_IN:
        raise ValueError(f"{name} is built in: the platform of {package} needs another name")
    with userfile.changing(_file(), lists=(_KEY,), what=_CONTENT) as raw:
        kept = [entry for entry in raw.get(_KEY) or [] if entry.get("platform") != name]
        raw[_KEY] = [*kept, {"platform": name, "package": package}]
    return name


def unregister(name: str) -> bool:
    """Drop the platform, by its name or its package; False if there is none. Raises UserFileError."""
    with userfile.changing(_file(), lists=(_KEY,), what=_CONTENT) as raw:
        entries = raw.get(_KEY) or []
        raw[_KEY] = [entry for entry in entries if name not in (entry.get("platform"), entry.get("package"))]
        return len(raw[_KEY]) < len(entries)


def sources() -> dict[str, str]:
    """Each platform, and where it comes from: built in, an installed package or a registered one."""
    return {
        **{name: f"registered: {package}" for name, package in _registered().items()},
        **{point.name: f"installed: {point.value}" for point in _entry_points()},
        **dict.fromkeys(_BUILT_IN, "built in"),
    }


def config_class(platform: str) -> type[BaseModel]:
    """The model of the platform's ``trainingService``. Raises UnknownPlatform."""
    return _named(_BUILT_IN[platform].config) if platform in _BUILT_IN else create(platform).config


def hosts_class(platform: str) -> HostsClass | None:
    """What gives the platform's machines; None: it has none with keepers. Raises UnknownPlatform."""
    if platform in _BUILT_IN and _BUILT_IN[platform].hosts is None:
        return None
    return create(platform).hosts


def service_class(platform: str) -> ServiceClass:
    """What makes the platform's service. Raises UnknownPlatform."""
    return create(platform).service


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _registered() -> dict[str, str]:
    """Platform -> package."""
    file = _file()
    if not file.is_file():
        return {}  # the rule: reading it costs an import of a YAML reader
    entries = userfile.read(file, lists=(_KEY,), what=_CONTENT).get(_KEY) or []
    return {str(entry["platform"]): str(entry["package"]) for entry in entries}


def _file() -> Path:
    return userfile.config_directory() / "registered_training_services.yml"
