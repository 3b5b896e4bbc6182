"""Makes the script of an allocation, with the keeper and its address in it. Does no I/O.

No file system has to be shared. Slurm may launch the script a second time, on the same or another node, when
its controller was killed. Then nothing runs twice: trials start only by order of the server, and the server
refuses the keeper of a second launch.
"""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from training_services.keepers.caller import ADDRESS, LAUNCH
from training_services.placement.needs import Wants
from training_services.slurm.config import SlurmConfig

__all__ = ["MARK", "Naming", "launch_of", "script"]

MARK = "nnimgr"  # first word of the comment of all allocations
KILL_WAIT = timedelta(seconds=25)  # time between SIGTERM and SIGKILL that nearly all sites give
MOST_UNREPORTED = timedelta(days=1)
SPARE = timedelta(seconds=30)  # of the time before the limit, for stops and last reports
_END = "NNIMGR_END_OF_FILE"
# Prints the IPv4 address of the node from which it would send to a host. Nothing is sent.
_ADDRESS = (
    "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
    "s.connect((sys.argv[1], 9)); print(s.getsockname()[0])"
)


class Naming(NamedTuple):
    """What Slurm knows an allocation by. ``comment``: differs from that of other experiments."""

    name: str
    comment: str


def launch_of(instance: str | None) -> str | None:
    """Return the id of the job of Slurm in which the keeper with this instance runs; None if unknown."""
    parts = (instance or "").split(LAUNCH, 2)
    return parts[1] if len(parts) == 3 else None


def script(
    config: SlurmConfig,
    naming: Naming,
    *,
    experiment_id: str,
    keeper_id: str,
    command: str,
    wants: Wants,
    grace: timedelta,
    manager: str,
    archive: bytes,
    server: str | None = None,
) -> str:
    """Return the script for sbatch. ``manager``: content of the keeper's ``manager.json``.

    ``archive``: the program of the keeper, as a zip file. ``command``: that of the first trial. ``wants``:
    what the allocation needs where the configuration gives nothing. ``server``: the server's name or address,
    if the allocation is for a member of a gang: members reach each other where they call the server from.
    """
    options = "\n".join(f"#SBATCH {option}" for option in _options(config, naming, wants))
    names = {
        "NNIMGR_EXPERIMENT": experiment_id,
        "NNIMGR_KEEPER": keeper_id,
        "NNIMGR_FIRST_COMMAND": command,
        "NNIMGR_POD_GRACE_S": _seconds(grace),
        "NNIMGR_POD_WHOLE_GRACE_S": _seconds(KILL_WAIT),
        "NNIMGR_POD_EARLY_S": _seconds(config.signal_lead),
        "NNIMGR_POD_SAVE_S": _seconds(config.signal_lead - grace - SPARE),
        "NNIMGR_KEEPER_IDLE_S": _seconds(max(config.idle_time, timedelta(minutes=1))),
        "NNIMGR_KEEPER_UNREPORTED_S": _seconds(config.orphaned or MOST_UNREPORTED),
    }
    if config.per_trial or server is not None:
        names["NNIMGR_ONE_ATTEMPT"] = "1"
    if config.orphaned is not None:
        names["NNIMGR_KEEPER_ORPHAN_S"] = _seconds(config.orphaned)
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in names.items())
    packed = base64.encodebytes(archive).decode().rstrip()
    folder = config.work_directory or '"${SLURM_TMPDIR:-${TMPDIR:-/tmp}}"'
    gpus = 'export NNIMGR_HOST_GPUS="${CUDA_VISIBLE_DEVICES:-}"\n' if _gres(config, wants) else ""
    setup = f"{config.setup.rstrip()}\n" if config.setup.strip() else ""
    address, found = "", ""
    if server is not None:
        look = f"{config.python} -S -E -c {shlex.quote(_ADDRESS)} {shlex.quote(server)}"
        address = f"NNIMGR_ADDRESS=$({look}) || exit 1\n"
        found = f"{ADDRESS}$NNIMGR_ADDRESS"
    return f"""#!/bin/sh
{options}
umask 077
export SLURM_EXPORT_ENV=ALL
NNIMGR_WORK=$(mktemp -d {folder}/nnimgr-"$SLURM_JOB_ID"-XXXXXXXX) && mkdir "$NNIMGR_WORK/manager" || exit 1
trap 'rm -rf "$NNIMGR_WORK"' EXIT  # unless the keeper starts, which removes it later
export NNIMGR_POD_CLEAN="$NNIMGR_WORK"
{exports}
export NNIMGR_HOST_CPUS="${{SLURM_CPUS_ON_NODE:-}}"
export NNIMGR_HOST_MEMORY="${{SLURM_MEM_PER_NODE:-}}"
{gpus}cat > "$NNIMGR_WORK/manager/manager.json" <<'{_END}'
{manager}
{_END}
base64 -d > "$NNIMGR_WORK/keeper.pyz" <<'{_END}'
{packed}
{_END}
{setup}{address}export NNIMGR_POD_UID="slurm{LAUNCH}$SLURM_JOB_ID{LAUNCH}${{NNIMGR_WORK##*-}}{found}"
command -v {config.python} >/dev/null || {{ echo "there is no {config.python} here" >&2; exit 127; }}
exec {config.python} -S -E "$NNIMGR_WORK/keeper.pyz" wrap "$NNIMGR_WORK/manager" "$NNIMGR_WORK/run"
"""


def _options(config: SlurmConfig, naming: Naming, wants: Wants) -> Iterator[str]:
    """Yield the options of sbatch, one for each line of the script."""
    yield f"--job-name={naming.name}"
    yield f'--comment="{naming.comment}"'
    yield "--no-requeue"
    yield "--export=NONE"
    yield "--nodes=1"
    yield "--ntasks=1"
    yield f"--cpus-per-task={config.cpus or math.ceil(wants.cpus or 1)}"
    memory = config.memory or wants.memory
    if memory is not None:
        yield f"--mem={memory}M"
    gres = _gres(config, wants)
    if gres is not None:
        yield f"--gres=gpu:{gres}"
    yield f"--time={int(config.limit / timedelta(minutes=1))}"
    yield f"--signal=B:USR1@{_seconds(config.signal_lead)}"
    yield f"--output={'/dev/null' if config.logs is None else f'{config.logs}/%x-%j.log'}"
    for name in ("partition", "account", "qos"):
        if (value := getattr(config, name)) is not None:
            yield f"--{name}={value}"
    if config.constraint is not None:
        yield f'--constraint="{config.constraint}"'
    yield from config.extra


def _gres(config: SlurmConfig, wants: Wants) -> str | None:
    """Return the GPUs of an allocation, in the notation of Slurm after "gpu:"; None if it has none."""
    if config.gpus is not None:
        return config.gpus
    return str(math.ceil(wants.gpus)) if wants.gpus else None


def _seconds(duration: timedelta) -> str:
    return str(math.ceil(duration.total_seconds()))
