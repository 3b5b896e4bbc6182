"""``nnictl trainingservice``: registers a user's own training services as platforms, and lists platforms."""

from __future__ import annotations

import argparse

from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from training_services import registry
from training_services.userfile import UserFileError

__all__ = ["list_all", "register", "unregister"]


def register(args: argparse.Namespace, terminal: Terminal) -> int:
    """Register the training service that an importable module defines."""
    try:
        name = registry.register(args.package)
    except ValueError as error:
        mend = None
        if isinstance(error, registry.MissingPlatform):
            mend = "Install the module in the Python of nnictl, or add its directory to PYTHONPATH."
        elif isinstance(error, registry.BrokenPlatform):
            mend = "Such a module is described in docs/writing-a-training-service.md."
        raise ClientError(f"{error}.", mend=mend) from error
    if terminal.as_json:
        terminal.json({"registered": name})
    terminal.info(f"{name} registered successfully!")
    return 0


def unregister(args: argparse.Namespace, terminal: Terminal) -> int:
    try:
        found = registry.unregister(args.package)
    except UserFileError as error:
        raise ClientError(f"{error}.") from error
    if not found:
        raise ClientError(
            f"There is no registered training service {args.package}.",
            mend="See: nnictl trainingservice list",
        )
    if terminal.as_json:
        terminal.json({"unregistered": args.package})
    terminal.info(f"{args.package} unregistered successfully!")
    return 0


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List all platforms, and which module or package each comes from."""
    try:
        found = dict(sorted(registry.sources().items()))
    except UserFileError as error:
        raise ClientError(f"{error}.") from error
    if terminal.as_json:
        terminal.json({"trainingServices": [{"platform": name, "source": at} for name, at in found.items()]})
        return 0
    show_table(terminal, (Column("PLATFORM"), Column("SOURCE", gives_way=True, least=20)), found.items())
    return 0
