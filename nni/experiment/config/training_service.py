"""Base class for the configurations of training services, which run the trials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nni.experiment.config.base import ConfigBase, InvalidConfig
from nni.experiment.config.utils import PathLike, is_missing

__all__ = ["TrainingServiceConfig", "empty_service", "service_of"]

_TAKEN_FROM_THE_TOP = ("trial_command", "trial_code_directory", "trial_gpu_number", "nni_manager_ip", "debug")


@dataclass(init=False, kw_only=True)
class TrainingServiceConfig(ConfigBase):
    """Fields that the configurations of all training services have.

    Values that are not set here are taken from the experiment's configuration.
    """

    platform: str
    trial_command: str | None
    trial_code_directory: PathLike
    trial_gpu_number: int | str | None
    nni_manager_ip: str | None
    debug: bool

    def _canonicalize(self, parents: list[Any]) -> None:
        for name in _TAKEN_FROM_THE_TOP:
            if is_missing(getattr(self, name)):
                setattr(self, name, getattr(parents[0], name))
        super()._canonicalize(parents)

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        kind = type(self)
        platform = getattr(kind, "platform", self.platform)
        if self.platform != platform:
            raise InvalidConfig(f"{kind.__name__}: platform {self.platform!r} must be {platform!r}")
        if self.trial_command is None:
            raise InvalidConfig("ExperimentConfig: trial_command is not set")
        if not Path(self.trial_code_directory).is_dir():
            raise InvalidConfig(
                f'{kind.__name__}: trial_code_directory "{self.trial_code_directory}" is not a directory'
            )
        if isinstance(self.trial_gpu_number, int) and self.trial_gpu_number < 0:
            raise InvalidConfig(f"{kind.__name__}: trial_gpu_number ({self.trial_gpu_number}) is negative")


def empty_service(platform: str) -> TrainingServiceConfig:
    """Return a training service's configuration with no field set.

    Raise InvalidConfig for an unknown platform.
    """
    kind = _kinds().get(platform)
    if kind is None:
        raise InvalidConfig(
            f"Bad training service platform: {platform}; the valid ones are {', '.join(sorted(_kinds()))}"
        )
    return kind()


def service_of(value: Any) -> Any:
    """Convert a dict to the configuration class of its "platform". Return any other value unchanged."""
    kind = _kinds().get(value.get("platform")) if isinstance(value, dict) else None
    return value if kind is None else kind(**value)


def _kinds() -> dict[Any, type[TrainingServiceConfig]]:
    return {getattr(kind, "platform", None): kind for kind in TrainingServiceConfig.__subclasses__()}
