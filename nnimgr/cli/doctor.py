"""``nnictl doctor``: checks every machine of a configuration, and prints one line for each check.

With ``--nni``, it prints one line for each field of the configuration that NNI treats differently.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import load
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting

if TYPE_CHECKING:
    from nnimgr.config import ExperimentConfig
    from training_services.findings import Finding

__all__ = ["doctor"]


def doctor(args: argparse.Namespace, terminal: Terminal) -> int:
    """Check the configuration, then all of its machines at the same time. Return 1 if a check fails."""
    if args.nni:
        from nnimgr.cli.nni import compare

        return compare(args.config, terminal)
    from nnimgr.config import ReferenceUnresolved
    from nnimgr.config.secrets import reveal_secrets

    loaded = load(args.config, terminal)
    config = loaded.config
    try:
        base = Path(args.config).absolute().parent
        service = reveal_secrets(config.training_service, environ=os.environ, base=base, secrets={})
    except ReferenceUnresolved as error:
        raise ClientError(f"The training service cannot be used: {error}") from error
    # Discard log messages, because they would repeat the findings of the checks.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        findings = asyncio.run(_examine(config, service, terminal))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    faults = [finding for finding in findings if finding.level == "FAULT"]
    if terminal.as_json:
        terminal.json([dataclasses.asdict(finding) for finding in findings])
    errors = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
    machines = ", ".join(sorted({finding.machine for finding in faults}))
    warned = len(loaded.warnings) + sum(finding.level == "WARNING" for finding in findings)
    warnings = f", {warned} warning{'' if warned == 1 else 's'}" if warned else ""
    terminal.say(f"{errors}: {machines}" if faults else f"No errors found{warnings}.")
    return 1 if faults else 0


async def _examine(config: ExperimentConfig, service: Any, terminal: Terminal) -> list[Finding]:
    from nnimgr.doctor import examine

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if task is not None:
            loop.add_signal_handler(number, task.cancel)  # as for SIGINT, so that nothing is left
    findings: list[Finding] = []
    waits: dict[str, str] = {}  # machine -> what its test trial waits for

    def sentence() -> str:
        if not terminal.err.isatty():
            return ""  # programs read only the findings
        for machine, reason in waits.items():
            waits_for = reason if reason.startswith("waits") else f"waits: {reason}"
            return f"the test trial on {machine} {waits_for}"
        # A person who has seen a finding knows that the check runs.
        return "" if findings else "checking the machines by running a short test trial on each"

    with waiting(sentence):
        async for finding in examine(config, service, tell=waits.__setitem__):
            findings.append(finding)
            waits.pop(finding.machine, None)
            terminal.say(f"{finding.level:<7} {finding.machine}: {finding.check}: {finding.sentence}")
    return findings
