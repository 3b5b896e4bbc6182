"""The field ``spill``: how trials that wait go on from one platform to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import Duration
from nnimgr.spelling import nearest
from training_services.hybrid.route import Spill
from training_services.platform import describe
from training_services.units import parse_duration

if TYPE_CHECKING:
    from nnimgr.config.model import ExperimentConfig, Member
    from nnimgr.config.parsing import Reading

__all__ = ["SpillConfig", "check_spill", "describe_route", "member_on", "one_of_several", "spill_rule"]

_AT = ("spill",)


class SpillConfig(ConfigModel):
    """Trials that have waited ``after`` on one platform go on to the next.

    ``order``: the platforms in the order in which trials ask them; None: the order of ``trainingService``.
    """

    after: Duration
    order: list[str] | None = None

    def rule(self, platforms: Sequence[str]) -> Spill:
        """Return the rule in the form that training services use. ``platforms``: those of the list."""
        numbers = range(len(platforms)) if self.order is None else map(platforms.index, self.order)
        return Spill(after=parse_duration(self.after), order=tuple(numbers))


def spill_rule(config: ExperimentConfig) -> Spill | None:
    """Return how trials go on from platform to platform; None without ``spill``."""
    platforms = [member.platform for member in config.members]
    return None if config.spill is None else config.spill.rule(platforms)


def member_on(config: ExperimentConfig, platform: str) -> Member | None:
    """Return the experiment's training service on this platform; None if it has none there."""
    return next((member for member in config.members if member.platform == platform), None)


def one_of_several(member: Member) -> str:
    """Return the platform of this training service if the experiment has several, otherwise ""."""
    return member.platform if len(member.config.members) > 1 else ""


def check_spill(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report ``spill`` without several platforms, and an order that does not name each of them once."""
    if config is None or config.spill is None:
        return
    platforms = [member.platform for member in config.members]
    if len(platforms) < 2:
        reading.fault(_AT, "needs several platforms: give trainingService as a list, or leave spill out")
        return
    order = config.spill.order
    if order is None:
        return
    twice = next((name for name, count in Counter(platforms).items() if count > 1), None)
    if twice is not None:
        reading.fault(
            (*_AT, "order"),
            f"cannot be used, because {twice!r} is in trainingService twice: leave order out, and write the "
            "list itself in the order that you want",
        )
        return
    for number, name in enumerate(order):
        path = (*_AT, "order", number)
        if name not in platforms:
            likely = nearest(name, platforms)
            reading.fault(path, f"no platform {name!r} in trainingService", valid=platforms, nearest=likely)
        elif name in order[:number]:
            reading.fault(path, f"{name!r} is named twice")
    missing = [name for name in platforms if name not in order]
    if missing:
        reading.fault((*_AT, "order"), f"must name all platforms of trainingService; missing: {missing[0]}")


def describe_route(config: ExperimentConfig) -> str | None:
    """Return the order in which trials ask the platforms, as a text; None if there is only one."""
    platforms = [member.platform for member in config.members]
    if len(platforms) < 2:
        return None
    if config.spill is not None and (rule := spill_rule(config)) is not None:
        order = [platforms[number] for number in rule.order]
        return f", then after {config.spill.after} ".join(order)
    makes = [describe(member.service).makes_allocations for member in config.members]
    machines = [name for name, on_demand in zip(platforms, makes, strict=True) if not on_demand]
    # Machines that stay are one platform, at the place of the first.
    groups = (
        name if on_demand else " and ".join(dict.fromkeys(machines))
        for name, on_demand in zip(platforms, makes, strict=True)
    )
    return ", then ".join(dict.fromkeys(groups))
