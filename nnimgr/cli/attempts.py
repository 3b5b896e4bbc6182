"""Texts about attempts of trials and about their members on several hosts; ``nnictl trial members``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal, printable
from nnimgr.cli.times import when
from nnimgr.cli.trials import trial_named
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from training_services.keepers.names import LOCAL, NNI, host_of, keeper_name

__all__ = ["end_of", "machine_of", "members"]

_BESIDE = "127.0.0.1"  # address of members that are all on one host
_SSH_PORT = 22
_COLUMNS = (
    Column("MEMBER", "right"),
    Column("MACHINE", gives_way=True, least=8),
    Column("ADDRESS", gives_way=True, least=9),
    Column("STATE"),
    Column("PROCESSES", "right"),
    Column("SINCE"),
)
# How attempts have ended whose processes nnimgr has signaled. Their signal says nothing more to users.
_BY_NNIMGR = {
    "stopped": "stopped by nnimgr",
    "lease": "stopped by nnimgr, because its machine had no contact to the server",
}


def members(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the members of an attempt. Below them, print why members have ended."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    trial_id = trial_named(client, entry.id, args.trial_id)["id"]
    trial = client.get("experiments", entry.id, "trials", trial_id)
    job = _attempt(trial, args.attempt, entry.id)
    found = [] if job is None else job["members"]
    config = client.get("experiments", entry.id)["config"]
    addresses = _addresses(found, config)
    more: list[dict[str, Any]] = [
        {"address": address, "processes": _processes(member, config)}
        for member, address in zip(found, addresses, strict=True)
    ]
    if terminal.as_json:
        attempt = None if job is None else job["attempt"]
        shown = [{**member, **added} for member, added in zip(found, more, strict=True)]
        terminal.json({"id": trial["id"], "attempt": attempt, "members": shown})
        return 0
    if job is None or not found:
        terminal.say(_why_none(trial, job))
        return 0
    titles = _titles(client, entry.id, found)
    rows = [
        (
            str(member["member"]),
            titles.get(member["keeperId"]) or machine_of(member),
            added["address"] or "-",
            end_of(member) or member["state"],
            "-" if added["processes"] is None else str(added["processes"]),
            when(_since(job, member)),
        )
        for member, added in zip(found, more, strict=True)
    ]
    show_table(terminal, _COLUMNS, rows)
    for member in found:
        if member["message"]:
            terminal.say(f"member {member['member']}: {printable(member['message'])}")
    return 0


def machine_of(job: Mapping[str, Any]) -> str:
    """Return the machine of an attempt or a member: its host, or words for this machine and NNI's."""
    keeper_id = job["keeperId"]
    known = {LOCAL: "this machine", NNI: "a machine of NNI"}
    return known.get(keeper_id) or host_of(keeper_id) or str(keeper_id)


def _titles(client: Client, experiment_id: str, found: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the names of pods and allocations in which members run, as "nnictl machine ls" shows them."""
    if all(end_of(member) or host_of(member["keeperId"]) for member in found):
        return {}
    with contextlib.suppress(ClientError):  # their keepers' own names do for a list
        machines = client.get("experiments", experiment_id, "machines")["machines"]
        return {machine["id"]: machine["name"] for machine in machines if machine["id"] != LOCAL}
    return {}


def end_of(job: Mapping[str, Any]) -> str | None:
    """Return how an attempt or a member has ended; None: it has not."""
    if job["endedAt"] is None and job["endReason"] is None:
        return None
    ran = job["signal"] is not None or job["exitCode"] is not None
    if ran and job["endReason"] in _BY_NNIMGR:
        return _BY_NNIMGR[job["endReason"]]
    if job["signal"] is not None:
        return f"killed by signal {job['signal']}"
    if job["exitCode"] is not None:
        return f"exited with code {job['exitCode']}"
    return str(job["endReason"] or "lost").replace("_", " ")


def _attempt(trial: Mapping[str, Any], number: int | None, experiment_id: str) -> dict[str, Any] | None:
    """Return an attempt of the trial; the newest if no number is given. Raise ClientError."""
    jobs: list[dict[str, Any]] = trial["jobs"]
    if number is None:
        return jobs[-1] if jobs else None
    found = next((job for job in jobs if job["attempt"] == number), None)
    if found is None:
        raise ClientError(
            f"Trial {trial['sequence']} ({trial['id']}) has no attempt {number}; its latest is "
            f"{trial['attempt']}.",
            mend=f"See its attempts: nnictl trial show {experiment_id} -T {trial['sequence']}",
        )
    return found


def _why_none(trial: Mapping[str, Any], job: Mapping[str, Any] | None) -> str:
    name = f"trial {trial['sequence']} ({trial['id']})"
    reason = f": {trial['reason']}" if trial["reason"] else ""
    if job is None:
        return f"No attempt of {name} has started, so it has no members yet{reason}."
    if job["placedAt"] is None and job["endedAt"] is None:
        return f"Attempt {job['attempt']} of {name} has no place yet, so it has no members yet{reason}."
    return f"Attempt {job['attempt']} of {name} runs on one host, so it has no members."


def _addresses(found: list[dict[str, Any]], config: Mapping[str, Any]) -> list[str | None]:
    """Return where each member reaches the others; None: not known, as of a machine that was added later."""
    keepers = [member["keeperId"] for member in found]
    if len(set(keepers)) == 1:
        return [_BESIDE] * len(keepers)
    service = config.get("trainingService")
    listed = service.get("machineList") or () if isinstance(service, Mapping) else ()
    known = {
        keeper_name(each.get("user"), each["host"], each.get("port") or _SSH_PORT): each.get("gangAddress")
        or each["host"]
        for each in listed
    }
    return [known.get(keeper_id) for keeper_id in keepers]


def _processes(member: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    """Return how many processes run the command on the member's machine; None: only the machine knows."""
    wanted = (config.get("gang") or {}).get("processes")
    if wanted is None:
        return 1
    if wanted == "gpu" or (wanted == "auto" and member["gpus"]):
        return len(member["gpus"]) or None
    return wanted if isinstance(wanted, int) else None


def _since(job: Mapping[str, Any], member: Mapping[str, Any]) -> str | None:
    """Return when the member has come into its state; None: unknown, as of the loss of a machine."""
    moment: dict[str, str | None] = {"placed": job["placedAt"], "running": member["startedAt"]}
    return moment.get(member["state"], member["endedAt"])
