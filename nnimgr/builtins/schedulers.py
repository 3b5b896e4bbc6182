"""Descriptions of the built-in schedulers: names, classes and checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.advisors import fault_of_budgets
from nnimgr.builtins.arguments import Arguments, boolean, integer, number, optimize_mode
from nnimgr.builtins.builtin import Builtin

__all__ = ["SCHEDULERS"]


_RESOURCES = ("trialGpuNumber", "trialCpuNumber", "trialMemorySize")


def _factors(value: Any) -> str | None:
    fits = isinstance(value, list) and value and all(number(above=0)(each) is None for each in value)
    return None if fits else "must be a list of numbers above 0"


def _mutations(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        return "must be null, or a mapping of parameters to lists or to items as in a search space"
    return None


def _schedule(value: Any) -> str | None:
    """Return why a schedule cannot be followed."""
    if not isinstance(value, list) or not value:
        return "must be a list of {reports, parameters}"
    before = -1
    for position, entry in enumerate(value, 1):
        if not isinstance(entry, Mapping) or entry.keys() != {"reports", "parameters"}:
            return f"must be a list of {{reports, parameters}} (item {position} is another mapping)"
        reports = entry["reports"]
        if integer(at_least=0)(reports) is not None:
            return f"must have an integer of at least 0 as reports in its item {position}"
        if reports <= before:
            return f"must be in the order of reports: those of item {position} are not above {before}"
        if not isinstance(entry["parameters"], Mapping):
            return f"must have a mapping as parameters in its item {position}"
        before = reports
    return None


def _total(value: Any) -> str | None:
    fits = isinstance(value, Mapping) and value and value.keys() <= set(_RESOURCES)
    if fits and all(number(above=0)(each) is None for each in value.values()):
        return None
    return f"must be a mapping of {', '.join(_RESOURCES)} (MB) to numbers above 0"


def _fault_of_population(
    arguments: Mapping[str, Any], several: bool
) -> tuple[tuple[str | int, ...], str] | None:
    if arguments.get("synchronous") and arguments.get("population_size") is None:
        sentence = "synchronous: true needs population_size, the number of trials that wait for each other"
        return ("synchronous",), sentence
    if (mutations := arguments.get("mutations")) is None:
        return None
    from nnimgr.schedulers.explore import parse_mutations
    from nnimgr.search_space import SearchSpaceError

    try:
        parse_mutations(mutations)
    except SearchSpaceError as error:
        name, *rest = error.path
        if not isinstance(mutations.get(name), Mapping):  # a list, which stands for a choice
            rest = rest[1:]
        return ("mutations", name, *rest), str(error)
    return None


_POPULATION: Arguments = {
    "optimize_mode": optimize_mode,
    "perturbation_interval": integer(at_least=1),
    "burn_in": integer(at_least=0),
    "quantile_fraction": number(above=0, at_most=0.5),
    "mutations": _mutations,
    "synchronous": boolean,
    "population_size": integer(at_least=2, or_null=True),
    "seed": integer(or_null=True),
}

SCHEDULERS = (
    Builtin(
        role="scheduler",
        name="ASHA",
        target="nnimgr.schedulers.asha:ASHAScheduler",
        arguments={
            "optimize_mode": optimize_mode,
            "min_budget": integer(at_least=1),
            "max_budget": integer(at_least=1, or_null=True),
            "eta": integer(at_least=2),
            "stop": boolean,
        },
        whole=fault_of_budgets(None),
    ),
    Builtin(
        role="scheduler",
        name="HyperBand",
        target="nnimgr.schedulers.hyperband:HyperBandScheduler",
        arguments={
            "optimize_mode": optimize_mode,
            "min_budget": integer(at_least=1),
            "max_budget": integer(at_least=1),
            "eta": integer(at_least=2),
        },
        whole=fault_of_budgets(81),
    ),
    Builtin(
        role="scheduler",
        name="PBT",
        target="nnimgr.schedulers.pbt:PBTScheduler",
        arguments={
            **_POPULATION,
            "resample_probability": number(at_least=0, at_most=1),
            "perturbation_factors": _factors,
        },
        whole=_fault_of_population,
    ),
    Builtin(
        role="scheduler",
        name="PB2",
        needs=("numpy", "scipy", "sklearn"),
        target="nnimgr.schedulers.pb2:PB2Scheduler",
        arguments=_POPULATION,
        whole=_fault_of_population,
    ),
    Builtin(
        role="scheduler",
        name="PBTReplay",
        target="nnimgr.schedulers.pbt_replay:PBTReplayScheduler",
        arguments={"schedule": _schedule},
        required=("schedule",),
        file="schedule",
    ),
    Builtin(
        role="scheduler",
        name="Resources",
        target="nnimgr.schedulers.resources:ResourcesScheduler",
        arguments={"optimize_mode": optimize_mode, "total": _total, "most": integer(at_least=2)},
        required=("total",),
        resizes=True,
    ),
)
