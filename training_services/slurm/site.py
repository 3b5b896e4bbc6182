"""Experiment's part of a cluster: submits its allocations, and knows what squeue shows of them."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from datetime import timedelta
from pathlib import Path

from training_services.addresses import KeeperDoors, Reach
from training_services.base import TRIAL_GRACE, Cause, ExperimentContext, ServiceUnavailable
from training_services.code import PackedCode
from training_services.keepers.host import HostGone
from training_services.placement.needs import Wants
from training_services.slurm.commands import Outcome
from training_services.slurm.config import SlurmConfig
from training_services.slurm.login import Login
from training_services.slurm.script import MARK, Naming, script
from training_services.slurm.table import Row
from trial_keeper import zipapp

__all__ = ["Site"]

# Errors of sbatch that another try cannot cure, because the configuration asks for what there is not.
_LASTING = re.compile(
    r"invalid|unrecognized|not available|not permitted|permission|violates|exceed|cannot be satisfied"
    r"|can not be satisfied|no partition|memory specification|more processors|unspecified",
    re.IGNORECASE,
)
_PASSING = re.compile(r"timed out|unable to contact|temporarily|MaxSubmit|retry|connection", re.IGNORECASE)


class Site:
    """Experiment's part of the cluster behind a login.

    ``database_id``: differs from that of all other experiments, also of those that are restored copies.
    """

    def __init__(
        self, context: ExperimentContext, config: SlurmConfig, doors: KeeperDoors, login: Login
    ) -> None:
        self.code = PackedCode(context)
        self.login = login
        self.database_id = ""
        self._context, self._config, self._doors = context, config, doors
        self._archive: bytes | None = None
        self._address: str | None = None  # of this machine, as nodes see it
        self._looking = asyncio.Lock()  # held while the address is being found

    def naming(self, keeper_id: str) -> Naming:
        return Naming(f"{MARK}-{keeper_id}", f"{MARK} {self.database_id}")

    def notes(self, keeper_id: str) -> Path:
        """Return the folder of the server's own files about a keeper."""
        return self._context.directory / "keepers" / keeper_id

    def row(self, keeper_id: str, job_id: str | None) -> Row | None:
        """Return what the last squeue has shown of an allocation. ``job_id``: its id in Slurm, if known."""
        table = self.login.table
        return None if table is None else table.find(*self.naming(keeper_id), job_id)

    async def reach(self) -> Reach:
        """Return the server's address for nodes, and start to listen there. Raises ServiceUnavailable."""
        address = self._context.nni_manager_ip or self._doors.url
        if address is None and self._config.login is None:
            async with self._looking:  # several allocations begin at the same time
                self._address = self._address or await self._own_address()
            address = self._address
        if address is None:
            raise ServiceUnavailable(
                "the address at which nodes of the cluster can reach this server is unknown: set nniManagerIp"
            )
        return await self._doors.network(address)

    async def _own_address(self) -> str | None:
        """Return the address of this machine from which it reaches Slurm's controller; None if unknown."""
        outcome = await self.login.commands.run("scontrol", "show", "config")
        found = re.search(
            r"^SlurmctldHost\[0\]\s*=\s*([^\s(]+)(?:\(([^)]+)\))?", outcome.output, re.MULTILINE
        )
        if outcome.code or found is None:
            raise ServiceUnavailable(f"Slurm's controller does not answer: {outcome.said}")
        return await asyncio.to_thread(_address_towards, found[2] or found[1])

    async def submit(self, keeper_id: str, *, wants: Wants, manager: str) -> str:
        """Submit the script of an allocation, and return its id in Slurm.

        Raises HostGone if the cluster will never accept it, and ServiceUnavailable if it is not known whether
        the cluster has it: then look for it before the next try.
        """
        text = await self.script(keeper_id, wants=wants, manager=manager)
        outcome = await self.login.submit(text)
        job_id = outcome.output.strip().partition(";")[0]
        if outcome.code == 0 and job_id.isdigit():
            return job_id
        raise _refusal(outcome)

    async def script(self, keeper_id: str, *, wants: Wants, manager: str) -> str:
        """Return the script that is submitted for an allocation."""
        if self._archive is None:
            self._archive = await asyncio.to_thread(zipapp.content, compiled=True)
        return script(
            self._config,
            self.naming(keeper_id),
            experiment_id=self._context.experiment_id,
            keeper_id=keeper_id,
            wants=wants,
            grace=TRIAL_GRACE,
            manager=manager,
            archive=self._archive,
        )

    @property
    def limit(self) -> timedelta:
        return self._config.limit


def _refusal(outcome: Outcome) -> Exception:
    sentence = f"sbatch: {outcome.said}"
    if outcome.code and _LASTING.search(outcome.errors) and not _PASSING.search(outcome.errors):
        return HostGone(f"Slurm rejects the allocation: {outcome.said}", Cause.USER_ERROR)
    return ServiceUnavailable(sentence)


def _address_towards(host: str) -> str | None:
    """Return the address of this machine from which it would send to the host. Nothing is sent."""
    try:
        found = socket.getaddrinfo(host, 6817, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            ours = ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
        if not ours.is_unspecified:
            return str(ours)
    return None
