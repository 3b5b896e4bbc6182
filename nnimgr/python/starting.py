"""Start of an experiment from Python: it is created, or the experiment with the same name is continued."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.client.errors import ApiError, ClientError
from nnimgr.client.experiments import ended_if_refused, post_experiment, refuse_nni, surroundings
from nnimgr.client.servers import ServerStart
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry, new_experiment_id
from nnimgr.python.connection import Connection, chosen_port
from nnimgr.python.errors import ArgumentError, argument_of, translated, warn
from nnimgr.python.running import Run
from nnimgr.spelling import not_utf8
from training_services.keepers.names import ASK, NO_COMMAND

if TYPE_CHECKING:
    from nnimgr.python.pickling import Pickled

__all__ = ["start"]

# Fields that must be equal if an experiment is continued -> what to call them in an error.
_SAME = {
    "searchSpace": ("space", "Run.attach({name!r}).update(space=...)"),
    "objectives": ("goal", ""),
    "goal": ("goal", ""),
    "trialCommand": ("function", ""),
    "trialCodeDirectory": ("folder of its code", ""),
}
_OF_TRIALS = ("trialCommand", "trialCodeDirectory")
# Fields that say where trials run. They may hold secrets, which are stored elsewhere.
_OF_HOSTS = ("trainingService", "experimentWorkingDirectory")
_PICKLES = "function"  # folder in the experiment's folder
_LIMITS = ("trialConcurrency", "maxTrialNumber", "maxExperimentDuration")


def start(
    config: Mapping[str, Any],
    experiment_id: str | None,
    *,
    port: int | None,
    pickled: Pickled | None,
    defaulted: Collection[str] = (),
) -> Run:
    """Create an experiment, or continue the experiment with this id or name.

    ``experiment_id``: None gives a new experiment. ``port``: that of the server; None: the best one.
    ``pickled``: function that the trials get by value. Its file is written into the experiment's folder.
    ``defaulted``: fields that no argument has given. An existing experiment keeps its own values of them.
    """
    if port is not None and not (type(port) is int and 0 < port < 65536):
        raise ArgumentError(f"server: must be a port number, such as 8080, not {port!r}")
    home = Home.find()
    with translated():
        refuse_nni()
        entries = Index(home).entries()
        known = (
            None if experiment_id is None else _known(entries, experiment_id, config.get("experimentName"))
        )
        if known is None:
            chosen = experiment_id or new_experiment_id(entries)
            sent = {"experimentWorkingDirectory": str(home.path), **config}
            _check_names(sent)
            folder = Path(sent["experimentWorkingDirectory"]).expanduser().absolute() / chosen / _PICKLES
            if pickled is not None:
                pickled.write(folder)
                sent["trialCodeDirectory"] = str(folder)
            try:
                _create(home, sent, chosen, port=port or chosen_port(home))
                return Run(Connection(home, chosen), after=0)
            except ClientError as error:
                known = Index(home).get(chosen)
                if known is None and pickled is not None and isinstance(error, ApiError):
                    _remove(folder)  # after any other error, the server may still create the experiment
                if known is None or experiment_id is None:
                    raise
                # Another program has created it at the same time.
    connection = Connection(home, known.id)
    given = {field: value for field, value in config.items() if field not in defaulted}
    if pickled is None:
        return _continued(connection, given)
    # The present function replaces the earlier one, as an edited file would.
    folder = known.directory / _PICKLES
    return _continued(
        connection, {**given, "trialCodeDirectory": str(folder)}, checked=lambda: pickled.write(folder)
    )


def _check_names(config: Mapping[str, Any]) -> None:
    """Raise ArgumentError if the name of a directory is not UTF-8."""
    for field in ("trialCodeDirectory", "experimentWorkingDirectory"):
        if (sentence := not_utf8(str(config.get(field, "")))) is not None:
            raise ArgumentError(f"{argument_of(field)}: {sentence}")


def _remove(folder: Path) -> None:
    """Remove the pickle of an experiment that was not created, and the experiment's folder if it is empty."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def _known(entries: Mapping[str, IndexEntry], experiment_id: str, name: Any) -> IndexEntry | None:
    """Return the experiment with this id, or else the newest one with this name."""
    named = [entry for entry in entries.values() if entry.name == name]
    return entries.get(experiment_id) or (named[-1] if named else None)


