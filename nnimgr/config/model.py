"""Model of an experiment's configuration in NNI's second format. It validates the fields.

``nnimgr.config.load`` creates it from a file, or from the canonical form, in which a configuration is stored
and sent over REST.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    InstanceOf,
    PlainValidator,
    SecretStr,
    model_validator,
)
from pydantic.alias_generators import to_camel

from nnimgr.builtins import Builtin, built_in
from nnimgr.config.attempts import USUAL, Checkpoints, Retries
from nnimgr.config.base import ConfigModel
from nnimgr.config.confirm_best import ConfirmBestConfig
from nnimgr.config.gang import GangConfig
from nnimgr.config.memory import GrowingMemory, TrialMemory
from nnimgr.config.notification import NotificationConfig
from nnimgr.config.resizing import resizable
from nnimgr.config.sinks import SinkConfig
from nnimgr.config.spill import SpillConfig
from nnimgr.config.stop_when import StopWhenConfig
from nnimgr.config.values import Command, CpuNumber, Duration, GpuNumber, Natural, Positive, finite, whole
from nnimgr.goal import is_stated, optimize_mode, stated_goal
from nnimgr.needs import FIELDS, is_expression, needs_of_roles, own_needs
from nnimgr.rules.facts import Limits, OnFailure
from training_services.base import SILENT_AFTER, Gang, OwnNeeds
from training_services.platform import describe
from training_services.units import (
    parse_bytes,
    parse_cpu_number,
    parse_duration,
    parse_gpu_indices,
    parse_gpu_number,
    parse_size,
)

__all__ = [
    "SHARED_FIELDS",
    "AlgorithmConfig",
    "Checkpoints",
    "Duplicates",
    "ExperimentConfig",
    "HybridConfig",
    "HybridMember",
    "LogLevel",
    "Member",
    "Retries",
    "plain_model",
    "platform_of",
]


class LogLevel(StrEnum):
    FATAL = "fatal"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"


class Duplicates(StrEnum):
    """What happens when the tuner suggests a parameter set that equals an earlier one."""

    SKIP = "skip"  # the tuner must suggest another set
    REUSE = "reuse"  # the trial gets the result of an earlier successful trial without being run
    REPLICATE = "replicate"  # the set is run like any other set


def _failure_value(value: Any) -> float | dict[str, float]:
    if isinstance(value, Mapping):
        return {str(name): finite(number) for name, number in value.items()}
    return finite(value)


def _fail_fast(value: Any) -> Any:
    if isinstance(value, bool):
        return FAIL_FAST if value else 0
    return value


_Whole = Annotated[int, BeforeValidator(whole)]
_FailureValue = Annotated[float | dict[str, float], PlainValidator(_failure_value)]
_Priority = Annotated[int, BeforeValidator(whole), Field(ge=-1000, le=1000)]
_FailFast = Annotated[int, BeforeValidator(_fail_fast), Field(ge=0)]
_Gpus = Annotated[list[int], PlainValidator(parse_gpu_indices)]


_MOST_AT_ONCE = 99_999  # NNI's limit; the tuner is asked for this number of sets at once
FAIL_FAST = 5  # default number of first trials that stop an experiment if all fail alike
SHORTEST_LEASE = timedelta(seconds=10)


class AlgorithmConfig(ConfigModel):
    """Tuner, assessor, scheduler or advisor in a configuration: a built-in algorithm by ``name``, or a user's
    class.
    """

    name: str | None = None
    class_name: str | None = None
    code_directory: Path | None = None
    class_args: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_of(self) -> AlgorithmConfig:
        if (self.name is None) == (self.class_name is None):
            raise ValueError("give either 'name' (a built-in algorithm) or 'className' (a class of your own)")
        if self.name is not None and self.code_directory is not None:
            raise ValueError("'codeDirectory' goes with 'className', not with 'name'")
        if self.class_name is not None:
            parts = self.class_name.split(".")
            if len(parts) < 2 or not all(part.isidentifier() for part in parts):
                raise ValueError(f"className {self.class_name!r} is not of the form 'module.Class'")
        return self

    @property
    def title(self) -> str:
        return self.name or self.class_name or ""

    def builtin(self, role: str) -> Builtin | None:
        """Return the built-in algorithm with this name or import path. Return None for a user's algorithm."""
        return built_in(role, name=self.name, class_name=self.class_name, code_directory=self.code_directory)


