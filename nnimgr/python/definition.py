"""Experiment: the definition of a search in Python, equal to an ``exp.yml``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.python import space as spaces
from nnimgr.python.arguments import checks_arguments
from nnimgr.python.errors import ArgumentConflict, ArgumentError, Error, argument_of
from nnimgr.python.options import Goal, Ship, algorithm_field, conditions_of, duration_of
from nnimgr.python.trainable import (
    Trainable,
    Work,
    check_command,
    check_guard,
    check_reset,
    refuse_inside_a_trial,
    work_of,
)

if TYPE_CHECKING:
    from nnimgr.python.running import Run

__all__ = [
    "Experiment",
    "defaulted_fields",
    "goal_fields",
    "id_of",
    "merged_config",
    "plain_config",
    "plain_number",
]

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
# Fields as the default arguments set them. ``config`` may have other values for them.
_DEFAULTS = {
    "trialConcurrency": 1,
    "tuner": {"name": "TPE"},
    "trainingService": {"platform": "local"},
}
_OPPOSITES = {"maximize": ("minimum", "minimize"), "minimize": ("maximum", "maximize")}
_FROM_TRIAL = ("trialCommand", "trialCodeDirectory")  # made from the argument ``trial``


class Experiment:
    """Definition of an experiment. The arguments are those of ``tune``::

        experiment = Experiment(train, {"lr": space.loguniform(1e-5, 0.1)}, maximize="accuracy", trials=50)
        run = experiment.start()

    ``name``: the experiment's name, or None.
    """

    @checks_arguments
    def __init__(
        self,
        trial: Trainable,
        space: Mapping[str, Any],
        *,
        maximize: Goal = None,
        minimize: Goal = None,
        trials: int | None = None,
        at_once: int | None = None,
        hours: float | None = None,
        tuner: str | Mapping[str, Any] = "TPE",
        assessor: str | Mapping[str, Any] | None = None,
        scheduler: str | Mapping[str, Any] | None = None,
        constraints: str | Sequence[str] | None = None,
        initial: Sequence[Mapping[str, Any]] | None = None,
        gpus: float | str | None = None,
        cpus: float | str | None = None,
        memory: str | int | Mapping[str, Any] | None = None,
        machines: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None = None,
        checkpoints: int | Mapping[str, Any] | None = None,
        retries: int | Mapping[str, Any] | None = None,
        stop: Mapping[str, Any] | None = None,
        processes: int | str | None = None,
        preload: Sequence[str] | None = None,
        resident: bool = False,
        confirm_best: int | Mapping[str, Any] | None = None,
        sinks: Sequence[str | Mapping[str, Any]] | None = None,
        name: str | None = None,
        ship: Ship = "path",
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._work: Work | None = work_of(trial, ship=ship)
        if resident:
            check_reset(trial)
        fields: dict[str, Any] = {
            "experimentName": name,
            "searchSpace": spaces.plain(space),
            "searchSpaceConstraints": conditions_of(constraints),
            "initialParameters": None if initial is None else [dict(each) for each in initial],
            "trialCodeDirectory": str(self._work.directory),
            "trialConcurrency": at_once,
            "maxTrialNumber": trials,
            "maxExperimentDuration": None if hours is None else duration_of(hours),
            "trialGpuNumber": gpus,
            "trialCpuNumber": cpus,
            "trialMemorySize": memory,
            **goal_fields(maximize, minimize),
            "tuner": algorithm_field(tuner, seed=seed),
            "assessor": algorithm_field(assessor),
            "scheduler": algorithm_field(scheduler),
            "trainingService": _service(machines),
            "checkpoints": {"keepLast": checkpoints} if isinstance(checkpoints, int) else checkpoints,
            "maxRetries": retries,
            "stopWhen": stop,
            "gang": None if processes is None else {"processes": processes},
            "preload": None if preload is None else _modules(preload),
            "resident": resident or None,
            "confirmBest": {"top": confirm_best} if isinstance(confirm_best, int) else confirm_best,
            "sinks": None if sinks is None else [algorithm_field(each) for each in sinks],
        }
        given = {field: value for field, value in fields.items() if value is not None}
        is_local = given["trainingService"].get("platform") == "local"
        if is_local:
            check_command(trial)
        given["trialCommand"] = self._work.command_for(sys.executable if is_local else "python3")
        merged = merged_config(given, config, defaults=_DEFAULTS)
        self._defaulted: Collection[str] = defaulted_fields(merged, _DEFAULTS)
        self._config: dict[str, Any] = {"trialConcurrency": _DEFAULTS["trialConcurrency"], **merged}
        _leave_busy_gpus(self._config)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Experiment:
        """Return the experiment that a configuration file describes. Raise ArgumentError with all errors."""
        from nnimgr.config import ConfigError, load_config

        try:
            loaded = load_config(Path(path)).config
        except ConfigError as error:
            raise ArgumentError(str(error)) from None
        found = cls.__new__(cls)
        found.name = loaded.experiment_name
        found._work = None
        found._config, found._defaulted = loaded.canonical(), ()
        return found

    def __repr__(self) -> str:
        return f"<Experiment {self.name or ''}: {self._config['trialCommand']}>"

    def yaml(self) -> str:
        """Return the definition as the text of an ``exp.yml``, for ``nnictl create``.

        Raise Error if the function is sent by value: then it is in no file that an ``exp.yml`` can name.
        """
        import yaml

        if self._work is not None and self._work.pickled is not None:
            raise Error('The function is in no file that an exp.yml could name, because of ship="pickle".')

        text: str = yaml.safe_dump(self._config, sort_keys=False, allow_unicode=True)
        return text

    def start(self, *, server: int | None = None) -> Run:
        """Start the experiment, and return when its creation is stored.

        ``server``: the port of the server. Default: a server that runs, or a new one. If an experiment with
        this name exists, it is continued instead, and gets the present limits. Raise ArgumentError for each
        argument that cannot be used, and Error.
        """
        from nnimgr.python.starting import start

        refuse_inside_a_trial()
        pickled = None
        if self._work is not None:
            check_guard(self._work)
            pickled = self._work.pickled
        return start(self._config, id_of(self.name), port=server, pickled=pickled, defaulted=self._defaulted)


def id_of(name: str | None) -> str | None:
    """Return the id of the experiment with this name. So two programs cannot create two of them.

    Raise ArgumentError if the name is empty.
    """
    if name == "":
        raise ArgumentError("name: must not be empty; leave it out for a new experiment without a name")
    if name is None or _ID.fullmatch(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:22].strip("-")
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")


def goal_fields(maximize: Goal, minimize: Goal) -> dict[str, Any]:
    """Return the fields that say which results are better. Raise ArgumentError."""
    given = {"maximize": maximize, "minimize": minimize}
    chosen = {mode: goal for mode, goal in given.items() if goal not in (None, False)}
    refused = [mode for mode, goal in given.items() if goal is False]
    if not chosen and len(refused) == 1:
        extreme, opposite = _OPPOSITES[refused[0]]
        raise ArgumentError(
            f"{refused[0]}: False does not say which results are better. "
            f"For a {extreme} write {opposite}=True"
        )
    if not chosen:
        raise ArgumentError(
            "maximize, minimize: give one of them: maximize=True if the result of a trial is one number, "
            'maximize="accuracy" if it has a metric with this name'
        )
    if len(chosen) == 1 and True in chosen.values():
        return {"goal": next(iter(chosen))}
    if len(chosen) > 1 and True in chosen.values():
        raise ArgumentConflict(
            "maximize, minimize: give only one of them for a result that is one number. For several metrics, "
            'name all of them: maximize="accuracy", minimize="loss"'
        )
    objectives: dict[str, str] = {}
    for mode, goal in chosen.items():
        names = [goal] if isinstance(goal, str) else goal
        if isinstance(names, bool) or not isinstance(names, Sequence):
            raise ArgumentError(f"{mode}: must be the name of a metric, not {goal!r}")
        for name in names:
            if name in objectives:
                raise ArgumentError(f"{mode}: the metric {name!r} is given twice")
            objectives[str(name)] = mode
    return {"objectives": objectives}


def _modules(preload: Sequence[str]) -> list[str]:
    if isinstance(preload, str):
        raise ArgumentError(f'preload: must be a list of modules, such as ["{preload}"]')
    return list(preload)


def _service(machines: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the training service that the argument ``machines`` means.

    None is this machine, a list has machines over SSH, and a mapping is a training service as in ``exp.yml``.
    """
    if machines is None:
        return {"platform": "local"}
    if isinstance(machines, Mapping):
        return dict(machines)
    if isinstance(machines, str) or not isinstance(machines, Sequence) or not machines:
        raise ArgumentError(
            'machines: must be a list of machines over SSH, such as ["alice@gpu1", "gpu2:2222"]'
        )
    return {"platform": "remote", "machineList": [_machine(each) for each in machines]}


