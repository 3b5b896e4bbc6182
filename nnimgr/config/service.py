"""Reading of ``trainingService``: one training service, or a list of them in NNI's hybrid mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from nnimgr.builtins import meant
from nnimgr.config.document import KeyPath
from nnimgr.config.foreign import FOREIGN_PLATFORMS, ForeignPlatform
from nnimgr.config.memory import GrowingMemory, TrialMemory
from nnimgr.config.model import (
    SHARED_FIELDS,
    ExperimentConfig,
    HybridConfig,
    HybridMember,
    Member,
)
from nnimgr.config.parsing import Reading, match_key, parse, validate
from nnimgr.config.path_checks import file_fault
from nnimgr.config.values import Command, CpuNumber, GpuNumber
from nnimgr.spelling import nearest
from training_services.keepers.names import NO_COMMAND
from training_services.placement.needs import memory_text
from training_services.platform import PlatformConfig, describe
from trial_keeper.machine.capacity import capacity

__all__ = [
    "NO_SERVICE",
    "Part",
    "Service",
    "check_capacity",
    "check_checkpoints",
    "check_gpus",
    "check_growth",
    "check_keys",
    "check_preemptible",
    "check_priority",
    "read_service",
    "warn_of_gpus",
]

_AT = "trainingService"
_GPU_ANSWER_S = 5.0  # limit in seconds for the answer of nvidia-smi
_BECOME_JOBS = ("kubeflow", "frameworkcontroller")


class _Shared(BaseModel):
    """Fields that a training service inherits from the top level unless it has its own values."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=to_camel)

    trial_command: Command | None = None
    trial_code_directory: Path | None = None
    trial_gpu_number: GpuNumber | None = None
    trial_cpu_number: CpuNumber | None = None
    trial_memory_size: TrialMemory | None = None
    nni_manager_ip: str | None = None
    debug: bool | None = None


# Placeholder for an invalid training service, so that errors in other fields are still found.
NO_SERVICE: tuple[BaseModel, dict[str, Any]] = (_Shared(), {})


@dataclass(frozen=True, slots=True)
class Part:
    """One training service, with its own values of fields that the top level has too.

    ``gang``: value of the experiment's field ``gang`` that follows from the training service, or None.
    """

    service: BaseModel
    overrides: dict[str, Any]
    gang: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """Content of the field ``trainingService``. ``several``: True if the field is a list."""

    parts: list[Part]
    several: bool

    @property
    def commands(self) -> list[str]:
        """Trial commands that are written inside training services, or for a platform without."""
        written = [part.overrides.get("trialCommand") for part in self.parts]
        asked = [NO_COMMAND for part in self.parts if describe(part.service).asked]
        return [command for command in (*written, *asked) if command is not None]

    @property
    def gangs(self) -> list[dict[str, Any]]:
        """Values of the experiment's field ``gang`` that follow from training services."""
        return [part.gang for part in self.parts if part.gang is not None]

    def places(self) -> Iterator[tuple[KeyPath, Part]]:
        """Yield each training service with its path in the configuration."""
        for number, part in enumerate(self.parts):
            yield ((_AT, number) if self.several else (_AT,)), part

    def model(self, fields: Mapping[str, Any]) -> tuple[BaseModel, dict[str, Any]]:
        """Return the model of the training service, and its values that differ from the top level's fields.

        Several training services become one ``HybridConfig``.
        """
        own = [{k: v for k, v in part.overrides.items() if fields.get(k) != v} for part in self.parts]
        if not self.several:
            return self.parts[0].service, own[0]
        members = [
            HybridMember(service=part.service, overrides=said)
            for part, said in zip(self.parts, own, strict=True)
        ]
        return HybridConfig(members=members), {}


