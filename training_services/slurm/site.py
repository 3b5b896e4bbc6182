"""Experiment's part of a cluster: submits its allocations, and knows what squeue shows of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from training_services.addresses import KeeperDoors, Reach
from training_services.base import TRIAL_GRACE, Cause, ExperimentContext, ServiceError, ServiceUnavailable
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
    r"invalid|unrecognized|configuration is not available|not permitted|permission|violates|exceed"
    r"|cannot be satisfied|can not be satisfied|no partition|memory specification|more processors"
    r"|unspecified",
    re.IGNORECASE,
)
# Limits on the number of submitted jobs pass when others end; their names have "SubmitJob" or "MaxSubmit".
_PASSING = re.compile(
    r"timed out|unable to contact|temporarily|SubmitJob|MaxSubmit|retry|connection", re.IGNORECASE
)


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
        self._keeper: asyncio.Future[bytes] | None = None  # the program of the keeper

    def naming(self, keeper_id: str) -> Naming:
        return Naming(f"{MARK}-{keeper_id}", f"{MARK} {self.database_id}")

    def notes(self, keeper_id: str) -> Path:
        """Return the folder of the server's own files about a keeper."""
        return self._context.directory / "keepers" / keeper_id

    def row(self, keeper_id: str, job_id: str | None) -> Row | None:
        """Return what the last squeue has shown of an allocation. ``job_id``: its id in Slurm, if known."""
        table = self.login.table
        return None if table is None else table.find(*self.naming(keeper_id), job_id)

    def living(self, keeper_id: str) -> list[str]:
        """Return the ids of an allocation's jobs that have not ended, as the last squeue has shown them."""
        table = self.login.table
        return [] if table is None else table.living(*self.naming(keeper_id))

    async def reach(self) -> Reach:
        """Return the server's address for nodes, and start to listen there. Raises ServiceUnavailable."""
        address = self._context.nni_manager_ip or self._doors.url
        if address is None and self._config.login is None:
            address = await self.login.own_address()
        if address is None:
            raise ServiceUnavailable(
                "the address at which nodes of the cluster can reach this server is unknown: set nniManagerIp"
            )
        return await self._doors.network(address)

    async def prepare(self) -> None:
        """Make what all allocations need, and find the server's address, before the first is asked for."""
        self._pack_keeper()
        with contextlib.suppress(ServiceError, OSError):  # allocations try again, and report why it fails
            await asyncio.gather(self.code.pack(), self.reach())

    def _pack_keeper(self) -> asyncio.Future[bytes]:
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(asyncio.to_thread(_packed_keeper))
        return self._keeper

    async def submit(self, keeper_id: str, *, wants: Wants, manager: Mapping[str, Any]) -> str:
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

    async def script(self, keeper_id: str, *, wants: Wants, manager: Mapping[str, Any]) -> str:
        """Return the script that is submitted for an allocation."""
        gang = self._context.gang
        is_member = gang is not None and gang.nodes > 1
        return script(
            self._config,
            self.naming(keeper_id),
            experiment_id=self._context.experiment_id,
            keeper_id=keeper_id,
            command=self._context.trial_command,
            wants=wants,
            grace=TRIAL_GRACE,
            manager=json.dumps(manager),
            server=urlsplit(manager["urls"][0]).hostname if is_member else None,
            archive=await asyncio.shield(self._pack_keeper()),
        )

    @property
    def limit(self) -> timedelta:
        return self._config.limit


@cache
def _packed_keeper() -> bytes:
    """Return the program of the keeper, which takes a third of a second to compile."""
    return zipapp.content(compiled=True)


def _refusal(outcome: Outcome) -> Exception:
    sentence = f"sbatch: {outcome.said}"
    if outcome.code and _LASTING.search(outcome.errors) and not _PASSING.search(outcome.errors):
        return HostGone(f"Slurm rejects the allocation: {outcome.said}", Cause.USER_ERROR)
    return ServiceUnavailable(sentence)
