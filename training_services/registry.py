"""Registry of platforms: name -> configuration and training service. A platform is imported on first use.

Third parties add platforms by entry points of the group ``nnimgr.training_services``. The entry point's name
is the platform's name. It names a module with ``CONFIG`` (a pydantic model) and ``SERVICE`` (called with
context, config and tools; returns a TrainingService), and optionally ``HOSTS`` (called with the same
arguments; returns KeeperHosts).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import BaseModel

from training_services import userfile
from training_services.base import ExperimentContext, TrainingService

if TYPE_CHECKING:
    from training_services.examination import Examination
    from training_services.findings import Finding
    from training_services.keepers.host import KeeperHost
    from training_services.placement.needs import Wants
    from training_services.platform import ConfigFault
    from training_services.tools import ServiceTools

__all__ = [
    "GROUP",
    "BrokenPlatform",
    "MissingPlatform",
    "Platform",
    "UnknownPlatform",
    "config_class",
    "create",
    "examine",
    "faults",
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
    """Import paths ("module:name") of the parts of a built-in platform. Each part is imported on its own."""

    config: str
    service: str
    hosts: str | None = None
    faults: str | None = None
    examine: str | None = None


_IN_CLUSTER = "training_services.kubernetes.service:KubernetesService"
_BUILT_IN = {
    "local": _BuiltIn(
        "training_services.machines.local:LocalConfig",
        "training_services.machines.local:LocalService",
        "training_services.machines.local:LocalHosts",
        "training_services.machines.local:faults",
        "training_services.machines.checkup:examine_local",
    ),
    "remote": _BuiltIn(
        "training_services.ssh.config:RemoteConfig",
        "training_services.machines.remote:RemoteService",
        "training_services.machines.remote:RemoteHosts",
        "training_services.ssh.config:faults",
        "training_services.machines.checkup:examine_remote",
    ),
    "kubernetes": _BuiltIn(
        "training_services.kubernetes.config:KubernetesConfig",
        _IN_CLUSTER,
        faults="training_services.kubernetes.faults:faults",
        examine="training_services.kubernetes.checkup:examine",
    ),
    "slurm": _BuiltIn(
        "training_services.slurm.config:SlurmConfig",
        "training_services.slurm.service:SlurmService",
        faults="training_services.allocations.faults:faults",
        examine="training_services.slurm.checkup:examine",
    ),
    "ray": _BuiltIn(
        "training_services.ray.config:RayConfig",
        "training_services.ray.service:RayService",
        faults="training_services.allocations.faults:faults",
        examine="training_services.ray.checkup:examine",
    ),
    "ask": _BuiltIn("training_services.ask:AskConfig", "training_services.ask:AskService"),
    # A configuration for kubeflow or frameworkcontroller is converted to the platform kubernetes when read.
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
    """Error: a third party's training service cannot be used. The message says why."""


class MissingPlatform(BrokenPlatform):
    """Error: the module of a third party's training service cannot be imported."""


class KeeperHosts(Protocol):
    """Machines of a platform whose jobs are run by keepers.

    An experiment can use several such platforms together.
    """

    def all(self) -> Sequence[KeeperHost]: ...


class UnknownPlatform(ValueError):
    """Error: there is no training service of this name. The message lists the valid names."""


class Platform(NamedTuple):
    """Configuration class and service of a platform. ``hosts`` is None if keepers do not run its jobs."""

    config: type[BaseModel]
    service: ServiceClass
    hosts: HostsClass | None = None


