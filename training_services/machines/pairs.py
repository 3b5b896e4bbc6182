"""Check of ``nnictl doctor`` for trials on several machines: whether the machines reach each other."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence

from training_services.base import ServiceError
from training_services.examination import Examination
from training_services.findings import Check, Finding, Level
from training_services.ssh.attendant import AttendantClient
from training_services.ssh.config import MachineConfig, RemoteConfig
from training_services.ssh.target import Target
from trial_keeper.gang_line import FIRST_PORT, PORTS, REACH_S

__all__ = ["examine_pairs", "peers_of"]

ALL = 64  # machines up to this number are all checked with each other
NEIGHBOURS = 16  # with more machines, each one connects to this number of those that follow it in machineList
LISTEN_S = 60.0  # the machines listen until all have tried
ANSWER_S = 30.0
EACH = "all machines"


async def examine_pairs(examination: Examination, config: RemoteConfig) -> AsyncIterator[Finding]:
    """Let the machines connect to each other at their gangAddress, all at the same time.

    Yield a finding for each connection that fails. Machines that cannot be reached from here are left out,
    because their own check says so.
    """
    machines = config.machine_list
    async with contextlib.AsyncExitStack() as shares:

        async def attend(machine: MachineConfig) -> AttendantClient | None:
            target = Target.of(machine, config, environ=examination.context.environ)
            share = examination.tools.machines.share(target, lambda: None)
            shares.push_async_callback(share.close)
            with contextlib.suppress(ServiceError):
                return (await share.link()).attendant
            return None

        attendants = await asyncio.gather(*map(attend, machines))
        reached = {number: found for number, found in enumerate(attendants) if found is not None}
        doors = await _listen(reached, machines)
        tried = list(doors)

        async def connect(number: int) -> list[Finding]:
            others = [tried[other] for other in peers_of(tried.index(number), len(tried))]
            chosen = {other: doors[other] for other in others}
            return await _connect(reached[number], number, chosen, machines)

        missing = [finding for some in await asyncio.gather(*map(connect, tried)) for finding in some]
    for finding in missing:
        yield finding
    if len(tried) > ALL:
        sentence = (
            f"more than {ALL} machines: each one was only checked with the {NEIGHBOURS} that follow it in "
            "machineList"
        )
        yield Finding(machine=EACH, check=Check.PAIRS, level=Level.OK, sentence=sentence)
    elif len(tried) > 1 and not missing:
        sentence = f"all {len(tried)} machines that were reached can connect to each other"
        yield Finding(machine=EACH, check=Check.PAIRS, level=Level.OK, sentence=sentence)


def peers_of(number: int, count: int) -> Sequence[int]:
    """Return the numbers of the machines to which a machine connects, of ``count`` machines in a ring."""
    distance = count - 1 if count <= ALL else NEIGHBOURS
    return [(number + step) % count for step in range(1, distance + 1)]


async def _listen(
    reached: Mapping[int, AttendantClient], machines: Sequence[MachineConfig]
) -> dict[int, tuple[str, int, str]]:
    """Let the machines listen. Return address, port and word of each one that does."""

    async def listen(number: int) -> tuple[int, tuple[str, int, str]] | None:
        address, word = _address(machines[number]), secrets.token_hex(8)
        with contextlib.suppress(ServiceError):
            answer = await reached[number].ask(
                "listen", limit=ANSWER_S, address=address, word=word, seconds=LISTEN_S
            )
            return number, (address, int(answer["port"]), word)
        return None

    return dict(filter(None, await asyncio.gather(*map(listen, reached))))


async def _connect(
    attendant: AttendantClient,
    number: int,
    doors: Mapping[int, tuple[str, int, str]],
    machines: Sequence[MachineConfig],
) -> list[Finding]:
    """Let a machine connect to others. Return a finding for each one that it cannot reach."""
    title = machines[number].title
    try:
        answer = await attendant.ask("reach", limit=ANSWER_S, peers=list(doors.values()), seconds=REACH_S)
    except ServiceError as error:
        return [Finding(machine=title, check=Check.PAIRS, level=Level.FAULT, sentence=str(error))]
    return [
        Finding(
            machine=title,
            check=Check.PAIRS,
            level=Level.FAULT,
            sentence=f"cannot reach {machines[other].title} at {door[0]}, port {door[1]} ({why}): open ports "
            f"{FIRST_PORT} to {FIRST_PORT + PORTS - 1} of that machine, or set its gangAddress",
        )
        for (other, door), why in zip(doors.items(), answer["found"], strict=True)
        if why is not None
    ]


def _address(machine: MachineConfig) -> str:
    return machine.gang_address or machine.host
