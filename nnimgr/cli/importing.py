"""``nnictl experiment import --from``: trials that other programs have run."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import load
from nnimgr.cli.results import give_to_tuner, import_data
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting
from nnimgr.home import Home, HomeError
from nnimgr.objectives import DEFAULT
from nnimgr.rules.terms import TrialStatus
from nnimgr.spelling import capital

if TYPE_CHECKING:
    from nnimgr.config import ExperimentConfig
    from nnimgr.importing.trials import Foreigners

__all__ = ["import_trials"]

_MOST_RECORDS = 100_000  # the server's limit for one request


def import_trials(args: argparse.Namespace, terminal: Terminal) -> int:
    """Import the trials of a source, or pass results from a file of NNI to a tuner."""
    if args.kind is None:
        for name in ("to", "config", "metric", "parameters", "study", "goal"):
            if getattr(args, name) is not None:
                raise ClientError(f"--{name} goes with --from, not with --filename.")
        return import_data(args, terminal)
    if args.id is None:
        raise ClientError(
            "The source is missing: a file, a folder or a URL.",
            mend=f"For example: nnictl experiment import --from {args.kind} SOURCE",
        )
    if args.to is not None:
        return _to_tuner(args, terminal)
    return _to_new_experiment(args, terminal)


def _to_tuner(args: argparse.Namespace, terminal: Terminal) -> int:
    """Pass the results of the source's successful trials to the tuner of a running experiment.

    Results that are not finite are left out, because a tuner cannot use them.
    """
    from nnimgr.importing.trials import expressible

    for name in ("config", "goal"):
        if getattr(args, name) is not None:
            raise ClientError(f"--{name} is for a new experiment: leave out --to or --{name}.")
    home = Home.find()
    entry = select(home, args.to, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    profile = client.get("experiments", entry.id)
    found = _read(args, profile["searchSpace"], profile["config"].get("objectives"))
    _refuse_other_goal(profile["config"], found, f"experiment {entry.id}")
    records, left = [], []
    for trial in found.trials:
        if trial.status is not TrialStatus.SUCCEEDED:
            continue
        if expressible(trial.final) == trial.final is not None:
            records.append({"parameter": expressible(trial.parameters), "value": trial.final})
        else:
            left.append(trial.name)
    if not records:
        raise ClientError(
            f"No trial in {found.title} has succeeded with a result: nothing was imported.", mend=""
        )
    if len(records) > _MOST_RECORDS:
        raise ClientError(
            f"{found.title} has {len(records)} results; at most {_MOST_RECORDS} can be given to a tuner.",
            mend="Create a new experiment with all of them: leave out --to",
        )
    if left:
        others = f" and {len(left) - 1} more" if left[1:] else ""
        terminal.warn(f"Left out, because the result is missing or not finite: trial {left[0]}{others}.")
    return give_to_tuner(client, entry.id, records, terminal)


def _to_new_experiment(args: argparse.Namespace, terminal: Terminal) -> int:
    """Create a stopped experiment with the source's trials."""
    from nnimgr.importing.experiment import create_imported, shown_config, with_whole_reruns
    from nnimgr.importing.trials import SourceError
    from nnimgr.store.errors import StoreError
    from nnimgr.store.reader import ExperimentReader

    if args.config is not None and args.goal is not None:
        raise ClientError("Give --goal or --config, not both: the configuration names the better results.")
    home = Home.find()
    config: ExperimentConfig | None = None
    if args.config is not None:
        config = load(args.config, terminal).config
        found = with_whole_reruns(config, _read(args, config.search_space, config.objectives))
        _refuse_other_goal(config.canonical(), found, args.config)
        misfits = _misfits(config, found)
    else:
        found, misfits = _read(args, None, None), None
    try:
        with waiting(f"importing the trials ({len(found.trials)})"):
            chosen = config or shown_config(home, found, _directions(args, found, terminal))
            entry = create_imported(home, chosen, found)
    except SourceError as error:
        raise _told(error, args.id) from error
    except (StoreError, HomeError, OSError) as error:
        raise ClientError(f"The trials cannot be imported: {error}.", mend="") from error
    count = len(found.trials)
    with closing(ExperimentReader(entry.directory)) as reader:
        without = reader.count_without_result(chosen.canonical())
    terminal.info(f"Experiment {entry.id} was created with {_counted(count)} from {found.title}.")
    if misfits is not None:
        terminal.warn(misfits)
    if without:
        verb = "has" if without == 1 else "have"
        terminal.warn(f"{without} of them {verb} no usable result (see why: nnictl trial ls {entry.id})")
    terminal.info(f"Show it: nnictl view {entry.id}")
    if config is None:
        terminal.info("This experiment only shows the trials. To create one that continues from them:")
        terminal.info(f"{_again(args)} --config FILE")
    else:
        terminal.info(f"Continue it: nnictl resume {entry.id}")
        if config.initial_parameters:
            terminal.info("The resume first runs those of initialParameters that were not imported.")
        if config.max_trial_number is not None and config.max_trial_number <= count:
            terminal.warn(
                f"maxTrialNumber ({config.max_trial_number}) is used up, because imported trials count. "
                f"After the resume, raise it: nnictl update trialnum {entry.id} --value {count + 10}"
            )
    if terminal.as_json:
        terminal.json({"id": entry.id, "directory": str(entry.directory), "trials": count})
    return 0


