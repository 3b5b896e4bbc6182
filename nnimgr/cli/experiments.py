"""``nnictl experiment``: list, show, status, export."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nnimgr.cli.client import Client
from nnimgr.cli.selection import client_of, entries_of, experiment_line, select
from nnimgr.cli.terminal import CliError, Terminal, shown_time
from nnimgr.home import Home

__all__ = ["export", "list_all", "nni_status", "show", "status"]

_DRAINING = {"budget": "NO_MORE_TRIAL", "tuner": "TUNER_NO_MORE_TRIAL", "user": "STOPPING"}
_PAGE = 1000
_RULE = "-" * 88


def list_all(args: argparse.Namespace, terminal: Terminal) -> int:
    """The experiments of the index. Asks no server."""
    home = Home.find()
    entries = list(entries_of(home).values())
    if not entries:
        raise CliError("There is no experiment created before.")
    shown = [entry for entry in entries if args.all or entry.status != "STOPPED"]
    if terminal.as_json:
        keys = ("id", "name", "status", "port", "platform")
        rows = [{key: getattr(entry, key) for key in keys} for entry in shown]
        for row, entry in zip(rows, shown, strict=True):
            row["startedAt"] = entry.started_at and entry.started_at.isoformat()
            row["endedAt"] = entry.ended_at and entry.ended_at.isoformat()
            row["directory"] = str(entry.directory)
        terminal.json({"experiments": rows})
        return 0
    if not shown:
        terminal.warn(
            'There is no experiment running; "nnictl experiment list --all" lists the stopped ones.'
        )
        return 0
    terminal.say("\n".join([_RULE, "Experiment information", *map(experiment_line, shown), _RULE]))
    for entry in shown:
        if entry.status != "STOPPED" and entry.port and home.server_running(entry.port) is None:
            terminal.warn(
                f"No server runs on port {entry.port}: the next command about {entry.id} starts one, "
                "which takes up what was running."
            )
    return 0


def show(args: argparse.Namespace, terminal: Terminal) -> int:
    """The profile, in NNI's form (``--json``: as the server gives it)."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    profile = client_of(home, entry, port=args.port).get("experiments", entry.id)
    if terminal.as_json:
        terminal.json(profile)
        return 0
    terminal.nni_json(
        {
            "id": profile["id"],
            "params": {**profile["config"], "searchSpace": profile["searchSpace"]},
            "status": nni_status(profile),
            "execDuration": int(profile["durationS"]),
            "logDir": str(entry.directory),
            "startTime": shown_time(profile["createdAt"]),
            "endTime": shown_time(profile["endedAt"]),
            "nextSequenceId": sum(profile["counts"].values()),
            "revision": profile["lastNumber"],
            "bestTrial": profile["bestTrial"],
            "trialCounts": profile["counts"],
        }
    )
    return 0


def status(args: argparse.Namespace, terminal: Terminal) -> int:
    """NNI's ``check-status``: the status under NNI's name, and what went wrong."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    profile = client_of(home, entry, port=args.port).get("experiments", entry.id)
    errors = [error["sentence"] for error in profile["errors"]]
    notices = [notice["sentence"] for notice in profile["notices"]]
    if terminal.as_json:
        kept = {key: profile[key] for key in ("id", "status", "drain", "reason")}
        terminal.json({**kept, "errors": errors, "notices": notices})
        return 0
    shown = {"status": nni_status(profile), "errors": errors, "reason": profile["reason"]}
    terminal.nni_json({**shown, "notices": notices} if notices else shown)
    return 0


def nni_status(profile: Mapping[str, Any]) -> str:
    """The status under NNI's name."""
    if profile["status"] == "DRAINING":
        return _DRAINING.get(profile["drain"], "RUNNING")
    return str(profile["status"])


def export(args: argparse.Namespace, terminal: Terminal) -> int:
    """The results in NNI's form, to a file or to standard output."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    query = {"intermediate": "true"} if args.intermediate else {}
    trials = client.call("GET", "experiments", entry.id, "export", timeout_s=300.0, **query)["trials"]
    texts = _intermediates(client, entry.id) if args.intermediate else None
    rows = [_row(trial, texts=texts) for trial in trials]
    text = json.dumps(rows, indent=4) if args.type == "json" else _csv(rows)
    if args.filename is None:
        terminal.out.write(text if text.endswith("\n") else text + "\n")
        return 0
    _write(Path(args.filename), text)
    terminal.info(f"{len(rows)} results were written to {args.filename}")
    if terminal.as_json:
        terminal.json({"file": os.path.abspath(args.filename), "trials": len(rows)})
    return 0


def _intermediates(client: Client, experiment_id: str) -> dict[str, list[str]]:
    """All intermediate results by trial, as the trials wrote them, those of earlier attempts first."""
    found: dict[str, list[str]] = {}
    after: int | None = 0
    while after is not None:
        page = client.get(
            "experiments", experiment_id, "metrics", type="PERIODICAL", after=after, limit=_PAGE
        )
        for metric in page["metrics"]:
            found.setdefault(metric["trialId"], []).append(metric["text"])
        after = page["nextAfter"]
    return found


def _row(trial: Mapping[str, Any], *, texts: Mapping[str, list[str]] | None) -> dict[str, Any]:
    row = {"parameter": trial["parameters"], "value": trial["text"], "trialJobId": trial["trialId"]}
    if texts is not None:
        count = len(trial["intermediates"] or ())  # of the attempt that has the final result, the last one
        row["intermediate"] = texts.get(trial["trialId"], [])[-count:] if count else []
    return row


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """One line per trial: its parameters, its id, ``reward`` or the keys of its result."""
    lines = []
    for row in rows:
        line = dict(row["parameter"]) if isinstance(row["parameter"], dict) else {"value": row["parameter"]}
        line["trialJobId"] = row["trialJobId"]
        value = json.loads(row["value"])
        line.update(value if isinstance(value, dict) else {"reward": value})
        if "intermediate" in row:
            line["intermediate"] = f"[{','.join(row['intermediate'])}]"
        lines.append(line)
    columns = list(dict.fromkeys(key for line in lines for key in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({key: _cell(value) for key, value in line.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _write(path: Path, text: str) -> None:
    """Replace the file whole: a full disk leaves the old one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise CliError(f"{path} cannot be written: {error.strerror}.") from error
