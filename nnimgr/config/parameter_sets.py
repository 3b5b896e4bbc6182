"""Checks of the constraints on parameter sets, and of the initial parameter sets, in a configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.config.feasibility import BadConstraint, Feasibility, constraints_on, feasibility
from nnimgr.config.model import ExperimentConfig
from nnimgr.config.parsing import Reading
from nnimgr.config.problems import ConfigError, Problem, dotted
from nnimgr.constraints import Constraints
from nnimgr.expressions import ExpressionError

__all__ = [
    "check_constraints",
    "check_feasibility",
    "check_sets",
    "completed",
    "feasibility_of",
    "feasible_share",
    "first_misfits",
    "initial_sets",
    "is_batch",
    "misfits",
    "misfits_of_each",
    "other_misfits",
]

_CONSTRAINTS, _INITIAL = "searchSpaceConstraints", "initialParameters"
_DRAWS = 10_000
_MOST_REASONS = 3  # about one parameter set in a message


def check_sets(
    reading: Reading, config: ExperimentConfig, *, custom: bool, space_is_valid: bool
) -> Feasibility | None:
    """Report errors in constraints and initial parameter sets.

    Return the result of the check of the constraints, or None if it is unknown. ``custom``: the tuner is a
    user's class, which may have its own format of search space.
    """
    found = None
    try:
        if space_is_valid:
            found = feasibility_of(config)
        else:
            _check_apart(config)
    except BadConstraint as error:
        reading.fault((_CONSTRAINTS, error.index), str(error), nearest=error.nearest)
        return None
    for index, sentence in found.warnings if found is not None else ():
        reading.warn((_CONSTRAINTS, index), sentence)
    if space_is_valid and config.initial_parameters:
        _check_initial(reading, config, custom=custom)
    return found


def check_constraints(config: ExperimentConfig) -> None:
    """Raise ConfigError if a constraint does not fit the search space.

    This is fast, because no parameter sets are drawn.
    """
    try:
        try:
            texts = config.search_space_constraints or ()
            constraints_on(config.search_space, texts, batch=is_batch(config))
        except spaces.SearchSpaceError:
            _check_apart(config)
    except BadConstraint as error:
        raise _config_error(error) from error


def check_feasibility(config: ExperimentConfig) -> None:
    """Raise ConfigError if a constraint does not fit the search space, or too few sets meet all of them.

    This is slow, because many parameter sets are drawn.
    """
    try:
        feasibility_of(config)
    except BadConstraint as error:
        raise _config_error(error) from error


def feasibility_of(config: ExperimentConfig) -> Feasibility | None:
    """Return how many parameter sets of the search space meet the constraints.

    Return None if there are no constraints or the number cannot be known. Raise BadConstraint.
    """
    if not config.search_space_constraints:
        return None
    try:
        return feasibility(config.search_space, config.search_space_constraints, batch=is_batch(config))
    except spaces.SearchSpaceError:
        return None


def feasible_share(config: ExperimentConfig) -> float | None:
    """Return the share (from 0 to 1) of a stored configuration's search space that meets its constraints.

    Return None if it is unknown. The first call is slow.
    """
    try:
        found = feasibility_of(config)
    except BadConstraint:
        return None
    return None if found is None else found.share


def _check_apart(config: ExperimentConfig) -> None:
    """Check each constraint by itself, because the search space is in a user's own format.

    Raise BadConstraint.
    """
    for index, text in enumerate(config.search_space_constraints or ()):
        try:
            Constraints([text])
        except ExpressionError as error:
            raise BadConstraint(index, str(error), nearest=error.nearest) from error


def _config_error(error: BadConstraint) -> ConfigError:
    field = dotted((_CONSTRAINTS, error.index))
    return ConfigError([Problem(message=str(error), field=field, nearest=error.nearest)])


# Initial parameter sets


def initial_sets(config: ExperimentConfig, seed: int) -> list[dict[str, Any]]:
    """Return the initial parameter sets, with values drawn for the parameters that they leave out.

    The random numbers come from the tuner's seed, or from ``seed`` if the tuner has none.
    """
    own = (config.tuner.class_args or {}).get("seed")
    seed = own if isinstance(own, int) else seed
    return completed(config, config.initial_parameters or [], seed=f"{seed}/initial")


def completed(
    config: ExperimentConfig, sets: Iterable[Mapping[str, Any]], *, seed: str
) -> list[dict[str, Any]]:
    """Return parameter sets with values drawn for the parameters that they leave out.

    A set with a value outside of the search space stays as it is.
    """
    found = [dict(parameters) for parameters in sets]
    try:
        space = spaces.parse(config.search_space)
    except spaces.SearchSpaceError:  # a user's tuner has its own form of search space
        return found
    constraints = Constraints(config.search_space_constraints or ())
    for index, parameters in enumerate(found):
        filled, own = None, _of_the_space(config, parameters)
        if not spaces.contains(space, own, partial=True):
            filled = _fill(space, own, constraints, Random(f"{seed}/{index}"))
        if filled is not None:
            added = {name: value for name, value in parameters.items() if name not in own}
            found[index] = {**filled, **added}
    return found


def _of_the_space(config: ExperimentConfig, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter set without the entries that the tuner itself adds, such as a budget."""
    tuner = config.tuner.builtin("tuner")
    added = () if tuner is None else tuner.adds
    return {name: value for name, value in parameters.items() if name not in added}


