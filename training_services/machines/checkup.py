"""Checks of ``nnictl doctor`` for machines: connection, resources, and a trial that does nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from training_services.base import ServiceError
from training_services.examination import Examination, look_at_code, run_one_trial
from training_services.findings import Check, Finding, Level, judge
from training_services.machines.local import LocalConfig, LocalService
from training_services.machines.pairs import examine_pairs
from training_services.machines.remote import MachineConfig, RemoteConfig, RemoteService
from training_services.ssh.target import Target
from trial_keeper.machine.facts import facts

__all__ = ["examine_local", "examine_remote"]

FACTS_S = 30.0
HERE = "this machine"


def examine_remote(examination: Examination, config: RemoteConfig) -> Sequence[AsyncIterator[Finding]]:
    """Return iterators of findings: one for the trial code, and one for each machine over SSH.

    If trials run on several machines, another one is for the machines' connections to each other.
    """
    machines = [_remote(examination, config, machine) for machine in config.machine_list]
    gang = examination.context.gang
    pairs = [] if gang is None or gang.nodes == 1 else [examine_pairs(examination, config)]
    return [look_at_code(examination.context), *machines, *pairs]


def examine_local(examination: Examination, config: LocalConfig) -> Sequence[AsyncIterator[Finding]]:
    """Return an iterator of findings about the server's own machine."""
    return [_local(examination, config)]


async def _remote(
    examination: Examination, config: RemoteConfig, machine: MachineConfig
) -> AsyncIterator[Finding]:
    title, tools = machine.title, examination.tools
    target = Target.of(machine, config, environ=examination.context.environ)
    share = tools.machines.share(target, lambda: None)
    try:
        began = time.monotonic()
        try:
            link = await share.link()
            took = time.monotonic() - began
            asked_at = time.time()
            there = await link.attendant.ask("facts", limit=FACTS_S)
            now = (asked_at + time.time()) / 2
        except ServiceError as error:
            yield Finding(machine=title, check=Check.CONNECTION, level=Level.FAULT, sentence=str(error))
            return
        sentence = f"logged in as user {there['user']} of {there['host']} in {took:.1f} s"
        yield Finding(machine=title, check=Check.CONNECTION, level=Level.OK, sentence=sentence)
        needs = examination.needs(machine.gpu_indices, python_path=machine.python_path)
        for finding in judge(title, there, needs=needs, ahead_s=there["time"] - now):
            yield finding
        alone = config.model_copy(update={"machine_list": [machine], "clean_up": True})
        context = examination.for_one_trial()
        service = RemoteService(context, alone, tools)
        yield await run_one_trial(examination, title, service, context.experiment_id)
    finally:
        await share.close()


async def _local(examination: Examination, config: LocalConfig) -> AsyncIterator[Finding]:
    found = await asyncio.to_thread(facts, str(examination.home))
    for finding in judge(HERE, found, needs=examination.needs(config.gpu_indices), ahead_s=0.0):
        yield finding
    context = examination.for_one_trial()
    context.directory.mkdir(mode=0o700, parents=True)
    service = LocalService(context, config, examination.tools)
    yield await run_one_trial(examination, HERE, service, context.experiment_id)