def read_service(reading: Reading, raw: Mapping[str, Any]) -> Service | None:
    """Return the training services of a configuration. If they have errors, report these and return None."""
    from training_services import registry

    written = next((key for key in raw if match_key(str(key)) == "trainingservice"), None)
    if written is None or raw[written] is None:
        valid = [f"{{platform: {name}}}" for name in registry.platforms()]
        reading.fault((_AT,), "required, but not given", valid=valid)
        return None
    reading.note_spelling((_AT,), written)
    service = raw[written]
    if not isinstance(service, list):
        part = _part(reading, service, (_AT,))
        return None if part is None else Service([part], several=False)
    if not service:
        reading.fault((_AT,), "the list of training services is empty", valid=registry.platforms())
        return None
    parts = [_part(reading, each, (_AT, number)) for number, each in enumerate(service)]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    before = len(reading.problems)
    _check_hybrid(reading, found)
    return Service(found, several=True) if len(reading.problems) == before else None


def _part(reading: Reading, service: Any, at: KeyPath) -> Part | None:
    from training_services import registry

    if not isinstance(service, Mapping):
        reading.fault(at, "must be a mapping with a platform", valid=registry.platforms())
        return None
    named = [(key, value) for key, value in service.items() if match_key(str(key)) == "platform"]
    if not named or named[0][1] is None:
        reading.fault((*at, "platform"), "required, but not given", valid=registry.platforms())
        return None
    key, platform = named[0]
    reading.note_spelling((*at, "platform"), str(key))
    try:
        kind = registry.config_class(platform)
    except (registry.UnknownPlatform, TypeError):
        _refuse_platform(reading, service, platform, registry.platforms(), at)
        return None
    except registry.BrokenPlatform as error:
        reading.fault((*at, "platform"), str(error))
        return None
    shared, values = _split(reading, service, kind, at)
    before = len(reading.problems)
    validate(reading, _Shared, shared, at)
    built = validate(reading, kind, values, at)
    if isinstance(built, PlatformConfig) and built.beside_server:
        shared.pop("nniManagerIp", None)  # as in NNI: no machine has to call back
    if built is None or len(reading.problems) > before:
        return None
    return _as_jobs(reading, built, shared, at) if platform in _BECOME_JOBS else Part(built, shared)