class HybridMember(ConfigModel):
    """One of several training services, with its own values of fields that the top level has too."""

    service: InstanceOf[BaseModel]
    overrides: dict[str, Any] = Field(default_factory=dict)


class HybridConfig(ConfigModel):
    """NNI's hybrid mode: jobs run on the machines of all these training services."""

    platform: Literal["hybrid"] = "hybrid"
    members: list[HybridMember]


class ExperimentConfig(ConfigModel):
    """Configuration of an experiment. Fields that are not set are None. Durations are as users write them."""

    experiment_name: str | None = None
    experiment_type: Literal["hpo"] = "hpo"
    search_space_file: Path | None = None
    search_space: dict[str, Any]
    search_space_constraints: list[str] | None = None
    initial_parameters: list[dict[str, Any]] | None = None
    duplicates: Annotated[Duplicates, Field(strict=False)] | None = None
    trial_command: Command
    trial_code_directory: Path
    trial_concurrency: Annotated[Positive, Field(le=_MOST_AT_ONCE)]
    trial_gpu_number: GpuNumber | None = None
    trial_cpu_number: CpuNumber | None = None
    trial_memory_size: TrialMemory | None = None
    priority: _Priority | None = None
    preemptible: bool | None = None
    preload: list[str] | None = None
    resident: bool | None = None
    gang: GangConfig | None = None
    max_experiment_duration: Duration | None = None
    max_trial_number: Positive | None = None
    max_trial_duration: Duration | None = None
    nni_manager_ip: str | None = None
    use_annotation: Literal[False] = False
    debug: bool = False
    log_level: Annotated[LogLevel, Field(strict=False)] = Field(
        default_factory=lambda found: LogLevel.DEBUG if found.get("debug") else LogLevel.INFO
    )
    experiment_working_directory: Path
    tuner_gpu_indices: _Gpus | None = None
    goal: Literal["maximize", "minimize"] | None = None
    tuner: AlgorithmConfig
    assessor: AlgorithmConfig | None = None
    scheduler: AlgorithmConfig | None = None
    training_service: InstanceOf[BaseModel]
    training_service_overrides: dict[str, Any] = Field(default_factory=dict, exclude=True)
    spill: SpillConfig | None = None
    shared_storage: dict[str, Any] | None = None
    suggestions_ahead: Annotated[Natural, Field(le=_MOST_AT_ONCE)] | None = None
    silent_after: Duration | None = None
    slot_held_for: Duration | None = None
    lease: Duration | None = None
    multi_phase: bool = False
    max_retries: Retries | None = None
    checkpoints: Checkpoints | None = None
    on_failure: Annotated[OnFailure, Field(strict=False)] | None = None
    failure_value: _FailureValue | None = None
    fail_fast: _FailFast | None = None
    stop_when: StopWhenConfig | None = None
    confirm_best: ConfirmBestConfig | None = None
    notify: list[NotificationConfig] | None = None
    sinks: list[SinkConfig] | None = None
    objectives: dict[str, Literal["maximize", "minimize"]] | None = None

    @model_validator(mode="after")
    def _failure(self) -> ExperimentConfig:
        if (self.on_failure is OnFailure.VALUE) != (self.failure_value is not None):
            raise ValueError("'onFailure: value' and 'failureValue' go together: give both or neither")
        return self

    @model_validator(mode="after")
    def _sets(self) -> ExperimentConfig:
        if self.duplicates is Duplicates.REUSE and self.max_trial_number is None:
            raise ValueError(
                "'duplicates: reuse' needs 'maxTrialNumber': trials that reuse a result take no time, and a "
                "tuner may suggest the same sets without end"
            )
        if self.duplicates is Duplicates.REUSE and self.multi_phase:
            raise ValueError("'duplicates: reuse' is not for 'multiPhase', whose trials have several results")
        initial = len(self.initial_parameters or ())
        if self.max_trial_number is not None and initial > self.max_trial_number:
            raise ValueError(
                f"'initialParameters' has {initial} parameter sets, but 'maxTrialNumber' is "
                f"{self.max_trial_number}"
            )
        return self

    @model_validator(mode="after")
    def _phases(self) -> ExperimentConfig:
        if self.scheduler is not None and self.multi_phase:
            raise ValueError(
                "'scheduler' is not for 'multiPhase', whose trials get several parameter sets one after the "
                "other; leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _confirmations(self) -> ExperimentConfig:
        if self.confirm_best is not None and self.multi_phase:
            raise ValueError("'confirmBest' is not for 'multiPhase', whose trials have several results")
        return self

    @model_validator(mode="after")
    def _lease(self) -> ExperimentConfig:
        if self.lease is None:
            return self
        if all(describe(member.service).beside_server for member in self.members):
            raise ValueError(
                "'lease' is for trials on machines that can lose the connection to the server. Local trials "
                "cannot lose it, and a lease would end them while the server is down. Leave it out"
            )
        shortest = max(SHORTEST_LEASE, self.silence or SILENT_AFTER)
        if parse_duration(self.lease) < shortest:
            raise ValueError(
                f"'lease' ({self.lease}) must be at least {shortest.total_seconds():g} s: no shorter than "
                f"'silentAfter', and {SHORTEST_LEASE.total_seconds():g} s at least"
            )
        return self

    @property
    def optimize_mode(self) -> str:
        """Direction in which results are better: "minimize" or "maximize". May be a default."""
        return optimize_mode(self._goals())

    @property
    def stated_goal(self) -> str | None:
        """Direction that ``objectives`` or ``goal`` states, or None."""
        return stated_goal(self._goals())

    @property
    def goal_is_stated(self) -> bool:
        """True if the configuration states the direction in which results are better. False for a default."""
        return is_stated(self._goals())

    def _goals(self) -> dict[str, Any]:
        tuner = self.tuner.model_dump(by_alias=True)
        return {"objectives": self.objectives, "goal": self.goal, "tuner": tuner}

    def canonical(self) -> dict[str, Any]:
        """Return the configuration in NNI's canonical form: plain values under camelCase names.

        None values and secrets are left out, and paths are texts.
        """
        plain = plain_model(self)
        del plain["trainingServiceOverrides"]
        shared = {key: _plain(plain[key]) for key in SHARED_FIELDS if key in plain}
        services = [member.canonical(shared) for member in self.members]
        plain["trainingService"] = services if self.platform == "hybrid" else services[0]
        return plain

    def field_values(self) -> dict[str, Any]:
        """Return the values of all fields, by their names in a configuration file."""
        return {to_camel(name): getattr(self, name) for name in type(self).model_fields}

    def gang_of_trials(self) -> Gang | None:
        """Return the worker processes of each trial in the form that training services use."""
        if self.gang is None:
            return None
        retries, checkpoints = self.max_retries or Retries(), self.checkpoints or Checkpoints()
        save_within = parse_duration(checkpoints.save_within)
        return self.gang.gang(max_restarts=retries.user_error, save_within=save_within)

    def limits(self) -> Limits:
        """Return the limits on trials, retries and durations in the form that the core uses."""
        memory = self.trial_memory_size
        retries, checkpoints = self.max_retries or Retries(), self.checkpoints or Checkpoints()
        return Limits(
            trial_concurrency=self.trial_concurrency,
            max_trial_number=self.max_trial_number,
            max_experiment_duration=_timedelta(self.max_experiment_duration),
            max_trial_duration=_timedelta(self.max_trial_duration),
            suggestions_ahead=self.suggestions_ahead,
            multi_phase=self.multi_phase,
            max_lost_attempts=retries.infrastructure,
            max_failed_attempts=retries.user_error,
            max_memory_attempts=retries.out_of_memory,
            memory_growth=memory.growth() if isinstance(memory, GrowingMemory) else None,
            max_preempted_attempts=retries.preempted,
            on_failure=self.on_failure or OnFailure.SKIP,
            failure_value=self.failure_value,
            fail_fast=FAIL_FAST if self.fail_fast is None else self.fail_fast,
            stop_when=USUAL.stop_when if self.stop_when is None else self.stop_when.rules(),
            resizable=tuple(self.resizable),
            members=None if self.gang is None else self.gang.members(),
            confirm_best=None if self.confirm_best is None else self.confirm_best.rule(),
            checkpoints_kept=checkpoints.keep_last,
            checkpoints_best=checkpoints.keep_best,
            checkpoints_limit=None if checkpoints.limit is None else parse_bytes(checkpoints.limit),
            keeps_copies=checkpoints.keep == "newest",
            stores_copies=checkpoints.storage is not None,
            save_within=parse_duration(checkpoints.save_within),
            slot_held_for=_timedelta(self.slot_held_for) or USUAL.slot_held_for,
            exit_barrier=self._exit_barrier or USUAL.exit_barrier,
        )

    @property
    def _exit_barrier(self) -> timedelta | None:
        return None if self.gang is None else _timedelta(self.gang.exit_barrier)

    @property
    def resizable(self) -> Mapping[str, float]:
        return resizable(self)

    @property
    def platform(self) -> str:
        return str(getattr(self.training_service, "platform", ""))

    @property
    def silence(self) -> timedelta | None:
        return _timedelta(self.silent_after)

    @property
    def lease_time(self) -> timedelta | None:
        return _timedelta(self.lease)

    @property
    def members(self) -> list[Member]:
        """Training services of the experiment: several in NNI's hybrid mode, otherwise one."""
        service = self.training_service
        if isinstance(service, HybridConfig):
            return [Member(self, each.service, each.overrides) for each in service.members]
        return [Member(self, service, self.training_service_overrides)]


@dataclass(frozen=True, slots=True)
class Member:
    """One training service of an experiment. Its own fields have priority over fields of the top level."""

    config: ExperimentConfig
    service: BaseModel
    overrides: Mapping[str, Any]

    @property
    def platform(self) -> str:
        return str(getattr(self.service, "platform", ""))

    @property
    def job_command(self) -> str:
        return str(self.said("trialCommand"))

    @property
    def job_directory(self) -> Path:
        return Path(self.said("trialCodeDirectory"))

    @property
    def job_gpu_number(self) -> int | float | None:
        """Number of GPUs that each trial gets; None if it is not given, or not the same for all trials."""
        number = self.said("trialGpuNumber")
        return None if number is None or is_expression(number) else parse_gpu_number(number)

    @property
    def job_cpu_number(self) -> float | None:
        """CPUs that each trial reserves; None if they are not given, or not the same for all trials."""
        number = self.said("trialCpuNumber")
        return None if number is None or is_expression(number) else parse_cpu_number(number)

    @property
    def job_memory_size(self) -> int | None:
        """Memory in MiB that each trial reserves; None if it is not given, or not the same for all trials."""
        size = self.said("trialMemorySize")
        if size is None or is_expression(size) or isinstance(size, GrowingMemory):
            return None
        return parse_size(size)

    @property
    def own_needs(self) -> OwnNeeds | None:
        """Needs that are not the same for all trials; None if there are none."""
        values = {field: self.said(field) for field in FIELDS}
        memory = values["trialMemorySize"]
        growth = memory.growth() if isinstance(memory, GrowingMemory) else None
        own = own_needs(values, growth, tuple(self.config.resizable))
        gang = self.config.gang_of_trials()
        if gang is None or not gang.roles:
            return own
        return needs_of_roles(
            gang, own, gpus=self.job_gpu_number, cpus=self.job_cpu_number, memory=self.job_memory_size
        )

    @property
    def job_manager_ip(self) -> str | None:
        """Address at which this training service's keepers call the server."""
        address: str | None = self.said("nniManagerIp")
        return address

    def said(self, name: str) -> Any:
        """Return the value of a field that the top level has too."""
        return self.overrides.get(name, getattr(self.config, SHARED_FIELDS[name]))

    def canonical(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return the training service in NNI's canonical form: plain values under camelCase names.

        ``shared``: fields of the top level, for which the training service may have its own values.
        """
        taken = dict(shared)
        if describe(self.service).beside_server:
            taken.pop("nniManagerIp", None)
        return {"platform": self.platform, **taken, **_plain(self.overrides), **plain_model(self.service)}


def platform_of(config: Mapping[str, Any]) -> str:
    """Return NNI's name of the platform of a configuration that is given in its stored form."""
    service = config["trainingService"]
    return "hybrid" if isinstance(service, list) else str(service["platform"])


# Fields of the top level that a training service inherits unless it has its own value.
SHARED_FIELDS: Mapping[str, str] = {
    to_camel(name): name
    for name in (
        *("trial_command", "trial_code_directory", "trial_gpu_number", "trial_cpu_number"),
        *("trial_memory_size", "nni_manager_ip", "debug"),
    )
}


def plain_model(model: BaseModel) -> dict[str, Any]:
    """Return a model as plain JSON values, by the fields' aliases. Fields that are None are left out.

    Values without a model, such as ``classArgs``, are not changed.
    """
    found = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is not None:
            found[field.alias or to_camel(name)] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return plain_model(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _timedelta(value: str | int | None) -> timedelta | None:
    return None if value is None else parse_duration(value)
