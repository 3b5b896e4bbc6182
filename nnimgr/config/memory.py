"""Model of a ``trialMemorySize`` that grows after an attempt has run out of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import ByteSize, MemorySize, memory_size
from nnimgr.rules.terms import MemoryGrowth
from training_services.units import parse_size

__all__ = ["GrowingMemory", "TrialMemory"]


class GrowingMemory(ConfigModel):
    """Memory of a trial's attempts. After an attempt that ran out of memory, the next one gets more."""

    start: ByteSize
    factor: Annotated[int | float, Field(ge=1.1, le=100)] = 2
    limit: ByteSize

    @model_validator(mode="after")
    def _limit(self) -> GrowingMemory:
        if parse_size(self.limit) <= parse_size(self.start):
            raise ValueError(f"'limit' ({self.limit}) must be more than 'start' ({self.start})")
        return self

    def growth(self) -> MemoryGrowth:
        """Return the rule in the form that the core uses."""
        return MemoryGrowth(start=parse_size(self.start), factor=self.factor, limit=parse_size(self.limit))


def _memory(value: Any) -> Any:
    """Return a value of ``trialMemorySize``. A mapping is checked by ``GrowingMemory``."""
    return value if isinstance(value, GrowingMemory | Mapping) else memory_size(value)


TrialMemory = Annotated[MemorySize | GrowingMemory, PlainValidator(_memory)]
