"""``nnictl create``, ``nnictl resume`` and ``nnictl view``."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import load
from nnimgr.cli.failures import failure_lines, last_failure
from nnimgr.cli.interrupts import Interrupt
from nnimgr.cli.limits import ended_again
from nnimgr.cli.progress import moved
from nnimgr.cli.report import CREATE
from nnimgr.cli.stored import named_or_brought, to_resume
from nnimgr.cli.summary import goal_of
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import duration_text
from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.experiments import (
    check_id,
    dashboard_address,
    ended_if_refused,
    post_experiment,
    refuse_nni,
    refuse_without_command,
    resume_experiment,
    server_for,
    surroundings,
    view_experiment,
)
from nnimgr.client.servers import DEFAULT_PORT, ServerStart
from nnimgr.home import Home, HomeError, check_prefix
from nnimgr.index import Index

if TYPE_CHECKING:
    from nnimgr.client.calls import Client
    from nnimgr.config import ExperimentConfig, Loaded

__all__ = ["create", "resume", "view"]


def create(args: argparse.Namespace, terminal: Terminal) -> int:
    """Check the configuration, start the port's server if none runs, and create the experiment there."""
    prefix = _prefix(args)
    if args.dry_run:
        shown = _shown_id(args.experiment_id)
        return _dry_run(_load(args, terminal), shown, terminal)
    refuse_nni()
    terminal.act_without_reader()
    home = Home.find()
    try:
        experiment_id = check_id(home, args.experiment_id)
        # The server starts while the configuration is read, to save time. Both take about the same time.
        port = args.port or DEFAULT_PORT
        with ended_if_refused(home, port):
            with ServerStart(home, port, no_token=args.no_token, url_prefix=prefix) as start:
                loaded = _load(args, terminal)
                canonical = loaded.config.canonical()
                terminal.stamped(f"Creating experiment, Experiment ID: {experiment_id}")
                if loaded.feasibility is not None:
                    terminal.stamped(f"Constraints: {loaded.feasibility}")
                if start.starts or not terminal.for_people:  # a pipe gets NNI's lines
                    terminal.stamped("Starting web server...")
                client = start.client(announced=True)
            terminal.stamped("Setting up...")
            space = canonical.pop("searchSpace")
            body = {"config": canonical, "searchSpace": space, "id": experiment_id, **surroundings()}
            interrupt = _held(args)
            client = post_experiment(home, client, body, no_token=args.no_token, url_prefix=prefix)
            _warn_of_name(home, loaded.config.experiment_name, experiment_id, terminal)
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, experiment_id, terminal)
    if terminal.as_json and not args.foreground:
        terminal.json({"id": experiment_id, "url": url, "port": client.port})
    again = f"nnictl create --config {shlex.quote(args.config)}"
    again += "" if port == DEFAULT_PORT else f" --port {port}"
    code = _after_start(
        client,
        experiment_id,
        url=url,
        interrupt=interrupt,
        terminal=terminal,
        after=0,
        again=again,
    )
    if not args.foreground:
        _warn_of_failure(client, experiment_id, terminal)
    return code


def resume(args: argparse.Namespace, terminal: Terminal) -> int:
    """Resume a stopped or finished experiment, on the same port or on another one.

    An experiment whose server was killed needs no resume: it runs again as soon as its server is restarted.
    """
    refuse_nni()
    terminal.act_without_reader()
    home = Home.find()
    if args.debug:
        terminal.warn("--debug has no effect: an experiment keeps the log level it was created with.")
    try:
        entry = to_resume(home, args.id, args.experiment_dir)
        refuse_without_command(entry)  # before a server is started
        with ended_if_refused(home, args.port or entry.port or DEFAULT_PORT):
            client, adopted = server_for(home, entry, port=args.port, no_token=args.no_token)
            interrupt = _held(args)
            profile = client.get("experiments", entry.id)
            after = int(profile["lastNumber"])
            terminal.stamped(f"Resuming experiment, Experiment ID: {entry.id}")
            if adopted:
                terminal.stamped("The server had ended; a new one adopts the experiment.")
            else:
                resume_experiment(client, entry)
                why = ended_again(client.get("experiments", entry.id))
                if why is not None:
                    terminal.warn(why)
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, entry.id, terminal)
    if terminal.as_json and not args.foreground:
        terminal.json({"id": entry.id, "url": url, "port": client.port})
    return _after_start(client, entry.id, url=url, interrupt=interrupt, terminal=terminal, after=after)


