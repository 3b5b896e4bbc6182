"""The job that an experiment would submit, and whether the cluster could run it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from training_services.addresses import Reach
from training_services.base import ServiceUnavailable
from training_services.placement.needs import Wants
from training_services.ray.cluster import Cluster
from training_services.ray.config import RayConfig
from training_services.ray.records import misfit
from training_services.ray.submission import resources_of, size_of, submission

__all__ = ["Verdict", "first_job", "verdict"]


class Verdict(NamedTuple):
    """Whether the cluster could run a job; None if it does not answer. ``sentence`` says so."""

    accepted: bool | None
    sentence: str


def first_job(config: RayConfig, experiment_id: str, *, wants: Wants, prefix: str = "") -> Mapping[str, Any]:
    """Return the job of an experiment's first allocation, with words where its program and ticket would be.

    ``wants``: what one trial needs; ``prefix`` begins the allocation's name.
    """
    keeper_id = f"{prefix}{experiment_id}-p-000000"
    body = submission(
        config,
        ray_id=f"nnimgr-{keeper_id}-00000000",
        experiment_id=experiment_id,
        keeper_id=keeper_id,
        wants=wants,
        reach=Reach([]),
        ticket="",
    )
    *command, _, _ = shlex.split(body["entrypoint"].rpartition("exec ")[2])
    setup = f"{config.setup.rstrip()}\n" if config.setup.strip() else ""
    words = "(the first program, 2 kB) (the server's address, and a ticket for the keeper's token)"
    return {**body, "entrypoint": f"{setup}exec {shlex.join(command)} {words}"}


async def verdict(cluster: Cluster, config: RayConfig, *, wants: Wants) -> Verdict:
    """Ask the cluster whether a node has what an allocation needs. Nothing is submitted."""
    try:
        await cluster.check()
        nodes = await cluster.nodes()
    except ServiceUnavailable as error:
        return Verdict(None if cluster.session is None else False, str(error))
    missing = misfit(resources_of(config, size_of(config, wants)), nodes)
    if missing is not None:
        # A cluster that grows by itself may have such a node later.
        return Verdict(None, f"the cluster could not run the allocation now: {missing}")
    found = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return Verdict(True, f"the cluster at {config.address} answers and has {found}; the allocation fits")
