"""Description of the columns of an experiment's table of trials."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from nnimgr.api.models.base import Model


class ColumnKind(StrEnum):
    NUMBER = "number"
    CATEGORY = "category"
    STATUS = "status"
    TIME = "time"  # seconds since the experiment's creation


class Column(Model):
    name: str
    kind: ColumnKind
    min: float | None = Field(description="smallest number in the column; null: it has no numbers")
    max: float | None
    categories: list[Any] | None = Field(description="JSON values of a category or status")
    count: int = Field(description="number of trials with a value")
    integer: bool = Field(description="true: all values are integers")
    log: bool = Field(description="true: logarithmic in the search space")


class ColumnsSchema(Model):
    revision: int = Field(description="number of the last fact that is included")
    total: int = Field(description="number of trials")
    left_out: int = Field(description="number of columns that were omitted because there are too many")
    columns: list[Column]