def view(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show a stopped experiment until ``nnictl stop``, on the same port or on another one. No trial runs."""
    terminal.act_without_reader()
    home = Home.find()
    try:
        entry = named_or_brought(home, args.id, args.experiment_dir, able=("STOPPED",))
        with ended_if_refused(home, args.port or entry.port or DEFAULT_PORT):
            client, _ = server_for(home, entry, port=args.port, no_token=args.no_token)
            terminal.stamped(f"Viewing experiment, Experiment ID: {entry.id}")
            view_experiment(client, entry)
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, entry.id, terminal)
    if terminal.as_json:
        terminal.json({"id": entry.id, "url": url, "port": client.port})
    return _after_start(client, entry.id, url=url, interrupt=None, terminal=terminal, after=0)


def _held(args: argparse.Namespace) -> Interrupt | None:
    """Return None without ``--foreground``. Otherwise hold Ctrl-C until the experiment can be stopped."""
    if not args.foreground:
        return None
    interrupt = Interrupt()
    interrupt.hold()
    return interrupt


def _after_start(
    client: Client,
    experiment_id: str,
    *,
    url: str,
    interrupt: Interrupt | None,
    terminal: Terminal,
    after: int,
    again: str = CREATE,
) -> int:
    """Print how to go on. With ``interrupt``, watch the experiment in the foreground, and stop it."""
    if terminal.for_people:  # the URL gets a line of its own, so that most terminals do not wrap it
        terminal.stamped("Web portal URLs:")
        terminal.say(url)
    else:
        terminal.stamped(f"Web portal URLs: {url}")
    if interrupt is None and terminal.for_people:
        terminal.stamped(f"Goal: {goal_of(client.get('experiments', experiment_id))}")
    if interrupt is None:
        terminal.stamped(f'To stop experiment run "nnictl stop {experiment_id}" or "nnictl stop --all"')
        terminal.stamped(f'Watch it with "nnictl top {experiment_id}"; all commands: "nnictl --help"')
        return 0
    from nnimgr.cli.watch import foreground

    return foreground(client, experiment_id, interrupt=interrupt, terminal=terminal, after=after, again=again)


def _warn_of_failure(client: Client, experiment_id: str, terminal: Terminal) -> None:
    """Warn if the experiment or a trial has failed already, because the user does not watch them."""
    with contextlib.suppress(ServerGone):  # the server has exited with its last experiment
        profile = client.get("experiments", experiment_id)
        if profile["status"] in ("STOPPED", "ERROR"):
            terminal.warn(moved(profile["status"], profile["reason"]))
        if (failed := last_failure(client, profile)) is not None:
            reason, *more = failure_lines(failed, experiment_id)
            terminal.warn(reason, plain="\n".join(more))


def _prefix(args: argparse.Namespace) -> str | None:
    """Return the prefix in the URLs of NNI's routes, or None if none is given. Outer slashes are dropped."""
    prefix = (args.url_prefix or "").strip("/")
    try:
        return check_prefix(prefix) if prefix else None
    except ValueError as error:
        raise ClientError(str(error)) from error


def _address(client: Client, experiment_id: str, terminal: Terminal) -> str:
    """Return the experiment's address for a browser. Warn if the server needs no token."""
    address = dashboard_address(client, experiment_id)
    if not address.get("needsToken", True):
        terminal.warn(
            f"The server on port {client.port} needs no token: anyone on this machine can control its "
            "experiments and run commands as this user."
        )
    return str(address["url"])


def _load(args: argparse.Namespace, terminal: Terminal) -> Loaded:
    loaded = load(args.config, terminal)
    if args.debug:
        from nnimgr.config import LogLevel

        debug = loaded.config.model_copy(update={"debug": True, "log_level": LogLevel.DEBUG})
        return replace(loaded, config=debug)
    return loaded


def _warn_of_name(home: Home, name: str | None, experiment_id: str, terminal: Terminal) -> None:
    """Warn if commands with the experiment's name would mean another experiment, or several."""
    if not name or name == experiment_id:
        return
    entries = Index(home).entries()
    others = [entry.id for entry in entries.values() if entry.name == name and entry.id != experiment_id]
    if others and name not in entries:
        count = f"are {len(others)} other experiments" if others[1:] else "is another experiment"
        latest = f"the latest is {others[-1]}" if others[1:] else others[-1]
        terminal.warn(
            f"There {count} with the name {name}: {latest}. Most commands need the id now. "
            f"This experiment has the id {experiment_id}."
        )
    if name in entries:
        terminal.warn(
            f"The name {name} is the id of another experiment, and commands with {name} mean that one. "
            f"This experiment has the id {experiment_id}."
        )


def _assessor(config: ExperimentConfig) -> str | None:
    """Return the assessor that would run, or None. An advisor uses no assessor."""
    tuner = config.tuner.builtin("tuner")
    return None if config.assessor is None or (tuner and tuner.advisor) else config.assessor.title


def _shown_id(wanted: str | None) -> str:
    """Return the id that a dry run shows: the wanted id, if the experiment can have it. Raise ClientError."""
    try:
        return "experiment" if wanted is None else check_id(Home.find(), wanted)
    except HomeError as error:
        raise ClientError(str(error)) from error


def _dry_run(loaded: Loaded, experiment_id: str, terminal: Terminal) -> int:
    from nnimgr.cli.gang_plan import describe_members, plan_members
    from nnimgr.cli.manifest import plan_job
    from nnimgr.cli.ray_plan import plan_ray_job
    from nnimgr.cli.slurm_plan import plan_script
    from nnimgr.config.preview import parameter_sets
    from nnimgr.config.secrets import hide_secrets
    from nnimgr.config.spill import describe_route
    from training_services.units import parse_duration

    config, _ = hide_secrets(loaded.config)
    goal = {
        "optimizeMode": config.optimize_mode,
        "goalStated": config.goal_is_stated,
        "objectives": config.objectives,
    }
    facts: dict[str, Any] = {
        "tuner": config.tuner.title,
        "goal": goal_of(goal),
        "assessor": _assessor(config),
        "scheduler": config.scheduler.title if config.scheduler else None,
        "platform": config.platform,
        **({} if (route := describe_route(config)) is None else {"platforms": route}),
        "trialCommand": config.members[0].job_command,
        "trialCodeDirectory": str(config.members[0].job_directory),
        "experimentWorkingDirectory": str(config.experiment_working_directory),
        "python": sys.executable,
        "trialConcurrency": config.trial_concurrency,
        "maxTrialNumber": config.max_trial_number,
        "maxExperimentDuration": config.max_experiment_duration,
        "maxTrialDuration": config.max_trial_duration,
        "parameterSets": parameter_sets(config.search_space),
        "feasibleShare": None if loaded.feasibility is None else loaded.feasibility.share,
    }
    members = plan_members(config)
    job = plan_job(loaded.config, experiment_id, os.environ)
    script = plan_script(loaded.config, experiment_id, os.environ)
    ray_job = plan_ray_job(loaded.config, experiment_id)
    plans = [each for each in (job, script, ray_job) if each is not None]
    refused = any(each.accepted is False for each in plans)
    if terminal.as_json:
        told = {"members": members} if members else {}
        told |= plans[0].plain() if len(plans) == 1 else {}
        told |= {"clusters": [each.plain() for each in plans]} if len(plans) > 1 else {}
        terminal.json({"config": config.canonical(), "wouldStart": facts, **told})
        return 1 if refused else 0
    import yaml

    terminal.say("# The configuration, resolved")
    terminal.verbatim(yaml.safe_dump(config.canonical(), sort_keys=False, allow_unicode=True).rstrip())
    terminal.say("\n# What would start (nothing was started)")
    count = facts["parameterSets"]
    for limit in ("maxExperimentDuration", "maxTrialDuration"):
        if facts[limit] is not None:
            facts[limit] = duration_text(parse_duration(facts[limit]).total_seconds())
    facts["parameterSets"] = "infinitely many" if count is None else f"{count:,}"
    facts["feasibleShare"] = "no constraints" if loaded.feasibility is None else str(loaded.feasibility)
    for name, value in facts.items():
        terminal.say(f"# {name}: {'none' if value is None else value}")
    if members:
        terminal.say("\n# The processes of each trial")
        for line in describe_members(members):
            terminal.verbatim(f"# {line}")
    if job is not None:
        terminal.say(f"\n# The Job of the experiment's first {'pooled pod' if job.pooled else 'trial'}")
        terminal.verbatim(yaml.safe_dump(job.manifest, sort_keys=False, allow_unicode=True).rstrip())
        terminal.say(f"\n# {job.verdict}", indent="# ")
    if script is not None:
        terminal.say("\n# The script of the experiment's first allocation")
        terminal.verbatim(script.script.rstrip())
        terminal.say(f"\n# {script.verdict}", indent="# ")
    if ray_job is not None:
        terminal.say("\n# The job of the experiment's first allocation")
        terminal.verbatim(yaml.safe_dump(dict(ray_job.body), sort_keys=False, allow_unicode=True).rstrip())
        terminal.say(f"\n# {ray_job.verdict}", indent="# ")
    return 1 if refused else 0
