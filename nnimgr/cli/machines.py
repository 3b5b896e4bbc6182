"""``nnictl machine``: the verbs ls, add, drain and remove, for the machines of an experiment."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.cli.limits import raised_limit
from nnimgr.cli.selection import client_of, is_named, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import duration_text, when
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from nnimgr.index import Index
from training_services.keepers.names import host_of

__all__ = ["add", "drain", "list_all", "remove"]

_LEAVING = ("draining", "removing")
_COLUMNS = (
    Column("MACHINE", gives_way=True, least=12),
    Column("STATE"),
    Column("TRIALS", "right"),
    Column("GPUS", "right"),
    Column("CPUS", "right"),
    Column("MEMORY", "right"),
    Column("KEEPER", gives_way=True),
    Column("TIME LEFT", "right", optional=True),
)


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the machines of an experiment. Below them, print why a machine is not connected.

    On a cluster, these are its allocations for the experiment.
    """
    client, experiment_id = _client(args)
    client.mends = {
        **client.mends,
        409: "What its machines have used is on the page Resources of the dashboard: "
        f"nnictl webui url {experiment_id}",
    }
    machines = client.get("experiments", experiment_id, "machines")["machines"]
    if terminal.as_json:
        terminal.json({"machines": machines})
        return 0
    show_table(terminal, _COLUMNS, map(_row, machines))
    for machine in machines:
        if machine["reason"] is not None:
            since = f" (last contact {when(machine['since'])})" if machine["since"] else ""
            named = str(machine["reason"]).startswith(f"{machine['name']} ")
            terminal.say(f"{'' if named else machine['name'] + ': '}{machine['reason']}{since}")
    return 0


def add(args: argparse.Namespace, terminal: Terminal) -> int:
    """Add machines to an experiment: one machine described by options, or the machines in a file."""
    client, experiment_id = _client(args)
    body = {"machines": _machines(args)}
    added = client.post("experiments", experiment_id, "machines", body=body)["ids"]
    if terminal.as_json:
        terminal.json({"added": added})
    for name in added:
        terminal.info(f"Machine {host_of(name) or name} is being connected.")
    return 0


def drain(args: argparse.Namespace, terminal: Terminal) -> int:
    _sort_names(args)
    client, experiment_id = _client(args)
    path = ("experiments", experiment_id, "machines", args.machine, "drain")
    machine = client.post(*path, body={"undo": args.undo})
    if terminal.as_json:
        terminal.json(machine)
    elif args.undo:
        terminal.info(f"Trials are placed on {machine['name']} again.")
    else:
        terminal.info(f"{machine['name']} gets no more trials; {_running(machine)}.")
        machines = client.get("experiments", experiment_id, "machines")["machines"]
        if all(each["status"] in _LEAVING for each in machines):
            terminal.warn(
                "No machine is left for new trials. Use this one again: nnictl machine drain "
                f"{shlex.quote(machine['name'])} {experiment_id} --undo"
            )
    return 0


def remove(args: argparse.Namespace, terminal: Terminal) -> int:
    _sort_names(args)
    client, experiment_id = _client(args)
    path = ("experiments", experiment_id, "machines", args.machine)
    machine = client.call("DELETE", *path, force=str(args.force).lower())
    if terminal.as_json:
        terminal.json(machine)
    elif args.force:
        terminal.info(f"{machine['name']} is removed: {_running(machine, 'stopped and requeued')}.")
    elif machine["trialIds"]:
        terminal.info(
            f"{machine['name']} is removed when its trials have ended: {', '.join(machine['trialIds'])}."
        )
    else:
        terminal.info(f"{machine['name']} is removed: no trial runs there.")
    return 0


def _sort_names(args: argparse.Namespace) -> None:
    """Exchange machine and experiment if the user has named the experiment first, as for other verbs."""
    if args.id is None:
        return
    entries = Index(Home.find()).entries()
    if is_named(entries, args.machine) and not is_named(entries, args.id):
        args.machine, args.id = args.id, args.machine


def _client(args: argparse.Namespace) -> tuple[Client, str]:
    home = Home.find()
    entry = select(home, args.id, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    client.mends = {**client.mends, 404: f"See: nnictl machine ls {entry.id}"}
    if entry.status == "DONE":
        more = raised_limit(client.get("experiments", entry.id))
        client.mends[409] = (
            f"Let it continue: {more or 'nnictl update --help'}\n  Then repeat: {{command {entry.id}}}"
            if entry.platform != "local"
            else f"See its trials: nnictl trial ls {entry.id}"
        )
    return client, entry.id


def _machines(args: argparse.Namespace) -> list[dict[str, Any]]:
    from nnimgr.config import ConfigError
    from nnimgr.config.machines import load_machines

    options = {"host": args.host, "port": args.ssh_port, "user": args.user, "sshKeyFile": args.ssh_key_file}
    if args.filename is not None:
        if any(value is not None for value in options.values()):
            raise ClientError(
                "Give either --filename or --host with its options.",
                mend="For example: {prog} --filename FILE",
            )
        try:
            return load_machines(Path(args.filename))
        except ConfigError as error:
            problems = [problem.plain() for problem in error.problems]
            raise ClientError(*map(str, error.problems), problems=problems) from error
    if args.host is None:
        raise ClientError(
            "Give --host, or --filename with a list of machines.",
            mend="For example: {prog} --host HOST --user USER",
        )
    if args.ssh_key_file is not None:
        options["sshKeyFile"] = str(Path(args.ssh_key_file).expanduser().resolve())
    return [{key: value for key, value in options.items() if value is not None}]


def _running(machine: Mapping[str, Any], what: str = "finishing there") -> str:
    trials = machine["trialIds"]
    if not trials:
        return "no trial runs there"
    return f"{', '.join(trials)} {'is' if len(trials) == 1 else 'are'} {what}"


def _row(machine: Mapping[str, Any]) -> tuple[str, ...]:
    memory = machine["memoryMb"]
    return (
        machine["name"],
        machine["status"],
        str(len(machine["trialIds"])),
        _shown(machine["gpus"]),
        _shown(machine["cpus"]),
        "-" if memory is None else f"{memory / 1024:.4g} GiB",
        _shown(machine["keeperVersion"]),
        _time_left(machine["endsAt"]),
    )


def _time_left(ends_at: str | None) -> str:
    if ends_at is None:
        return ""
    return duration_text((datetime.fromisoformat(ends_at) - datetime.now(UTC)).total_seconds())


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, int | float) else str(value)