def _refuse_other_goal(config: Mapping[str, Any], found: Foreigners, place: str) -> None:
    """Raise ClientError if the goal of a configuration contradicts that of the source.

    ``place``: where the configuration is.
    """
    from nnimgr.importing.experiment import goal_fault

    if (fault := goal_fault(config, found)) is not None:
        raise ClientError(
            f"{capital(fault)}; nothing is imported.",
            mend=f"Correct the goal in {place}, then repeat: {{command}}",
        )


def _misfits(config: ExperimentConfig, found: Foreigners) -> str | None:
    """Return a sentence about the trials whose parameters are outside of the search space, or None.

    Raise ClientError for a value of a wrong type, which its parameter can never have.
    """
    from nnimgr.config.parameter_sets import first_misfits, misfits, misfits_of_each, other_misfits

    outside = []
    each_set = misfits_of_each(config, (trial.parameters for trial in found.trials))
    for trial, reasons in zip(found.trials, each_set, strict=True):
        named = f"{capital(trial.name)} of {found.title}"
        if reasons and (wrong := misfits(config, trial.parameters)[0]):
            raise ClientError(
                f"{named}: {wrong[0]}; nothing is imported.",
                mend="Correct the source or the search space, then repeat: {command}",
            )
        if reasons:
            outside.append(f"{named} does not fit the search space: {first_misfits(reasons)}")
    if not outside:
        return None
    return f"{outside[0]}.{other_misfits(len(outside) - 1, 'trial')}"


def _read(
    args: argparse.Namespace, space: Mapping[str, Any] | None, objectives: Mapping[str, str] | None
) -> Foreigners:
    """Read the source. ``space``, ``objectives``: of the experiment that gets the trials; None: unknown.

    Raise ClientError if the source cannot be read, or lacks a parameter of the search space.
    """
    from nnimgr.importing.sources import read_source
    from nnimgr.importing.trials import SourceError, Wanted

    named = tuple(name for name in (args.parameters or "").split(",") if name)
    wanted = Wanted(
        metrics=tuple(args.metric or objectives or ()),
        named=bool(args.metric),
        parameters=named or tuple(space or ()),
        space=space or {},
        study=args.study,
    )
    try:
        with waiting(f"reading {args.id}"):
            found = read_source(args.kind, args.id, wanted)
    except SourceError as error:
        raise _told(error, args.id) from error
    _refuse_unnamed_metrics(found, wanted.metrics)
    present = {name: None for trial in found.trials for name in trial.parameters}
    missing = [name for name in space or () if name not in present]
    if missing:
        raise ClientError(
            f"The trials in {found.title} have no parameter {missing[0]!r}, which the search space has; they "
            f"have {', '.join(present)}.",
            mend="Rename the parameters in the search space, so that both agree.",
        )
    return found


def _refuse_unnamed_metrics(found: Foreigners, named: Sequence[str]) -> None:
    """Raise ClientError if all results have several numbers, and nothing says which are to be optimized."""
    results = [trial.final for trial in found.trials if trial.final is not None]
    if named or found.directions or not results:
        return
    if all(isinstance(result, Mapping) and DEFAULT not in result for result in results):
        names = list(dict.fromkeys(name for result in results for name in result))
        raise ClientError(
            f"The trials in {found.title} have reported {', '.join(names)}, and nothing says what is to be "
            "optimized.",
            mend=f"Name it: {{command}} --metric {shlex.quote(str(names[0]))}",
        )


def _directions(args: argparse.Namespace, found: Foreigners, terminal: Terminal) -> Mapping[str, str]:
    """Return the direction of each number in a result. Warn if nothing states it.

    Raise ClientError if --goal contradicts the source.
    """
    for name, direction in found.directions.items():
        if args.goal not in (None, direction):
            which = f" for {name}" if name else ""
            raise ClientError(
                f"{capital(found.title)} states {direction}{which}, and --goal states {args.goal}; "
                "nothing is imported.",
                mend="Leave --goal out, then repeat the command.",
            )
    names: Sequence[str] = list(found.directions) or (args.metric if len(args.metric or ()) > 1 else [""])
    if args.goal is not None:
        return dict.fromkeys(names, args.goal)
    if found.directions:
        return found.directions
    each = ". For different ones, state objectives in a configuration: --config FILE" if names[1:] else ""
    terminal.warn(
        "The source does not state whether smaller or larger results are better. Larger ones count as "
        f"better. For the other goal, add: --goal minimize{each}"
    )
    return dict.fromkeys(names, "maximize")


def _again(args: argparse.Namespace) -> str:
    """Return the present command with the options that say how the source is read."""
    words = ["nnictl", "experiment", "import", "--from", args.kind, args.id]
    for option, value in (("--parameters", args.parameters), ("--study", args.study)):
        words += [] if value is None else [option, value]
    return shlex.join([*words, *(word for name in args.metric or () for word in ("--metric", name))])


def _counted(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _told(error: Exception, source: str) -> ClientError:
    """Return the error for the user. ``source``: name of the source, which keeps its small letter."""
    sentence = str(error)
    is_name = sentence.partition(" ")[0].rstrip(",:") == str(Path(source))
    return ClientError(f"{sentence if is_name else capital(sentence)}.", mend=getattr(error, "hint", ""))
