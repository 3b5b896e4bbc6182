"""Reader of studies in an Optuna storage. It uses Optuna itself, because the format belongs to Optuna."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.importing.trials import Foreigners, ForeignTrial, SourceError, Wanted
from nnimgr.rules.terms import TrialStatus

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

__all__ = ["read_optuna"]

_SQLITE = "sqlite:///"
_ENDS = {
    "COMPLETE": (TrialStatus.SUCCEEDED, "it was complete in Optuna"),
    "PRUNED": (TrialStatus.EARLY_STOPPED, "Optuna's pruner has stopped it"),
    "FAIL": (TrialStatus.FAILED, "it failed in Optuna"),
    "RUNNING": (TrialStatus.SYS_CANCELED, "it had not ended in Optuna"),
    "WAITING": (TrialStatus.SYS_CANCELED, "it had not started in Optuna"),
}
_CONSTRAINTS = "constraints"  # attribute that says by how much a trial violates each of its constraints
_MOST_CHOICES = 1000  # values of a parameter with steps that become a list of choices


def read_optuna(source: str, wanted: Wanted) -> Foreigners:
    """Read a study. ``source``: URL of a storage, or a file with an SQLite database or a journal.

    Raise SourceError.
    """
    try:
        import optuna
    except ImportError as error:
        raise SourceError(
            f"Optuna's storage is read with the package optuna, which is not installed: {error}",
            hint=f"Install it: {sys.executable} -m pip install optuna",
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = _storage(source)
        names = optuna.get_all_study_names(storage)
        study = optuna.load_study(study_name=_chosen(names, wanted.study, source), storage=storage)
        directions = [direction.name.lower() for direction in study.directions]
        trials = study.get_trials(deepcopy=False)
        objectives = _objectives(study.metric_names, wanted.metrics, len(directions))
    except SourceError:
        raise
    except Exception as error:  # Optuna and its databases have many kinds of errors
        raise SourceError(f"Optuna cannot read {source}: {type(error).__name__}: {error}") from error
    if not trials:
        raise SourceError(f"the study {study.study_name!r} in {source} has no trials")
    found: dict[str, list[BaseDistribution]] = {}  # of each parameter: a study may change it between trials
    for trial in trials:
        for name, distribution in trial.distributions.items():
            if distribution not in found.setdefault(name, []):
                found[name].append(distribution)
    return Foreigners(
        title=f"the Optuna study {study.study_name!r}",
        trials=[_trial(trial, objectives) for trial in trials],
        space={name: _spec(distributions) for name, distributions in found.items()},
        directions=dict(zip(objectives, directions, strict=True)),
    )


def _storage(source: str) -> str | BaseStorage:
    """Return what Optuna opens. An SQLite file has to exist, because Optuna would create it."""
    path = Path(source.removeprefix(_SQLITE).partition("?")[0])
    if "://" in source and not source.startswith(_SQLITE):
        return source
    try:
        with path.open("rb") as file:
            begin = file.read(16)
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read: {error.strerror}; an Optuna storage is a URL such as "
            "sqlite:///study.db, or a file"
        ) from error
    if begin.startswith(b"SQLite format 3"):
        return source if source.startswith(_SQLITE) else f"{_SQLITE}{path}"
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if not begin.startswith(b"{"):
        raise SourceError(f"{path} is neither an SQLite database nor a journal of Optuna")
    return JournalStorage(JournalFileBackend(str(path)))


def _chosen(names: Sequence[str], name: str | None, source: str) -> str:
    if not names:
        raise SourceError(f"{source} has no study")
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return str(name)
    listed = ", ".join(names[:20])
    said = f"{source} has no study {name!r}" if name else f"{source} has {len(names)} studies"
    raise SourceError(f"{said}; there are {listed}", hint="Choose a study: {command} --study NAME")


def _objectives(own: Sequence[str] | None, wanted: Sequence[str], count: int) -> list[str]:
    """Return the names of the values in a result, in the study's order. A single value has the name "".

    ``own``: their names in the study, where they have names. ``wanted``: the names that the user has given.
    """
    if wanted and len(wanted) != count:
        raise SourceError(f"the study has {count} values in a result, but {len(wanted)} names are given")
    if count == 1:
        return [""]
    if not own:
        return list(wanted) or [f"value_{at}" for at in range(count)]
    if wanted and set(wanted) != set(own):
        raise SourceError(
            f"the values in the study's results are named {', '.join(own)}, and not {', '.join(wanted)}",
            hint="Use the study's names as objectives, then repeat: {command}",
        )
    return list(own)


def _trial(trial: FrozenTrial, objectives: Sequence[str]) -> ForeignTrial:
    status, reason = _ENDS[trial.state.name]
    values = trial.values if status is TrialStatus.SUCCEEDED else None
    final: Any = None
    if values is not None:
        final = values[0] if len(values) == 1 else dict(zip(objectives, values, strict=True))
        if _is_infeasible(trial):
            reason, final = f"it violates the study's constraints; its result was {_shown(final)}", None
    began = _instant(trial.datetime_start)
    return ForeignTrial(
        name=f"trial {trial.number}",
        parameters=trial.params or trial.system_attrs.get("fixed_params") or {},
        status=status,
        reason=str(trial.system_attrs.get("fail_reason") or reason),
        final=final,
        reports=[(trial.intermediate_values[step], None) for step in sorted(trial.intermediate_values)],
        created=began,
        started=began,
        ended=_instant(trial.datetime_complete),
        rerun=status is TrialStatus.SYS_CANCELED,
    )


def _is_infeasible(trial: FrozenTrial) -> bool:
    """Return whether a trial violates a constraint. Since Optuna 5, each has an attribute of its own."""
    own = (value for name, value in trial.system_attrs.items() if name.startswith(f"{_CONSTRAINTS}:"))
    return any(amount > 0 for amount in (*own, *(trial.system_attrs.get(_CONSTRAINTS) or ())))


def _instant(found: datetime | None) -> datetime | None:
    """Return a time of Optuna, which has no time zone and is local."""
    return None if found is None else found.astimezone()


def _shown(final: Any) -> str:
    return f"{final:.6g}" if isinstance(final, float) else json.dumps(final)


def _spec(distributions: Sequence[BaseDistribution]) -> dict[str, Any]:
    """Return the entry of a search space that contains the values of all of these Optuna distributions.

    Numbers with a step become a list of choices if there are not too many. ``distributions``: those of one
    parameter in all trials. They are of one kind, and may differ in their bounds and steps.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    first = distributions[0]
    if isinstance(first, CategoricalDistribution):
        return {"_type": "choice", "_value": list(first.choices)}
    numbers = [each for each in distributions if isinstance(each, FloatDistribution | IntDistribution)]
    low, high = min(each.low for each in numbers), max(each.high for each in numbers)
    whole, log = isinstance(first, IntDistribution), numbers[0].log
    step = numbers[0].step
    if any(each.step != step or (each.low - low) % (step or 1) for each in numbers):
        step = 1 if whole else None
    if whole and not log and step == 1:
        return {"_type": "randint", "_value": [low, high + 1]}
    if step is not None and not log and (high - low) / step < _MOST_CHOICES:
        count = round((high - low) / step) + 1
        return {"_type": "choice", "_value": [low + at * step for at in range(count)]}
    kind = ("q" if whole else "") + ("loguniform" if log else "uniform")
    return {"_type": kind, "_value": [low, high, 1] if whole else [low, high]}