def _create(home: Home, config: Mapping[str, Any], experiment_id: str, *, port: int) -> None:
    sent = {**config}
    space = sent.pop("searchSpace")
    body = {"config": sent, "searchSpace": space, "id": experiment_id, **surroundings()}
    with ended_if_refused(home, port):
        with ServerStart(home, port) as starting:
            client = starting.client()
        post_experiment(home, client, body, url_prefix=None)


def _continued(
    connection: Connection, config: Mapping[str, Any], *, checked: Callable[[], None] = lambda: None
) -> Run:
    """Attach to an experiment, and let it continue with the limits of this configuration if it has ended.

    ``checked`` is called when it is certain that the configuration is that of the experiment.
    """
    profile = connection.get()
    stored = {**profile["config"], "searchSpace": profile["searchSpace"]}
    name = profile["name"] or connection.id
    is_study = _is_asked(stored) and config.get("trialCommand") == NO_COMMAND
    for field, (argument, change) in _SAME.items():
        if is_study and field in _OF_TRIALS:
            continue  # its trials are no processes
        if _compared(field, stored.get(field)) != _compared(field, config.get(field)):
            hint = f" Or change it: {change.format(name=name)}" if change else ""
            what = f"exists with another {argument}"
            if field == "trialCommand":
                what = f"runs {_function(stored)}, and this call gives {_function(config)}"
            raise ArgumentError(f"name: experiment {name!r} {what}. Give this one another name.{hint}")
    if profile["status"] == "VIEWED":
        raise ArgumentError(
            f"name: experiment {name!r} is open for reading. End that first: Run.attach({name!r}).stop()"
        )
    checked()
    if unused := _unused(stored, config):
        warn(
            f"experiment {name!r} exists already, with other values than this call gives for: "
            f"{', '.join(unused)}. It keeps its own. Give this one another name, or change what can be "
            f"changed: Run.attach({name!r}).update(...)"
        )
    given = {field: config[field] for field in _LIMITS if config.get(field) is not None}  # others stay
    changes = {field: value for field, value in given.items() if value != stored.get(field)}
    if profile["status"] in ("STOPPED", "ERROR") or (changes and not profile["served"]):
        Run(connection).resume()
        profile = connection.get()
    if changes:
        profile = connection.change(changes)
    return Run(connection, ended=_ended_already(profile, name) if profile["status"] == "DONE" else "")


def _function(config: Mapping[str, Any]) -> str:
    """Return what the trials run: a function with its file, or else the whole command."""
    command = str(config.get("trialCommand"))
    if command == NO_COMMAND:
        return "no trials of its own, because it is a Study"
    return command.rpartition(" ")[2] if "-m nni.run " in command else command


def _ended_already(profile: Mapping[str, Any], name: str) -> str:
    """Return a sentence that nothing is run, because the experiment has ended with its present limits."""
    from nnimgr.cli.limits import used_up
    from nnimgr.cli.progress import created_trials

    count, limit = created_trials(profile), used_up(profile)
    if limit == "trialnum":
        what_helps = f"For more: trials={2 * max(count, profile['limits']['maxTrialNumber'])}"
    elif limit == "duration":
        what_helps = f"For more: hours={2 * profile['durationS'] / 3600:.2g}"
    else:
        what_helps = f"Why: {profile['reason']}"
    trials = "1 trial" if count == 1 else f"{count} trials"
    return f"{name} has ended already, with {trials}: nothing was run. {what_helps}"


def _unused(stored: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Return the arguments of this call whose values are not those of the experiment, and are not used."""
    from nnimgr.config import ConfigError, read_canonical

    asked = _is_asked(stored)
    ignored = (*_SAME, *_LIMITS, *(() if asked else _OF_HOSTS))
    others = {field: value for field, value in config.items() if field not in ignored}
    try:
        wanted = read_canonical({**stored, **others}).canonical()
    except ConfigError:
        return []  # the values of this call do not go with those of the experiment, which hold
    other = [field for field in others if wanted.get(field) != stored.get(field)]
    return ["lease" if asked and field == "trainingService" else argument_of(field) for field in other]


def _compared(field: str, value: Any) -> Any:
    """Return what has to be equal: of a command that runs a function, all but the interpreter. A folder may
    have several names.
    """
    if not isinstance(value, str):
        return value
    if field == "trialCodeDirectory":
        return os.path.realpath(value)
    return value.partition(" -m nni.run ")[2] or value


def _is_asked(config: Mapping[str, Any]) -> bool:
    service = config.get("trainingService")
    return isinstance(service, Mapping) and service.get("platform") == ASK
