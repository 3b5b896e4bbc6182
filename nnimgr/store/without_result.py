"""Finds trials that have succeeded without a result that the tuner can use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from nnimgr.traits import traits_of

__all__ = ["is_without_result", "query_without_result"]

_WHERE = """FROM trials INDEXED BY trial_by_final
WHERE experiment_id = ? AND final_value IS NULL AND status = 'SUCCEEDED'"""


def query_without_result(config: Mapping[str, Any], what: Literal["sequence", "count(*)"]) -> str:
    """Return an SQL query for succeeded trials without a usable result. Its argument is the experiment's id.

    A tuner that is the user's own code can use every result, even a result that is not a number.
    """
    return f"SELECT {what} {_WHERE}" + (" AND final_text IS NULL" if traits_of(config).own else "")


def is_without_result(
    config: Mapping[str, Any], *, status: str, final_value: float | None, final_text: str | None
) -> bool:
    """Return whether a trial with these values has succeeded without a usable result."""
    if status != "SUCCEEDED" or final_value is not None:
        return False
    return final_text is None or not traits_of(config).own