def _leave_busy_gpus(config: Mapping[str, Any]) -> None:
    """Let trials on this machine use no GPU that other processes use, unless the configuration says so.

    This is the default for machines over SSH. In an ``exp.yml``, users must choose, as in NNI.
    """
    services = config["trainingService"]
    for service in services if isinstance(services, list) else [services]:
        if not isinstance(service, dict):
            continue
        asks = config.get("trialGpuNumber") or service.get("trialGpuNumber")
        if asks and service.get("platform") == "local" and "use_active_gpu" not in service:
            service.setdefault("useActiveGpu", False)


def _machine(given: str | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, str):
        return dict(given)
    user, _, place = given.rpartition("@")
    host, _, port = place.partition(":")
    found: dict[str, Any] = {"host": host}
    if user:
        found["user"] = user
    if port:
        if not port.isdigit():
            raise ArgumentError(f"machines: {given!r} is not of the form user@host:port")
        found["port"] = int(port)
    return found


def merged_config(
    given: Mapping[str, Any], config: Mapping[str, Any] | None, *, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that the arguments have given, and those of the argument ``config``.

    ``defaults``: values of fields that may be from default arguments. ``config`` may replace them, and the
    fields that the argument ``trial`` gives. Raise ArgumentConflict if ``config`` has another value for any
    other field that an argument gives.
    """
    fields, others = plain_config(dict(given)), plain_config(dict(config or {}))
    for field, value in others.items():
        if field in _FROM_TRIAL or field not in fields or value == fields[field]:
            continue
        if field not in defaults or fields[field] != defaults[field]:
            other, argument = json.dumps(fields[field]), _argument(field, fields[field])
            raise ArgumentConflict(
                f"config.{field}: is {json.dumps(value)}, but {other} follows from {argument}; "
                "leave one of them out"
            )
    return {**fields, **others}


def defaulted_fields(merged: Mapping[str, Any], defaults: Mapping[str, Any]) -> set[str]:
    """Return the fields that no argument has given, as far as their values show it."""
    return {field for field, value in defaults.items() if merged.get(field, value) == value} - (
        {"trialConcurrency"} & merged.keys()  # its argument has no default value
    )


def _argument(field: str, value: Any) -> str:
    """Return the argument that has given a field this value."""
    if field == "goal":
        return str(value)
    return " and ".join(dict.fromkeys(value.values())) if field == "objectives" else argument_of(field)


def plain_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with JSON values only. Numbers of numpy become plain. Raise ArgumentError."""
    found: dict[str, Any] = {}
    for field, value in config.items():
        try:
            found[field] = json.loads(json.dumps(value, default=plain_number))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{argument_of(field)}: {error}") from None
        _refuse_infinite(field, found[field])
    return found


def plain_number(value: Any) -> Any:
    """Return a scalar of numpy as a number, and a path as text."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored: {value!r}")


def _refuse_infinite(field: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentError(f"{argument_of(field)}: must be a finite number, not {value}")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _refuse_infinite(field, inner)