def _split(
    reading: Reading, service: Mapping[str, Any], kind: type[BaseModel], at: KeyPath
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two groups of a training service's fields: those that the top level has too, and the others."""
    own = {match_key(info.alias or to_camel(name)) for name, info in kind.model_fields.items()}
    shared_keys = {match_key(name) for name in SHARED_FIELDS} - own
    shared = parse(reading, _only(service, lambda key: key in shared_keys), _Shared, at) or {}
    values = parse(reading, _only(service, lambda key: key not in shared_keys), kind, at) or {}
    if "platform" not in own:
        values.pop("platform", None)
    return shared, values


def _as_jobs(reading: Reading, built: Any, shared: dict[str, Any], at: KeyPath) -> Part:
    """Convert the Kubernetes platform of NNI in ``built`` to ``platform: kubernetes``.

    Fields of the role, which describes the pods of this platform, have priority over fields of the top
    level.
    """
    jobs = built.as_jobs()
    reading.warn((*at, "platform"), jobs.sentence)
    for field, origin in jobs.origins.items():
        reading.note_origin((*at, field), (*at, *origin))
    for name, place in jobs.role_origins.items():
        reading.note_origin(("gang", "roles", name), (*at, *place))
    return Part(jobs.config, {**shared, **jobs.shared}, jobs.gang)


def _only(raw: Mapping[str, Any], wanted: Callable[[str], bool]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if wanted(match_key(str(key)))}


def _refuse_platform(
    reading: Reading, service: Mapping[str, Any], platform: Any, platforms: list[str], at: KeyPath
) -> None:
    path = (*at, "platform")
    foreign = FOREIGN_PLATFORMS.get(platform) if isinstance(platform, str) else None
    if foreign is not None:
        _translate(reading, service, foreign, at)
        return
    if platform == "hybrid":
        reading.fault(path, "several training services are given as a list: trainingService: [...]")
        return
    likely = nearest(platform, platforms) if isinstance(platform, str) else None
    reading.fault(path, f"unknown platform {platform!r}", valid=platforms, nearest=likely)


def _translate(
    reading: Reading, service: Mapping[str, Any], foreign: type[ForeignPlatform], at: KeyPath
) -> None:
    """Report that this platform of NNI cannot be run, and what the user can write instead.

    Errors in its fields are reported too.
    """
    shared, values = _split(reading, service, foreign, at)
    built = validate(reading, foreign, values, at)
    sentence = f"NNI's platform {values['platform']!r} cannot be run: {foreign.why}"
    if built is not None and reading.document is not None:
        own = {key: str(value) if isinstance(value, Path) else value for key, value in shared.items()}
        section = built.section() | own
        sentence += f". Write instead:\n{reading.document.with_service(section)}"
    reading.fault((*at, "platform"), sentence)


def _check_hybrid(reading: Reading, parts: list[Part]) -> None:
    """Report training services that cannot be used together, and machines and clusters that are listed
    twice.

    A trial that waits may be taken back for another platform, so all need queues of nnimgr and keepers.
    """
    from training_services import registry

    seen: dict[str, int] = {}
    for number, part in enumerate(parts):
        platform = str(getattr(part.service, "platform", ""))
        kind = describe(part.service)
        if registry.hosts_class(platform) is None and not kind.makes_allocations:
            why = (
                "programs ask for its trials"
                if kind.asked
                else "it puts each trial at once into its own queue, from where no other platform can take it"
            )
            reading.fault(
                (_AT, number, "platform"),
                f"{platform!r} cannot be one of several training services, because {why}: give it alone",
            )
            continue
        places = (f"the platform {platform}",) if kind.makes_allocations else kind.places()
        for name in places or ["this machine"]:
            first = seen.setdefault(name, number)
            if first != number:
                reading.fault((_AT, number), f"{name} is given by trainingService[{first}] already")


def check_gpus(reading: Reading, config: ExperimentConfig) -> None:
    """Report errors of training services that depend on what each trial needs, such as GPUs."""
    several = config.platform == "hybrid"
    for number, member in enumerate(config.members):
        _check_member(reading, member, (_AT, number) if several else (_AT,))


def _check_member(reading: Reading, member: Member, at: KeyPath) -> None:
    from training_services import registry
    from training_services.placement.needs import Wants

    own = member.own_needs
    # If the number of GPUs is an expression, check the fields that depend on GPUs as for one GPU.
    gpus = 1 if own is not None and own.gpus is not None else member.job_gpu_number
    wants = Wants(gpus, member.job_cpu_number, member.job_memory_size, own)
    for path, sentence, shared, harmless in registry.faults(member.platform, member.service, wants):
        above = shared and path[0] in SHARED_FIELDS and path[0] not in member.overrides
        where = path if above else (*at, *path)
        if harmless:
            reading.warn(where, sentence)
        else:
            reading.fault(where, sentence)


def check_growth(reading: Reading, fields: Mapping[str, Any], service: Service | None) -> None:
    """Report memory of training services that does not fit together with memory that grows."""
    top = fields.get("trialMemorySize")
    for at, part in [] if service is None else service.places():
        own = part.overrides.get("trialMemorySize")
        if own is not None and own != top and (isinstance(own, Mapping) or isinstance(top, Mapping)):
            reading.fault(
                (*at, "trialMemorySize"),
                "memory that grows is the same for all training services: give trialMemorySize only at the "
                "top level",
            )
            del part.overrides["trialMemorySize"]


def check_keys(reading: Reading, service: Service | None) -> None:
    """Report key files of machines and clusters that cannot be read."""
    for at, part in [] if service is None else service.places():
        for path, file in describe(part.service).key_files():
            if (trouble := file_fault(file)) is not None:
                reading.fault((*at, *path), f"the file {file} {trouble}")


def check_checkpoints(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report a tuner whose trials pass on checkpoints in a directory, if the trials do not share a disk."""
    if config is None or all(describe(member.service).beside_server for member in config.members):
        return
    written = {} if config.tuner is None else config.tuner.model_dump(by_alias=True, exclude_unset=True)
    tuner = meant("tuner", written)
    if tuner is None or tuner.directory is None or (written.get("classArgs") or {}).get(tuner.directory):
        return
    reading.fault(
        ("tuner",),
        f"trials of {tuner.name} continue from checkpoints of earlier trials, but those on the platform "
        f'"{config.platform}" do not share a disk: give classArgs.{tuner.directory}, the path of a directory '
        "that all machines have mounted",
    )


def check_priority(reading: Reading, config: ExperimentConfig | None) -> None:
    """Warn of a priority that has no effect, because the platform itself decides which trial is next."""
    if config is None or not config.priority or _has_machines(config):
        return
    instead = "; give priorityClass instead" if config.platform == "kubernetes" else ""
    reading.warn(
        ("priority",), f'no effect: the platform "{config.platform}" has a queue of its own{instead}'
    )


def check_preemptible(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report ``preemptible`` where trials cannot be stopped for other experiments, and warn where none is."""
    if config is None or not config.preemptible:
        return
    path = ("preemptible",)
    if not _has_machines(config):
        instead = "leave preemptible out"
        if config.platform == "kubernetes":
            instead += ", and give priorityClass: the cluster ends pods of a lower class for others"
        reading.fault(
            path, f'not possible on the platform "{config.platform}", which has a queue of its own: {instead}'
        )
    elif config.multi_phase:
        reading.fault(
            path,
            "not possible together with multiPhase, whose trials do not continue from checkpoints: leave one "
            "of them out",
        )
    elif not any(_reserves(member) for member in config.members):
        reading.warn(
            path,
            "no effect: the trials reserve nothing that other trials could need; give trialGpuNumber, "
            "trialCpuNumber or trialMemorySize",
        )


def _has_machines(config: ExperimentConfig) -> bool:
    """Return True if trials may run on machines that stay, whose places nnimgr gives to the trials."""
    from training_services import registry

    return any(registry.hosts_class(member.platform) is not None for member in config.members)


def _reserves(member: Member) -> bool:
    """Return True if trials on this training service may reserve GPUs, CPUs or memory."""
    own = member.own_needs is not None
    return own or bool(member.job_gpu_number or member.job_cpu_number or member.job_memory_size)


def check_capacity(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report trials that need more CPUs or memory than this machine has, if it is the only machine."""
    if config is None or not all(describe(member.service).beside_server for member in config.members):
        return
    here = capacity("/")
    gang = config.gang
    beside = gang.least if gang is not None and gang.same_host else 1  # members that run here together
    on_this = f"{f' for {beside} members' if beside > 1 else ''}, but this machine has"
    for member in config.members:
        cpus, memory = member.job_cpu_number, member.job_memory_size
        field: KeyPath = ("trialMemorySize",)
        if isinstance(growing := member.said("trialMemorySize"), GrowingMemory):
            memory, field = growing.growth().limit, ("trialMemorySize", "limit")
        if cpus is not None and (cpus := cpus * beside) > here["cpus"]:
            has = f"{here['cpus']:g}"
            reading.fault(("trialCpuNumber",), f"asks for {cpus:g} CPUs{on_this} {has}")
        if memory is not None and (memory := memory * beside) > here["memory"]:
            has = memory_text(here["memory"])
            reading.fault(field, f"asks for {memory_text(memory)}{on_this} {has}")


def warn_of_gpus(reading: Reading, config: ExperimentConfig) -> None:
    """Warn of trials that need more GPUs than this machine has, if it is the only machine.

    This is only a warning, because GPUs may be added to the machine later; then the trials start.
    """
    wanted = max((member.job_gpu_number or 0 for member in config.members), default=0)
    if not wanted or not all(describe(member.service).beside_server for member in config.members):
        return
    from trial_keeper.machine import gpus

    seen, _ = gpus.read(gpus.Tool(_GPU_ANSWER_S), lambda pid: None)
    has = len(seen["gpus"])
    if wanted > has:
        why = f" ({seen['trouble']})" if seen["trouble"] else ""
        asks = f"asks for {wanted:g} GPU{'' if wanted == 1 else 's'}"
        reading.warn(
            ("trialGpuNumber",),
            f"{asks}, but this machine has {has or 'none'}{why}; trials wait until it has enough",
        )
