"""Which resources of single trials a scheduler may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnimgr.needs import FIELDS, is_expression
from training_services.platform import describe

if TYPE_CHECKING:
    from nnimgr.config.model import ExperimentConfig
    from nnimgr.config.parsing import Reading

__all__ = ["check_resizing", "resizable"]


def resizable(config: ExperimentConfig) -> Mapping[str, float]:
    """Return the fields of resources that the scheduler may change for a trial, with their values.

    The values are plain numbers, and the same for all training services (memory in MiB). A built-in scheduler
    that never changes resources may change none.
    """
    scheduler = config.scheduler
    builtin = None if scheduler is None else scheduler.builtin("scheduler")
    if scheduler is None or (builtin is not None and not builtin.resizes):
        return {}
    if not all(describe(member.service).sizes_each_trial() for member in config.members):
        return {}
    found: dict[str, float] = {}
    for field, read in FIELDS.items():
        values = [member.said(field) for member in config.members]
        if all(isinstance(value, int | float | str) and not is_expression(value) for value in values):
            numbers = {read(value) for value in values}
            if len(numbers) == 1 and (number := numbers.pop()) > 0:
                found[field] = number
    return found


def check_resizing(reading: Reading, config: ExperimentConfig) -> None:
    """Report a built-in scheduler that changes resources which cannot be changed here."""
    scheduler = config.scheduler
    builtin = None if scheduler is None else scheduler.builtin("scheduler")
    if scheduler is None or builtin is None or not builtin.resizes:
        return
    if not all(describe(member.service).sizes_each_trial() for member in config.members):
        reading.fault(
            ("scheduler",),
            f"{builtin.name} needs a training service that can give each trial other resources: local, "
            "remote, or kubernetes without reuseMode",
        )
        return
    can = config.resizable
    for field in (scheduler.class_args or {}).get("total", ()):
        if field not in can:
            reading.fault(
                ("scheduler", "classArgs", "total", field),
                f"needs {field} in the configuration as a plain number above 0, the same for all training "
                "services",
            )
