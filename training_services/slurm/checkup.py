"""Checks of ``nnictl doctor`` for Slurm: does it answer, does it accept our script, can it run a trial?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from training_services.examination import Examination, look_at_code, run_one_trial
from training_services.findings import Check, Finding, Level
from training_services.placement.needs import Wants
from training_services.slurm.config import SlurmConfig
from training_services.slurm.preview import first_script, verdict
from training_services.slurm.service import SlurmService, commands_of

__all__ = ["examine"]

TITLE = "Slurm"
TRIAL_S = 300.0  # the allocation may have to wait in the queue


def examine(examination: Examination, config: SlurmConfig) -> Sequence[AsyncIterator[Finding]]:
    """Return iterators of findings: one for the trial code that all nodes get, one for the cluster."""
    return [look_at_code(examination.context), _cluster(examination, config)]


async def _cluster(examination: Examination, config: SlurmConfig) -> AsyncIterator[Finding]:
    """Yield findings about the cluster. A test trial is run in an allocation of its own."""
    context = examination.for_one_trial()
    config = config.in_environment(context.environ)

    commands = commands_of(config, context.environ, examination.tools)
    try:
        script = first_script(
            config,
            context.experiment_id,
            command=context.trial_command,
            wants=Wants.of(examination.context),
        )
        accepted, sentence = await verdict(commands, script)
    finally:
        await commands.close()
    level = Level.OK if accepted else Level.FAULT
    yield Finding(machine=TITLE, check=Check.CONNECTION, level=level, sentence=sentence)
    if not accepted:
        return
    small = config.model_copy(update={"gpus": None, "cpus": 1, "memory": None})
    service = SlurmService(context, small, examination.tools)
    yield await run_one_trial(examination, TITLE, service, context.experiment_id, limit_s=TRIAL_S)