def is_batch(config: ExperimentConfig) -> bool:
    """Return whether the search space is a list of whole parameter sets, as for the tuner Batch."""
    tuner = config.tuner.builtin("tuner")
    return tuner is not None and tuner.name == "Batch"


def misfits(config: ExperimentConfig, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return sentences about values of a wrong type, and about other values outside of the search space.

    A search space that is not in NNI's format is not checked.
    """
    if is_batch(config):
        return [], []
    try:
        space = spaces.parse(config.search_space)
    except spaces.SearchSpaceError:
        return [], []
    own = _of_the_space(config, parameters)
    return spaces.wrong_types(space, own), spaces.contains(space, own, partial=True)


def misfits_of_each(config: ExperimentConfig, sets: Iterable[Any]) -> Iterator[Sequence[str]]:
    """Yield sentences about what is not in the search space, for each of many whole parameter sets.

    A search space that is not in NNI's format is not checked.
    """
    space = None
    if not is_batch(config):
        with contextlib.suppress(spaces.SearchSpaceError):
            space = spaces.parse(config.search_space)
    for parameters in sets:
        own = _of_the_space(config, parameters) if isinstance(parameters, Mapping) else parameters
        yield () if space is None else spaces.contains(space, own)


def first_misfits(reasons: Sequence[str]) -> str:
    """Return the first sentences about what is not in the search space, and how many follow."""
    hidden = len(reasons) - _MOST_REASONS
    return "; ".join(reasons[:_MOST_REASONS]) + (f"; and {hidden} more" if hidden > 0 else "")


def other_misfits(count: int, what: str) -> str:
    """Return a sentence about ``count`` others that do not fit the search space, after a space; "" for none.

    ``what``: "trial" or "result".
    """
    if not count:
        return ""
    return (
        f" Another {what} does not fit it either."
        if count == 1
        else f" {count} other {what}s do not fit it either."
    )


def _fill(
    space: spaces.Space, parameters: Mapping[str, Any], constraints: Constraints, rng: Random
) -> dict[str, Any] | None:
    """Return a parameter set that has these values and meets the constraints, or None if none is found.

    The other values are drawn from the search space.
    """
    for _ in range(_DRAWS):
        filled = spaces.fill(space, parameters, rng)
        if constraints.feasible(filled):
            return filled
    return None


def _check_initial(reading: Reading, config: ExperimentConfig, *, custom: bool) -> None:
    if is_batch(config):
        reading.fault(
            (_INITIAL,), "the tuner Batch only runs sets of its search space: put initial sets there"
        )
        return
    space = spaces.parse(config.search_space)
    constraints = Constraints(config.search_space_constraints or ())
    for index, whole in enumerate(config.initial_parameters or ()):
        parameters = _of_the_space(config, whole)
        if any(known.field.startswith(dotted((_INITIAL, index))) for known in reading.problems):
            continue  # a value without a JSON form, which was reported before
        outside = _outside(space, parameters)
        for name, sentence in outside:
            path = (_INITIAL, index, name)
            if custom:
                reading.warn(path, sentence)
            else:
                reading.fault(path, sentence)
        if outside:
            continue
        complaint = constraints.complaint(parameters)
        if complaint is None and _fill(space, parameters, constraints, Random(index)) is None:
            complaint = (
                f"none of {_DRAWS:,} sets with these values and others drawn at random meets the constraints"
            )
        if complaint is not None:
            reading.fault((_INITIAL, index), complaint)


def _outside(space: spaces.Space, parameters: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the values that are not in the search space, each as a parameter's name and a sentence."""
    found = []
    for name, value in parameters.items():
        found += [(name, sentence) for sentence in spaces.contains(space, {name: value}, partial=True)]
    return found
