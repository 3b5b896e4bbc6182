"""The description of an experiment's columns."""

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
    min: float | None = Field(description="of the numbers in it; null: there are none")
    max: float | None
    categories: list[Any] | None = Field(description="of a category or status: the JSON values")
    count: int = Field(description="how many trials have a value")
    integer: bool = Field(description="a number that is an integer in all trials")
    log: bool = Field(description="the search space says that it is spread logarithmically")


class ColumnsSchema(Model):
    revision: int = Field(description="the number of the last fact that is in it")
    total: int = Field(description="trials")
    left_out: int = Field(description="columns that there are too many of to be kept")
    columns: list[Column]
