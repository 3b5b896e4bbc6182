"""``nnictl create``, ``nnictl resume`` and ``nnictl view``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import load
from nnimgr.cli.selection import runs
from nnimgr.cli.stored import named_or_brought
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from nnimgr.client.servers import DEFAULT_PORT, ServerStart, connect
from nnimgr.home import Home, HomeError, check_prefix
from nnimgr.index import Index, IndexEntry, check_experiment_id, new_experiment_id

if TYPE_CHECKING:
    from nnimgr.client.calls import Client
    from nnimgr.config import Loaded

__all__ = ["create", "resume", "view"]

_RESUME_TIMEOUT_S = 120.0


def create(args: argparse.Namespace, terminal: Terminal) -> int:
    """Check the configuration, start the server if none runs, and create the experiment there."""
    prefix = _prefix(args)
    if args.dry_run:
        return _dry_run(_load(args, terminal), args.experiment_id or "experiment", terminal)
    _refuse_nni()
    terminal.act_without_reader()
    home = Home.find()
    try:
        experiment_id = _experiment_id(home, args.experiment_id)
        # The server starts while the configuration is read, which takes about as long.
        port = args.port or DEFAULT_PORT
        with ServerStart(home, port, no_token=args.no_token, url_prefix=prefix) as start:
            loaded = _load(args, terminal)
            canonical = loaded.config.canonical()
            terminal.stamped(f"Creating experiment, Experiment ID: {experiment_id}")
            if loaded.feasibility is not None:
                terminal.stamped(f"Constraints: {loaded.feasibility}")
            terminal.stamped("Starting web server...")
            client = start.client()
        terminal.stamped("Setting up...")
        space = canonical.pop("searchSpace")
        body = {"config": canonical, "searchSpace": space, "id": experiment_id, **_surroundings()}
        client = _post_experiment(home, client, body, no_token=args.no_token, url_prefix=prefix)
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, terminal)
    if terminal.as_json and not args.foreground:
        terminal.json({"id": experiment_id, "url": url, "port": client.port})
    return _after_start(
        client, experiment_id, url=url, foreground=args.foreground, terminal=terminal, after=0
    )


def resume(args: argparse.Namespace, terminal: Terminal) -> int:
    """Resume a stopped or finished experiment, on any port.

    An experiment whose server was killed is running again as soon as a server has started for it.
    """
    _refuse_nni()
    terminal.act_without_reader()
    home = Home.find()
    if args.debug:
        terminal.warn("--debug has no effect: an experiment keeps the log level it was created with.")
    try:
        entry, client, started = _server_for(home, args)
        around = _surroundings()
        body = {"environ": around["environ"], "python": around["python"]}
        profile = client.get("experiments", entry.id)
        after = int(profile["lastNumber"])
        terminal.stamped(f"Resuming experiment, Experiment ID: {entry.id}")
        if started and runs(entry):
            terminal.stamped("Its server had ended: the new server has adopted it.")
        else:
            client.mends = {409: f"Watch it: nnictl top {entry.id}"}
            if entry.status == "VIEWED":
                client.mends = {409: f"End the view first: nnictl stop {entry.id}"}
            client.post("experiments", entry.id, "resume", body=body, timeout_s=_RESUME_TIMEOUT_S)
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, terminal)
    if terminal.as_json and not args.foreground:
        terminal.json({"id": entry.id, "url": url, "port": client.port})
    return _after_start(client, entry.id, url=url, foreground=args.foreground, terminal=terminal, after=after)


def view(args: argparse.Namespace, terminal: Terminal) -> int:
    """Show a stopped experiment, on any port, until it is stopped again. Nothing of it runs or changes."""
    terminal.act_without_reader()
    home = Home.find()
    try:
        entry, client, _ = _server_for(home, args)
        terminal.stamped(f"Viewing experiment, Experiment ID: {entry.id}")
        client.mends = {409: f"Stop it first: nnictl stop {entry.id}"}
        client.post("experiments", entry.id, "view")
    except HomeError as error:
        raise ClientError(str(error)) from error
    url = _address(client, terminal)
    if terminal.as_json:
        terminal.json({"id": entry.id, "url": url, "port": client.port})
    return _after_start(client, entry.id, url=url, foreground=False, terminal=terminal, after=0)


def _server_for(home: Home, args: argparse.Namespace) -> tuple[IndexEntry, Client, bool]:
    """Return the experiment that is named or whose folder is given, and a client of its server.

    The third value is whether the experiment's own server was started now. A new server opens the experiments
    of its port that run.
    """
    entry = named_or_brought(home, args.id, args.experiment_dir)
    port = args.port or entry.port or DEFAULT_PORT
    _refuse_running(home, entry.id, port)
    started = port == entry.port and home.server_running(port) is None
    with ServerStart(home, port, no_token=args.no_token) as start:
        return entry, start.client(), started


def _after_start(
    client: Client, experiment_id: str, *, url: str, foreground: bool, terminal: Terminal, after: int
) -> int:
    if terminal.for_people:  # a line of its own, which is short enough for most terminals
        terminal.stamped("Web portal URLs:")
        terminal.say(url)
    else:
        terminal.stamped(f"Web portal URLs: {url}")
    if not foreground:
        terminal.stamped(f'To stop experiment run "nnictl stop {experiment_id}" or "nnictl stop --all"')
        terminal.stamped(f'Reference: "nnictl top {experiment_id}" watches it; "nnictl --help" lists more')
        return 0
    from nnimgr.cli.watch import foreground as watch

    return watch(client, experiment_id, terminal=terminal, after=after)


def _prefix(args: argparse.Namespace) -> str | None:
    """Return the prefix of NNI's routes, or None. Slashes around it are dropped, as in NNI."""
    prefix = (args.url_prefix or "").strip("/")
    try:
        return check_prefix(prefix) if prefix else None
    except ValueError as error:
        raise ClientError(str(error)) from error


