"""Classes for the configuration of a tuner, assessor or advisor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nni.experiment.config.base import ConfigBase, InvalidConfig
from nni.experiment.config.utils import PathLike

__all__ = ["NOT_SET", "AlgorithmConfig", "CustomAlgorithmConfig"]

NOT_SET = "_none_"  # NNI's placeholder for an algorithm that the user may name later


@dataclass(init=False, kw_only=True)
class _AlgorithmConfig(ConfigBase):
    """Configuration of an algorithm: a built-in one by ``name``, or a user's class by ``class_name`` and
    ``code_directory``.
    """

    name: str | None = None
    class_name: str | None = None
    code_directory: PathLike | None = None
    class_args: dict[str, Any] | None = None

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        kind = type(self).__name__.strip("_")
        if self.class_name is None:
            if not self.name:
                raise InvalidConfig(f"{kind}: name is not set")
            if self.code_directory is not None:
                raise InvalidConfig(f"{kind}: code_directory is for class_name, not for name")
        elif self.name is not None:
            raise InvalidConfig(f"{kind}: give either name or class_name")
        elif self.code_directory is not None and not Path(self.code_directory).is_dir():
            raise InvalidConfig(f'{kind}: code_directory "{self.code_directory}" is not a directory')


@dataclass(init=False, kw_only=True)
class AlgorithmConfig(_AlgorithmConfig):
    """Configuration of a built-in or registered algorithm: ``AlgorithmConfig(name="TPE", class_args={"seed":
    1})``.
    """

    name: str
    class_args: dict[str, Any] | None = None


@dataclass(init=False, kw_only=True)
class CustomAlgorithmConfig(_AlgorithmConfig):
    """Configuration of an algorithm that is a user's class.

    ``class_name`` is "module.Class", and ``code_directory`` contains the module.
    """

    class_name: str
    code_directory: PathLike | None = "."
    class_args: dict[str, Any] | None = None
