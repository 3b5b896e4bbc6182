"""Parts of ``nnictl doctor`` that all platforms share: inputs of the checks, and checks of code and
trials.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from training_services.base import ExperimentContext, ServiceError, TrainingService, shown_bytes
from training_services.code import pack_code
from training_services.findings import Check, Finding, Level, Needs
from training_services.rehearsal import rehearse
from training_services.tools import ServiceTools

__all__ = ["Examination", "look_at_code", "new_experiment_id", "run_one_trial"]

TRIAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Examination:
    """Inputs of the checks of ``nnictl doctor``.

    ``home``: the server's folder, where experiments are stored. ``tell`` gets a machine's title and a
    sentence about what the test trial waits for there.
    """

    context: ExperimentContext
    tools: ServiceTools
    home: Path
    tell: Callable[[str, str], object]

    def needs(self, indices: Sequence[int] | None, *, python_path: str | None = None) -> Needs:
        """Return the requirements of a trial on a machine. ``indices``: GPUs there that trials may use."""
        return Needs(gpus=self.context.trial_gpu_number, gpu_indices=indices, python_path=python_path)

    def for_one_trial(self) -> ExperimentContext:
        """Return the description of a new experiment for one test trial without a GPU.

        The trial needs no GPU, because other trials may use the GPUs. It is one process on one machine.
        """
        experiment_id = new_experiment_id()
        return replace(
            self.context,
            experiment_id=experiment_id,
            directory=self.context.directory.with_name(experiment_id),
            trial_gpu_number=None,
            gang=None,
        )


def new_experiment_id() -> str:
    """Return a random id for an experiment that exists only during one check of ``nnictl doctor``."""
    return f"doctor-{secrets.token_hex(4)}"


async def look_at_code(context: ExperimentContext) -> AsyncIterator[Finding]:
    """Pack the trial code as for a remote machine, and yield one finding about its size or an error."""
    title = "all machines"
    try:
        packed = await asyncio.to_thread(pack_code, context.trial_code_directory, context.directory)
    except ServiceError as error:
        yield Finding(machine=title, check=Check.CODE, level=Level.FAULT, sentence=str(error))
        return
    sizes = f"{shown_bytes(packed.content)}, packed {shown_bytes(packed.size)}"
    sentence = f"the trial code {context.trial_code_directory} is {sizes}"
    yield Finding(machine=title, check=Check.CODE, level=Level.OK, sentence=sentence)


async def run_one_trial(
    examination: Examination,
    machine: str,
    service: TrainingService,
    experiment_id: str,
    *,
    limit_s: float = TRIAL_S,
) -> Finding:
    """Run a trial whose command does nothing, and return a finding that says whether it succeeded."""
    tell = functools.partial(examination.tell, machine)
    try:
        took = await rehearse(service, experiment_id=experiment_id, limit_s=limit_s, tell=tell)
    except ServiceError as error:
        return Finding(machine=machine, check=Check.TRIAL, level=Level.FAULT, sentence=str(error))
    sentence = f"a trial of nnimgr's own (not trialCommand) ran in {took:.1f} s, and its results have arrived"
    return Finding(machine=machine, check=Check.TRIAL, level=Level.OK, sentence=sentence)
