"""Changes to the configuration of an experiment that runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from nnimgr.config.model import ExperimentConfig
from nnimgr.config.problems import ConfigError, Problem, dotted, nearest
from nnimgr.config.shape import Reading, match_key, plain, validate
from training_services.units import parse_duration

__all__ = ["UPDATABLE", "apply_update"]

UPDATABLE = (
    "trialConcurrency",
    "maxTrialNumber",
    "maxExperimentDuration",
    "maxTrialDuration",
    "searchSpace",
    "searchSpaceConstraints",
)


def apply_update(
    config: ExperimentConfig, field: str, *, value: Any, elapsed: timedelta = timedelta(0)
) -> ExperimentConfig:
    """``config`` with ``field`` (any spelling that NNI matches) set to ``value``; None lifts a limit.

    Whether constraints and search space go together is looked at when all fields are changed
    (``check_constraints``). ``elapsed`` is how long the experiment has run: no limit may lie before that.
    Raises ConfigError.
    """
    name = next((known for known in UPDATABLE if match_key(known) == match_key(field)), None)
    if name is None:
        likely = nearest(field, UPDATABLE)
        raise _refuse(field, "cannot be changed while an experiment runs", valid=UPDATABLE, nearest=likely)
    if value is None and name in ("trialConcurrency", "searchSpace"):
        raise _refuse(name, "cannot be empty")
    if name == "searchSpace":
        value = _checked_space(config, value)
    reading = Reading()
    changed = validate(reading, ExperimentConfig, {**config.field_values(), name: value})
    if reading.problems:
        raise ConfigError(reading.problems)
    if name == "maxExperimentDuration" and value is not None and parse_duration(value) < elapsed:
        raise _refuse(name, f"the experiment has already run for {int(elapsed.total_seconds())} s")
    return changed  # type: ignore[no-any-return]


def _checked_space(config: ExperimentConfig, value: Any) -> dict[str, Any]:
    from nnimgr.dispatcher import registry
    from nnimgr.search_space import SearchSpaceError
    from nnimgr.search_space import validate as validate_space

    if not isinstance(value, Mapping):
        raise _refuse("searchSpace", "must be a mapping of names to parameters")
    reading = Reading()
    space: dict[str, Any] = plain(reading, value, ("searchSpace",))
    if reading.problems:
        raise ConfigError(reading.problems)
    if config.tuner.name is not None and registry.is_builtin("tuner", config.tuner.name):
        # A user's own tuner may read a space in its own way.
        try:
            validate_space(space)
            registry.check_space("tuner", config.tuner.name, space)
        except (SearchSpaceError, registry.AlgorithmError) as error:
            raise _refuse(dotted(("searchSpace", *error.path)), str(error)) from error
    return space


def _refuse(field: str, message: str, **details: Any) -> ConfigError:
    return ConfigError([Problem(message=message, field=field, **details)])
