"""Changes to the configuration of a running experiment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from nnimgr.config.goals import check_goals
from nnimgr.config.load import check_algorithm
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig
from nnimgr.config.parsing import Reading, match_key, parse, plain, validate
from nnimgr.config.problems import ConfigError, Problem, dotted
from nnimgr.config.stop_when import StopWhenConfig
from nnimgr.spelling import nearest
from training_services.units import parse_duration

__all__ = ["UPDATABLE", "apply_update", "apply_updates", "read_tuner"]

UPDATABLE = (
    "trialConcurrency",
    "maxTrialNumber",
    "maxExperimentDuration",
    "maxTrialDuration",
    "stopWhen",
    "priority",
    "searchSpace",
    "searchSpaceConstraints",
    "tuner",
)
_NEEDED = ("trialConcurrency", "searchSpace", "tuner")
_FIELDS = ExperimentConfig.model_fields.items()


def apply_update(
    config: ExperimentConfig, field: str, *, value: Any, elapsed: timedelta = timedelta(0)
) -> ExperimentConfig:
    """Return ``config`` with one field changed. ``field``: its name in any spelling that NNI accepts.

    The value None removes a limit. ``elapsed``: time that the experiment has run; a new limit must not be
    shorter. Constraints are not compared with the search space here, but in ``check_constraints``. Raise
    ConfigError.
    """
    return apply_updates(config, {field: value}, elapsed=elapsed)


def apply_updates(
    config: ExperimentConfig, changes: Mapping[str, Any], *, elapsed: timedelta = timedelta(0)
) -> ExperimentConfig:
    """Return ``config`` with several fields changed at the same time, such as tuner and search space.

    Raise ConfigError.
    """
    values: dict[str, Any] = {}
    for field, value in changes.items():
        name = next((known for known in UPDATABLE if match_key(known) == match_key(field)), None)
        if name is None:
            likely = nearest(field, UPDATABLE)
            known = any(match_key(field) in map(match_key, (at, info.alias or at)) for at, info in _FIELDS)
            sentence = "cannot be changed while an experiment runs" if known else "unknown field"
            raise _refuse(field, sentence, valid=UPDATABLE, nearest=likely)
        if value is None and name in _NEEDED:
            raise _refuse(name, "cannot be empty")
        values[name] = value
    if "searchSpace" in values:
        values["searchSpace"] = _plain_space(values["searchSpace"])
    if "tuner" in values:
        tuner = read_tuner(values["tuner"], objectives=config.objectives or {}, goal=config.goal)
        _refuse_advisors(config.tuner, tuner)
        values["tuner"] = _with_direction(tuner, config)
    reading = Reading()
    if isinstance(values.get("stopWhen"), Mapping):
        values["stopWhen"] = parse(reading, values["stopWhen"], StopWhenConfig, ("stopWhen",))
    changed: ExperimentConfig = validate(reading, ExperimentConfig, {**config.field_values(), **values})
    if reading.problems:
        raise ConfigError(reading.problems)
    if values.keys() & {"searchSpace", "tuner"}:
        _check_space(changed, replaced="searchSpace" in values)
    limit = values.get("maxExperimentDuration")
    if limit is not None and parse_duration(limit) < elapsed:
        ran = int(elapsed.total_seconds())
        sentence = f"must be more than {ran} s, because the experiment has already run for {ran} s"
        raise _refuse("maxExperimentDuration", sentence)
    return changed


def read_tuner(value: Any, *, objectives: Mapping[str, Any], goal: str | None) -> AlgorithmConfig:
    """Return the tuner for a running experiment, read from plain values. Its paths must be absolute.

    ``objectives`` and ``goal``: those of the experiment. Whether a registered or installed algorithm exists
    is not checked here. Raise ConfigError.
    """
    reading = Reading()
    fields = parse(reading, value, AlgorithmConfig, ("tuner",)) or {}
    found: AlgorithmConfig | None = None
    if not reading.problems:
        found = validate(reading, AlgorithmConfig, fields, ("tuner",))
    if found is not None:
        if found.code_directory is not None and not found.code_directory.is_absolute():
            reading.fault(("tuner", "codeDirectory"), "must be an absolute path")
        if found.builtin("tuner") is not None or found.class_name is not None:
            check_algorithm(reading, "tuner", fields, several=len(objectives) > 1)
            stated = {"objectives": dict(objectives) or None, "goal": goal}
            check_goals(reading, {"tuner": fields, **stated})
    if found is None or reading.problems:
        raise ConfigError(reading.problems)
    return found


def _with_direction(tuner: AlgorithmConfig, config: ExperimentConfig) -> AlgorithmConfig:
    """Return the new tuner. If it is built in and has no optimize mode, it gets the previous tuner's mode."""
    builtin, arguments = tuner.builtin("tuner"), tuner.class_args or {}
    if builtin is None or "optimize_mode" not in builtin.arguments or config.stated_goal:
        return tuner
    return tuner.model_copy(update={"class_args": {"optimize_mode": config.optimize_mode, **arguments}})


def _refuse_advisors(*tuners: AlgorithmConfig) -> None:
    """Raise ConfigError for an advisor, because an advisor cannot be replaced while trials run."""
    for tuner in tuners:
        advisor = tuner.builtin("tuner")
        if advisor is not None and advisor.advisor:
            sentence = (
                f"{advisor.name} is an advisor and decides itself which trials continue: it cannot replace "
                "another tuner, or be replaced, while an experiment runs"
            )
            raise _refuse("tuner", sentence)


def _plain_space(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _refuse("searchSpace", "must be a mapping of names to parameters")
    reading = Reading()
    space: dict[str, Any] = plain(reading, value, ("searchSpace",))
    if reading.problems:
        raise ConfigError(reading.problems)
    return space


def _check_space(config: ExperimentConfig, *, replaced: bool) -> None:
    """Raise ConfigError if the tuner cannot search the search space.

    A user's own tuner is not checked, because it may have its own format of search space.
    """
    from nnimgr.dispatcher import registry
    from nnimgr.search_space import SearchSpaceError
    from nnimgr.search_space import validate as validate_space

    tuner = config.tuner.builtin("tuner")
    if tuner is None:
        return
    try:
        validate_space(config.search_space)
        registry.check_space("tuner", tuner.name, config.search_space)
    except (SearchSpaceError, registry.AlgorithmError) as error:
        if replaced:
            raise ConfigError(
                [Problem(message=str(each), field=dotted(("searchSpace", *each.path))) for each in error.all]
            ) from error
        sentence = f"{tuner.name} cannot search the experiment's search space: {error}"
        raise _refuse("tuner", sentence) from error


def _refuse(field: str, message: str, **details: Any) -> ConfigError:
    return ConfigError([Problem(message=message, field=field, **details)])
