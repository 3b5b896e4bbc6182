"""Base class of the models of configuration files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["ConfigModel"]


class ConfigModel(BaseModel):
    """Section of a configuration file. Its keys are in camel case, and unknown ones are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )
