"""Makes the training service of an experiment from the parts of its configuration, one for each platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from training_services.base import ExperimentContext, TrainingService
from training_services.hybrid.route import Spill
from training_services.hybrid.service import HybridMember, HybridService
from training_services.keepers.host import KeeperHost
from training_services.keepers.service import KeeperService
from training_services.machines.remote import RemoteConfig, RemoteHosts
from training_services.machines.service import MachineService
from training_services.registry import KeeperHosts, Platform
from training_services.ssh.config import MachineConfig
from training_services.tools import ServiceTools

__all__ = ["PlatformPart", "build_service"]


class PlatformPart(NamedTuple):
    """One item of ``trainingService``: a platform with its configuration, whose secrets are known."""

    name: str
    kind: Platform
    context: ExperimentContext
    service: BaseModel


def build_service(
    parts: Sequence[PlatformPart],
    tools: ServiceTools,
    *,
    spill: Spill | None,
    reveal: Callable[[Mapping[str, Any]], MachineConfig],
) -> TrainingService:
    """Return the training service of an experiment.

    ``reveal`` reads the configuration of a machine that a user adds while the experiment runs.
    """
    if spill is not None:
        groups = [[parts[number]] for number in spill.order]
    else:
        groups = _pooled(parts)
    if len(groups) == 1:
        return _service(groups[0], tools, reveal, adds=True)
    added = _takes_added(groups)

    def make(shared: ServiceTools) -> list[HybridMember]:
        names = _names(groups)
        return [
            HybridMember(name, _keeper_service(group, shared, reveal, adds=group is added), group is added)
            for name, group in zip(names, groups, strict=True)
        ]

    return HybridService(tools, make, after=None if spill is None else spill.after)


def _pooled(parts: Sequence[PlatformPart]) -> list[list[PlatformPart]]:
    """Return the platforms without an order: all machines that stay are one, as in NNI's hybrid mode."""
    machines = [part for part in parts if part.kind.hosts is not None]
    found: list[list[PlatformPart]] = []
    for part in parts:
        if part.kind.hosts is None:
            found.append([part])
        elif part is machines[0]:
            found.append(machines)
    return found


def _takes_added(groups: Sequence[list[PlatformPart]]) -> list[PlatformPart] | None:
    """Return the platform that machines join which users add: that of remote machines, or of this machine."""
    stays = [group for group in groups if group[0].kind.hosts is not None]
    remote = (group for group in stays if any(part.name == "remote" for part in group))
    return next(remote, stays[0] if stays else None)


def _names(groups: Sequence[list[PlatformPart]]) -> Iterator[str]:
    """Yield the names of platforms for sentences, such as "slurm". Later ones of a name get a number."""
    counts: dict[str, int] = {}
    for group in groups:
        name = " and ".join(dict.fromkeys(part.name for part in group))
        counts[name] = counts.get(name, 0) + 1
        yield name if counts[name] == 1 else f"{name} {counts[name]}"


def _keeper_service(
    group: list[PlatformPart],
    tools: ServiceTools,
    reveal: Callable[[Mapping[str, Any]], MachineConfig],
    *,
    adds: bool,
) -> KeeperService:
    service = _service(group, tools, reveal, adds=adds)
    assert isinstance(service, KeeperService), f"{group[0].name} cannot be one of several platforms"
    return service


def _service(
    group: list[PlatformPart],
    tools: ServiceTools,
    reveal: Callable[[Mapping[str, Any]], MachineConfig],
    *,
    adds: bool,
) -> TrainingService:
    """Return the service of one platform, or of several whose machines stay."""
    first = group[0]
    if first.kind.hosts is None:
        return first.kind.service(first.context, first.service, tools)
    groups = [part.kind.hosts(part.context, part.service, tools) for part in group if part.kind.hosts]

    def make_host(machine: Mapping[str, Any]) -> KeeperHost:
        """Build the host for an added machine. It joins the other machines that are reached over SSH."""
        revealed = reveal(machine)
        return _remote_of(groups, first.context, revealed, tools).host(revealed)

    hosts = [host for each in groups for host in each.all()]
    return MachineService(first.context, tools, hosts, make_host=make_host if adds else None)


def _remote_of(
    groups: list[KeeperHosts], context: ExperimentContext, machine: MachineConfig, tools: ServiceTools
) -> RemoteHosts:
    """Return the hosts that are reached over SSH. If there are none, add them to ``groups``."""
    for group in groups:
        if isinstance(group, RemoteHosts):
            return group
    made = RemoteHosts(context, RemoteConfig(machine_list=[machine]), tools)
    groups.append(made)
    return made
