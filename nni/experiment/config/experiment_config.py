"""The class for the configuration of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from nni.experiment.config.algorithm import NOT_SET, AlgorithmConfig, _AlgorithmConfig
from nni.experiment.config.base import ConfigBase, InvalidConfig
from nni.experiment.config.shared_storage import SharedStorageConfig
from nni.experiment.config.training_service import TrainingServiceConfig, empty_service, service_of
from nni.experiment.config.utils import (
    PathLike,
    canonical_gpu_indices,
    is_missing,
    parse_time,
    validate_gpu_indices,
)

__all__ = ["ExperimentConfig"]

_ROLES = ("tuner", "assessor", "advisor")
_WORKING_DIRECTORY = "~/nni-experiments"
_LOG_LEVELS = ("fatal", "error", "warning", "info", "debug", "trace")


@dataclass(init=False, kw_only=True)
class ExperimentConfig(ConfigBase):
    """Configuration of an experiment: the fields of ``exp.yml`` in snake_case.

    Write it in one call, or name the platform first and set the fields one by one::

        config = ExperimentConfig("local")
        config.search_space = {"lr": {"_type": "loguniform", "_value": [1e-4, 0.1]}}
        config.trial_command = "python train.py"
        config.trial_concurrency = 2
        config.tuner.name = "TPE"

    The fields that nnimgr added to NNI's, such as ``goal`` and ``objectives``, can be set too.
    """

    _model: ClassVar[str] = "nnimgr.config.model:ExperimentConfig"

    experiment_name: str | None = None
    experiment_type: Literal["hpo"] = "hpo"
    search_space_file: PathLike | None = None
    search_space: Any = None
    trial_command: str | None = None
    trial_code_directory: PathLike = "."
    trial_concurrency: int
    trial_gpu_number: int | str | None = None
    max_experiment_duration: str | int | None = None
    max_trial_number: int | None = None
    max_trial_duration: str | int | None = None
    nni_manager_ip: str | None = None
    use_annotation: bool = False
    debug: bool = False
    log_level: str | None = None
    experiment_working_directory: PathLike = _WORKING_DIRECTORY
    tuner_gpu_indices: list[int] | int | str | None = None
    tuner: _AlgorithmConfig | None = None
    assessor: _AlgorithmConfig | None = None
    advisor: _AlgorithmConfig | None = None
    training_service: TrainingServiceConfig | list[TrainingServiceConfig] | dict[str, Any] | list[Any]
    shared_storage: SharedStorageConfig | None = None

    def __init__(self, training_service_platform: str | list[str] | None = None, **kwargs: Any) -> None:
        """Set the fields that are passed by name.

        If ``training_service_platform`` is given, also create the sections for that platform and the
        algorithms, so that their fields can be set one by one.
        """
        super().__init__(**kwargs)
        if training_service_platform is not None:
            if not is_missing(self.training_service):
                raise InvalidConfig("ExperimentConfig: give either a platform or training_service")
            many = isinstance(training_service_platform, list)
            services = [
                empty_service(name)
                for name in ([*training_service_platform] if many else [str(training_service_platform)])
            ]
            self.training_service = services if many else services[0]
            for role in _ROLES:
                if getattr(self, role) is None:
                    setattr(self, role, AlgorithmConfig(name=NOT_SET, class_args={}))
        elif isinstance(self.training_service, list):
            self.training_service = [service_of(service) for service in self.training_service]
        else:
            self.training_service = service_of(self.training_service)

    def _canonicalize(self, parents: list[Any]) -> None:
        if self.log_level is None:
            self.log_level = "debug" if self.debug else "info"
        self.tuner_gpu_indices = canonical_gpu_indices(self.tuner_gpu_indices)
        for role in _ROLES:
            algorithm = getattr(self, role)
            if algorithm is not None and algorithm.name == NOT_SET and algorithm.class_name is None:
                setattr(self, role, None)
            elif algorithm is not None and algorithm.name == NOT_SET:
                algorithm.name = None
        if self.advisor is not None:
            if self.tuner is not None:
                raise InvalidConfig("ExperimentConfig: give either tuner or advisor, not both")
            self.tuner, self.advisor = self.advisor, None
        if self.experiment_working_directory == _WORKING_DIRECTORY:
            from nnimgr.home import Home

            self.experiment_working_directory = Home.find().path  # NNIMGR_HOME may name another directory
        super()._canonicalize([])
        if self.search_space_file is not None:
            from nnimgr.config.document import read_document

            self.search_space = read_document(Path(self.search_space_file)).value

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        if self.use_annotation:
            raise InvalidConfig("ExperimentConfig: use_annotation is not supported; write a search space")
        if self.search_space is None:
            raise InvalidConfig("ExperimentConfig: set search_space or search_space_file")
        for name in ("trial_concurrency", "max_trial_number"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidConfig(f"ExperimentConfig: {name} ({number}) must be at least 1")
        for name in ("max_experiment_duration", "max_trial_duration"):
            duration = getattr(self, name)
            if duration is not None and parse_time(duration) <= 0:
                raise InvalidConfig(f"ExperimentConfig: {name} ({duration!r}) must be more than 0 s")
        if self.log_level not in _LOG_LEVELS:
            raise InvalidConfig(
                f"ExperimentConfig: log_level ({self.log_level!r}) must be one of {', '.join(_LOG_LEVELS)}"
            )
        validate_gpu_indices(self.tuner_gpu_indices)  # type: ignore[arg-type]
        if self.tuner is None:
            raise InvalidConfig("ExperimentConfig: tuner must be set")
