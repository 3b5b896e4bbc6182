"""The members of each trial and the variables of their processes, for ``nnictl create --dry-run``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnimgr.config.attempts import Retries
from nnimgr.config.model import ExperimentConfig
from trial_keeper.gang_line import FIRST_PORT, PORTS
from trial_keeper.gang_variables import HOSTFILE, Group, environment

__all__ = ["describe_members", "plan_members"]

_COUNTED = ("WORLD_SIZE", "ROLE_WORLD_SIZE", "LOCAL_WORLD_SIZE")
_RANKS = ("RANK", "ROLE_RANK")
_UNITS = {"cpu": "CPU", "gpu": "GPU of the trial", "auto": "GPU of the trial, or each CPU if it has none"}
_PORT = f"<a free port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1}>"


def plan_members(config: ExperimentConfig) -> list[dict[str, Any]]:
    """Return each member of a trial: ``member``, ``command``, ``processes`` and ``variables``.

    ``processes``: number of processes that run the command, or "cpu", "gpu" or "auto" if the machine decides.
    ``variables``: those of the member's first process; what is known only later stands in angle brackets.
    The list is empty if a trial is one process. With a range of ``nodes``, it has the most members.
    """
    gang = config.gang
    if gang is None:
        return []
    service = config.members[0]
    processes: int | str = 1 if gang.processes is None else gang.processes
    if processes == "gpu" and isinstance(service.job_gpu_number, int):
        processes = service.job_gpu_number
    nodes = gang.most
    hosts = [f"<address of member {member}>" for member in range(nodes)] if nodes > 1 else ["127.0.0.1"]
    counts = [processes if isinstance(processes, int) else 1] * nodes
    in_pods = service.platform == "kubernetes"
    attempt = {
        "TORCHELASTIC_RUN_ID": "<id of the trial>",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": str((config.max_retries or Retries()).user_error),
    }
    whole = config.gang_of_trials()
    assert whole is not None
    if whole.roles:
        attempt["NNIMGR_GANG_ROLES"] = whole.sizes_of_roles
    if nodes > 1:
        attempt |= {"NNIMGR_GANG_MIN": str(gang.least), "NNIMGR_GANG_MAX": str(nodes)}
    return [
        {
            "member": member,
            "command": whole.command_of(member) or service.job_command,
            "processes": processes,
            "variables": _variables(
                Group(
                    member,
                    counts,
                    hosts,
                    FIRST_PORT,
                    hostfile=f"<folder of the member>/{HOSTFILE}",
                    roles=whole.sizes_of_roles,
                    in_pods=in_pods,
                ),
                once=gang.processes is None,
                known=isinstance(processes, int),
            )
            | attempt,
        }
        for member in range(nodes)
    ]


def describe_members(members: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines that show the members to people. Variables that all members share stand once."""
    first, same = members[0]["variables"], len({member["command"] for member in members}) == 1
    for member in members:
        leads = member is members[0]
        role = ", the leader," if leads and len(members) > 1 else ""
        what = "the command" if same else f'"{member["command"]}"'
        yield f"member {member['member']}{role} runs {what} {_times(member['processes'])}."
        yield f"  Variables of its first process{'' if leads else ' that differ'}:"
        for name, value in member["variables"].items():
            if leads or first[name] != value:
                yield f"  {name}={value}"


def _times(processes: int | str) -> str:
    if isinstance(processes, int):
        return "once" if processes == 1 else f"as {processes} processes"
    return f"as one process for each {_UNITS[processes]}"


def _variables(group: Group, *, once: bool, known: bool) -> dict[str, str]:
    """Return the variables of a member's first process. ``known``: the number of processes is known here."""
    found = environment(group, 0, "<folder of the process>", once=once)
    if not known:
        found |= dict.fromkeys(_COUNTED, "<known on the machines>")
        if group.member:
            found |= dict.fromkeys(_RANKS, "<known on the machines>")
    return {name: value.replace(str(FIRST_PORT), _PORT) for name, value in found.items()}