def platforms() -> list[str]:
    """Return the names of all platforms: built in, installed or registered."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points()), *_registered()})


def create(platform: str) -> Platform:
    """Import the platform of this name, and return its configuration class and service.

    Raises UnknownPlatform, BrokenPlatform.
    """
    if platform in _BUILT_IN:
        config, service, hosts, *_ = _BUILT_IN[platform]
        return Platform(_named(config), _named(service), None if hosts is None else _named(hosts))
    for point in _entry_points():
        if point.name == platform:
            return load(point.module)[1]
    package = _registered().get(platform)
    if package is None:
        raise UnknownPlatform(f"unknown platform {platform!r}; valid are: {', '.join(platforms())}")
    return load(package)[1]


def load(package: str) -> tuple[str, Platform]:
    """Import a third party's module, and return the name and the platform that it defines.

    Raises BrokenPlatform.
    """
    try:
        module = import_module(package)
    except Exception as error:  # a third party's module may raise any error
        why = " ".join(str(error).split()) or type(error).__name__
        raise MissingPlatform(f"the training service in {package} cannot be imported: {why}") from error
    config, service = getattr(module, "CONFIG", None), getattr(module, "SERVICE", None)
    if not (isinstance(config, type) and issubclass(config, BaseModel) and callable(service)):
        own = " (it was made for NNI's own manager)" if hasattr(module, "nni_training_service_info") else ""
        needs = "define CONFIG (a pydantic model) and SERVICE"
        raise BrokenPlatform(f"{package} is not a training service for nnimgr{own}: {needs}")
    named = config.model_fields.get("platform")
    if named is None or not isinstance(named.default, str):
        raise BrokenPlatform(f"the CONFIG of {package} has no field 'platform' with its name as the default")
    return named.default, Platform(config, service, getattr(module, "HOSTS", None))


def register(package: str) -> str:
    """Register the training service of a third party's module, and return its name.

    A file of this user stores the module's name. Raises BrokenPlatform, ValueError (the name is taken),
    UserFileError.
    """
    name, _ = load(package)
    if name in _BUILT_IN:
        raise ValueError(f"{name} is built in: the platform of {package} needs another name")
    with userfile.changing(_file(), lists=(_KEY,), what=_CONTENT) as raw:
        kept = [entry for entry in raw.get(_KEY) or [] if entry.get("platform") != name]
        raw[_KEY] = [*kept, {"platform": name, "package": package}]
    return name


def unregister(name: str) -> bool:
    """Remove the registration of a platform, by its name or its package.

    Return False if it is not registered. Raises UserFileError.
    """
    with userfile.changing(_file(), lists=(_KEY,), what=_CONTENT) as raw:
        entries = raw.get(_KEY) or []
        raw[_KEY] = [entry for entry in entries if name not in (entry.get("platform"), entry.get("package"))]
        return len(raw[_KEY]) < len(entries)


def sources() -> dict[str, str]:
    """Return where each platform comes from: "built in", an installed package or a registered package."""
    return {
        **{name: f"registered: {package}" for name, package in _registered().items()},
        **{point.name: f"installed: {point.value}" for point in _entry_points()},
        **dict.fromkeys(_BUILT_IN, "built in"),
    }


def config_class(platform: str) -> type[BaseModel]:
    """Return the class that parses ``trainingService`` for this platform. Raises UnknownPlatform."""
    return _named(_BUILT_IN[platform].config) if platform in _BUILT_IN else create(platform).config


def hosts_class(platform: str) -> HostsClass | None:
    """Return the function that makes the platform's machines with keepers (``HOSTS``).

    Return None if keepers do not run the platform's jobs. Raises UnknownPlatform.
    """
    if platform in _BUILT_IN and _BUILT_IN[platform].hosts is None:
        return None
    return create(platform).hosts


def faults(platform: str, config: BaseModel, wants: Wants) -> Iterable[ConfigFault]:
    """Return the errors in a configuration of the platform. ``wants``: resources that each job needs."""
    if platform not in _BUILT_IN:
        return ()
    place = _BUILT_IN[platform].faults
    found: Iterable[ConfigFault] = () if place is None else _named(place)(config, wants)
    return found


def examine(
    platform: str, examination: Examination, config: BaseModel
) -> Sequence[AsyncIterator[Finding]] | None:
    """Return the checks of ``nnictl doctor`` for the platform, as iterators of findings.

    Return None if the platform has no checks.
    """
    place = _BUILT_IN[platform].examine if platform in _BUILT_IN else None
    if place is None:
        return None
    found: Sequence[AsyncIterator[Finding]] = _named(place)(examination, config)
    return found


def service_class(platform: str) -> ServiceClass:
    """Return the function that makes the platform's training service. Raises UnknownPlatform."""
    return create(platform).service


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _registered() -> dict[str, str]:
    """Return the platforms that this user has registered: name -> package."""
    file = _file()
    if not file.is_file():
        return {}  # usually there is no file, and reading a file would import the YAML library
    entries = userfile.read(file, lists=(_KEY,), what=_CONTENT).get(_KEY) or []
    return {str(entry["platform"]): str(entry["package"]) for entry in entries}


def _file() -> Path:
    return userfile.config_directory() / "registered_training_services.yml"
