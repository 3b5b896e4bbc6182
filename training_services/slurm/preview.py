"""The script that an experiment would submit, and whether the cluster would accept it."""

from __future__ import annotations

import re
from typing import NamedTuple

from training_services.base import TRIAL_GRACE, ServiceUnavailable
from training_services.placement.needs import Wants
from training_services.slurm.commands import Commands, Outcome
from training_services.slurm.config import SlurmConfig
from training_services.slurm.script import MARK, Naming, script

__all__ = ["Verdict", "first_script", "shown", "verdict"]

_ARCHIVE = re.compile(r"(?<=NNIMGR_END_OF_FILE'\n)\n")


class Verdict(NamedTuple):
    """Whether the cluster would accept a script; None if it does not answer. ``sentence`` says so."""

    accepted: bool | None
    sentence: str


def first_script(
    config: SlurmConfig, experiment_id: str, *, command: str, wants: Wants, prefix: str = ""
) -> str:
    """Return the script of an experiment's first allocation, without the keeper and its token.

    ``command``, ``wants``: command of a trial, and what one trial needs. ``prefix`` begins the name of the
    allocation.
    """
    keeper_id = f"{prefix}{experiment_id}-p-000000"
    return script(
        config,
        Naming(f"{MARK}-{keeper_id}", f"{MARK} unknown-yet"),
        experiment_id=experiment_id,
        keeper_id=keeper_id,
        command=command,
        wants=wants,
        grace=TRIAL_GRACE,
        manager="{}",
        archive=b"",
    )


def shown(text: str) -> str:
    """Return a script of ``first_script`` for users, with words where its keeper and its address would be."""
    found = text.replace("\n{}\n", "\n(the server's address, and a token)\n")
    return _ARCHIVE.sub("(the keeper, about 900 kB)\n", found)


async def verdict(commands: Commands, text: str) -> Verdict:
    """Let the cluster check the script. Nothing is submitted."""
    try:
        # without a controller, sbatch would try for a long time
        ping = await commands.run("scontrol", "ping")
        if " is UP" not in ping.output:
            return Verdict(None, f"Slurm's controller does not answer: {_down(ping)}")
        outcome = await commands.run("sbatch", "--test-only", text=text)
    except ServiceUnavailable as error:
        return Verdict(None, f"the cluster could not be asked: {error}")
    if outcome.code == 0:
        said = outcome.said.removeprefix("sbatch: ")
        return Verdict(True, f"the cluster would accept the allocation ({said})")
    if re.search(r"unable to contact|timed out|connection", outcome.errors, re.IGNORECASE):
        return Verdict(None, f"the cluster could not be asked: {outcome.said}")
    return Verdict(False, f"the cluster rejects the allocation: {outcome.said}")


def _down(ping: Outcome) -> str:
    """Return what ``scontrol ping`` says of controllers that do not answer, without its banner."""
    lines = [line.strip() for line in ping.output.splitlines() if " is DOWN" in line]
    return "; ".join(lines) or ping.said
