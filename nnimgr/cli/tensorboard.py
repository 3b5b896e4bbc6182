"""``nnictl tensorboard``: starts, lists and stops the TensorBoards of an experiment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.times import when
from nnimgr.cli.trials import trials_named
from nnimgr.client.calls import Client
from nnimgr.client.waits import waiting
from nnimgr.home import Home

__all__ = ["list_all", "start", "stop"]

_ALL = "all"
_LIVING = ("RUNNING", "DOWNLOADING_DATA", "FAIL_DOWNLOAD_DATA")
_COLUMNS = (
    Column("TASK"),
    Column("STATUS"),
    Column("TRIALS", "right"),
    Column("STARTED"),
    Column("ADDRESS", gives_way=True, least=12),
)


def start(args: argparse.Namespace, terminal: Terminal) -> int:
    """Start a TensorBoard that shows the named trials, or all trials."""
    client, experiment_id = _client(args)
    words = args.trial_id or []
    ids = None
    if words and words != [_ALL]:
        ids = [trial["id"] for trial in trials_named(client, experiment_id, words)]
    path = ("experiments", experiment_id, "tensorboards")
    with waiting(lambda: str(client.get(*path)["now"])):
        task = client.post(*path, body={"trialIds": ids}, timeout_s=None)
    if terminal.as_json:
        terminal.json(task | {"url": _address(client, task)})
        return 0
    count = len(task["trialIds"])
    terminal.info(f"TensorBoard {task['id']} starts. It shows {count} trial{'s' if count != 1 else ''}.")
    terminal.say(_address(client, task))
    terminal.info(
        "A browser has to be signed in: nnictl webui url\n"
        f"Stop it: nnictl tensorboard stop {experiment_id} {task['id']}"
    )
    return 0


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """List the TensorBoards that the experiment's server has started."""
    client, experiment_id = _client(args)
    tasks = _tasks(client, experiment_id)
    if terminal.as_json:
        terminal.json({"tensorboards": [task | {"url": _address(client, task)} for task in tasks]})
        return 0
    if not tasks:
        terminal.info(f"No TensorBoard was started. Start one: nnictl tensorboard start {experiment_id}")
        return 0
    show_table(terminal, _COLUMNS, (_row(client, task) for task in tasks))
    for task in tasks:
        if task["message"] is not None:
            terminal.say(f"{task['id']}: {task['message']}")
    return 0


def stop(args: argparse.Namespace, terminal: Terminal) -> int:
    """Stop one TensorBoard, or all TensorBoards of the experiment."""
    client, experiment_id = _client(args)
    ids = [args.task]
    if args.task is None:
        ids = [task["id"] for task in _tasks(client, experiment_id) if task["status"] in _LIVING]
    path = ("experiments", experiment_id, "tensorboards")
    stopped = [client.call("DELETE", *path, each) for each in ids]
    if terminal.as_json:
        terminal.json({"stopped": ids})
    elif not stopped:
        terminal.info(f"No TensorBoard of experiment {experiment_id} runs.")
    for task in stopped:
        terminal.info(f"TensorBoard {task['id']} is stopped.")
    return 0


def _client(args: argparse.Namespace) -> tuple[Client, str]:
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    client.mends = {**client.mends, 404: "", 409: ""}  # the server's message names a command already
    return client, entry.id


def _tasks(client: Client, experiment_id: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = client.get("experiments", experiment_id, "tensorboards")["tensorboards"]
    return tasks


def _address(client: Client, task: Mapping[str, Any]) -> str:
    return f"{client.url.rstrip('/')}{task['path']}"


def _row(client: Client, task: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        task["id"],
        task["status"],
        str(len(task["trialIds"])),
        when(task["startedAt"]),
        _address(client, task) if task["status"] in _LIVING else "",
    )