def _address(client: Client, terminal: Terminal) -> str:
    """Return the server's address for a browser. Warn if anyone can control the server."""
    address = client.post("server", "login-code")
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


def _post_experiment(
    home: Home, client: Client, body: Mapping[str, Any], *, no_token: bool, url_prefix: str | None
) -> Client:
    """Create the experiment. If the server ends meanwhile, repeat the request at the next server.

    The experiment's id prevents that it is created twice.
    """
    from nnimgr.client.calls import ServerGone

    try:
        created, _ = client.put_new("experiments", body=body)
    except ServerGone:
        client = connect(home, client.port, no_token=no_token, url_prefix=url_prefix)
        client.post("experiments", body=body)  # it may exist already from the first request
        return client
    if not created:
        experiment_id = body["id"]
        raise ClientError(
            f"Experiment {experiment_id} exists already.", mend=f"Reopen it: nnictl resume {experiment_id}"
        )
    return client


def _experiment_id(home: Home, wanted: str | None) -> str:
    taken = Index(home).entries()
    if wanted is None:
        return new_experiment_id(taken)
    try:
        return check_experiment_id(wanted)
    except ValueError as error:
        raise ClientError(str(error)) from error


def _refuse_running(home: Home, experiment_id: str, port: int) -> None:
    """Refuse to open an experiment that another server has open."""
    entry = Index(home).get(experiment_id)
    if entry is None or entry.port in (None, port) or entry.status == "STOPPED":
        return
    if entry.port is not None and home.server_running(entry.port) is not None:
        raise ClientError(
            f"Experiment {experiment_id} is served on port {entry.port} already.",
            mend=f"Use it there: leave --port out. Or stop it there first: nnictl stop {experiment_id}",
        )


def _surroundings() -> dict[str, Any]:
    """Return the environment in which the experiment runs. It may hold secrets: send it, never show it."""
    return {"environ": dict(os.environ), "cwd": os.getcwd(), "python": sys.executable}


def _refuse_nni() -> None:
    """Refuse to run beside NNI itself.

    Both packages own the name ``nni``, so one would get the other's code.
    """
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        if any(name.startswith("nni-") and name.endswith((".dist-info", ".egg-info")) for name in names):
            raise ClientError(
                f"NNI itself is installed in {place}, and both bring a package called nni.",
                mend=f"Remove it: {sys.executable} -m pip uninstall nni && "
                f"{sys.executable} -m pip install --force-reinstall --no-deps nnimgr",
            )


def _dry_run(loaded: Loaded, experiment_id: str, terminal: Terminal) -> int:
    from nnimgr.cli.manifest import plan_job
    from nnimgr.config.preview import parameter_sets
    from nnimgr.config.secrets import hide_secrets

    config, _ = hide_secrets(loaded.config)
    facts: dict[str, Any] = {
        "tuner": config.tuner.title,
        "assessor": config.assessor.title if config.assessor else None,
        "platform": config.platform,
        "trialCommand": config.members[0].job_command,
        "trialCodeDirectory": str(config.members[0].job_directory),
        "experimentWorkingDirectory": str(config.experiment_working_directory),
        "python": sys.executable,
        "trialConcurrency": config.trial_concurrency,
        "maxTrialNumber": config.max_trial_number,
        "parameterSets": parameter_sets(config.search_space),
        "feasibleShare": None if loaded.feasibility is None else loaded.feasibility.share,
    }
    job = plan_job(loaded.config, experiment_id, os.environ)
    refused = job is not None and job.accepted is False
    if terminal.as_json:
        told = {} if job is None else job.plain()
        terminal.json({"config": config.canonical(), "wouldStart": facts, **told})
        return 1 if refused else 0
    import yaml

    terminal.say("# The configuration, resolved")
    terminal.say(yaml.safe_dump(config.canonical(), sort_keys=False, allow_unicode=True).rstrip())
    terminal.say("\n# What would start (nothing was started)")
    count = facts["parameterSets"]
    facts["parameterSets"] = "without end" if count is None else f"{count:,}"
    facts["feasibleShare"] = "no constraints" if loaded.feasibility is None else str(loaded.feasibility)
    for name, value in facts.items():
        terminal.say(f"# {name}: {'none' if value is None else value}")
    if job is not None:
        terminal.say(f"\n# The Job of {'a pod in its pool' if job.pooled else 'its first trial'}")
        terminal.say(yaml.safe_dump(job.manifest, sort_keys=False, allow_unicode=True).rstrip())
        terminal.say(f"\n# {job.verdict}")
    return 1 if refused else 0
