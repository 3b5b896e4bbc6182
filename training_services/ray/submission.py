"""Makes the job of an allocation, and what its first program gets from the server. Does no I/O.

No file system has to be shared, and what Ray shows of the job has no lasting secret: its command has the text
of ``trial_keeper.enrol``, and a ticket that the first program to show it exchanges for the keeper's token.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import shlex
import zlib
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from training_services.addresses import Reach
from training_services.keepers.caller import LAUNCH
from training_services.placement.needs import Wants
from training_services.ray.config import RayConfig
from trial_keeper import enrol
from trial_keeper.wire import PATH

__all__ = ["Size", "provision", "resources_of", "size_of", "submission"]

STOP = timedelta(seconds=3)  # Ray's usual time between SIGTERM and SIGKILL (RAY_JOB_STOP_WAIT_TIME_S)
GRACE = timedelta(seconds=1)  # of that time, for trials; then the keeper reports how they have ended
MOST_UNREPORTED = timedelta(days=1)
# Beginnings of the variables that Ray sets for its own workers. They also hold the cluster's token.
UNSET = ("RAY_", "OMP_NUM_THREADS", "PYTHONBREAKPOINT", "PYTHONUNBUFFERED")
_RUN = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv.pop(1))))"


class Size(NamedTuple):
    """Resources of an allocation: CPUs, GPUs, MiB of memory. None: Ray sets no memory apart."""

    cpus: float
    gpus: float
    memory: int | None


def size_of(config: RayConfig, wants: Wants) -> Size:
    """Return the size of an allocation. ``wants``: its needs where the configuration gives nothing.

    An allocation has at least some CPU: Ray runs a job without resources on the head node.
    """
    gpus = config.gpus if config.gpus is not None else wants.gpus or 0
    return Size(config.cpus or wants.cpus or 1, gpus, config.memory or wants.memory)


def resources_of(config: RayConfig, size: Size) -> dict[str, float]:
    """Return what an allocation needs, by Ray's names of resources."""
    needs = {
        "CPU": size.cpus,
        "GPU": size.gpus,
        "memory": float((size.memory or 0) << 20),
        **config.resources,
    }
    return {name: number for name, number in needs.items() if number}


def submission(
    config: RayConfig,
    *,
    ray_id: str,
    experiment_id: str,
    keeper_id: str,
    wants: Wants,
    reach: Reach,
    ticket: str,
) -> dict[str, Any]:
    """Return the body of ``POST /api/jobs/`` for an allocation."""
    size = size_of(config, wants)
    path = PATH.format(experiment_id=experiment_id, keeper_id=keeper_id).removesuffix("sync")
    order = {
        "urls": [f"{url.rstrip('/')}{path}enrol" for url in reach.urls],
        "fingerprint": reach.fingerprint,
        "authorities": reach.authorities,
        "ticket": ticket,
    }
    words = (config.python, "-S", "-E", "-c", _RUN, _program(), _encoded(json.dumps(order).encode()))
    setup = f"{config.setup.rstrip()}\n" if config.setup.strip() else ""
    optional = {
        "entrypoint_memory": None if size.memory is None else size.memory << 20,
        "entrypoint_resources": config.resources or None,
        "entrypoint_label_selector": config.labels or None,
        "runtime_env": config.runtime_env or None,
    }
    return {
        "submission_id": ray_id,
        "entrypoint": f"{setup}exec {shlex.join(words)}",
        "entrypoint_num_cpus": size.cpus,
        "entrypoint_num_gpus": size.gpus,
        "metadata": {"nnimgr_experiment": experiment_id, "nnimgr_keeper": keeper_id},
        **{name: value for name, value in optional.items() if value is not None},
    }


def provision(
    config: RayConfig,
    *,
    experiment_id: str,
    keeper_id: str,
    wants: Wants,
    launch: str,
    manager: Mapping[str, Any],
    program: bytes,
) -> dict[str, Any]:
    """Return the answer to the first program of the allocation's job (see ``trial_keeper.enrol``)."""
    size = size_of(config, wants)
    environment = {
        "NNIMGR_EXPERIMENT": experiment_id,
        "NNIMGR_KEEPER": keeper_id,
        "NNIMGR_POD_UID": f"ray{LAUNCH}{launch}",
        "NNIMGR_POD_GRACE_S": _seconds(GRACE),
        "NNIMGR_POD_WHOLE_GRACE_S": _seconds(STOP),
        "NNIMGR_KEEPER_IDLE_S": _seconds(max(config.idle_time, timedelta(minutes=1))),
        "NNIMGR_KEEPER_UNREPORTED_S": _seconds(config.orphaned or MOST_UNREPORTED),
        "NNIMGR_HOST_CPUS": f"{math.ceil(size.cpus)}",
    }
    if size.memory is not None:
        environment["NNIMGR_HOST_MEMORY"] = str(size.memory)
    if config.orphaned is not None:
        environment["NNIMGR_KEEPER_ORPHAN_S"] = _seconds(config.orphaned)
    copied = {"NNIMGR_POD_WHOLE_GRACE_S": "RAY_JOB_STOP_WAIT_TIME_S"}
    if size.gpus:
        copied["NNIMGR_HOST_GPUS"] = "CUDA_VISIBLE_DEVICES"
    return {
        "manager": manager,
        "program": _encoded(program),
        "arguments": ["guard"],
        "folder": config.work_directory,
        "unset": UNSET,
        "keep": list(config.variables),
        "copied": copied,
        "environment": environment,
    }


@cache
def _program() -> str:
    return _encoded(zlib.compress(inspect.getsource(enrol).encode(), 9))


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _seconds(duration: timedelta) -> str:
    return str(math.ceil(duration.total_seconds()))
