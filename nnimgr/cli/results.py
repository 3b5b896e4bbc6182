"""``nnictl experiment import`` and ``export``: read results from a file, and write them to a file."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnimgr.cli.progress import number, parameters_text
from nnimgr.cli.selection import client_of, select
from nnimgr.cli.table import Column, show_table
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.update import read_plain
from nnimgr.cli.written import written
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting
from nnimgr.home import Home
from nnimgr.spelling import capital

__all__ = ["export", "give_to_tuner", "import_data"]

_PAGE = 1000
_COLUMNS = (
    Column("NO.", "right"),
    Column("TRIAL"),
    Column("RESULT", "right", gives_way=True, least=10),
    Column("PARAMETERS", gives_way=True, least=20),
)
_WRITTEN_BY_EXPORT = "Write results to a file: nnictl experiment export ID --filename results.json"
_ENDINGS = ("", ".json", ".csv")  # endings of file names that leave no doubt about the format
_DEAF = frozenset({"random", "randomtuner"})  # names of tuners that do not learn from results


def import_data(args: argparse.Namespace, terminal: Terminal) -> int:
    """Pass results of other experiments to the tuner, from JSON in the format that ``export`` writes."""
    file = Path(args.filename)
    if file.suffix.lower() == ".csv" and file.exists():
        raise _for_from(args, file, "csv")
    records = read_plain(file)
    if isinstance(records, str) and "," in records.partition("\n")[0]:
        raise _for_from(args, file, "csv")
    if isinstance(records, dict) and "trials" in records:
        raise _for_from(args, file, "nni")
    if not isinstance(records, list):
        raise ClientError(
            f"{file} must hold a JSON list of objects with 'parameter' and 'value'.", mend=_WRITTEN_BY_EXPORT
        )
    for at, record in enumerate(records, 1):
        if (fault := _fault_of_record(record)) is not None:
            raise ClientError(
                f"{file}: the result number {at} of {len(records)} {fault}.", mend=_WRITTEN_BY_EXPORT
            )
    home = Home.find()
    entry = select(home, args.id, port=args.port, to_change=True)
    client = client_of(home, entry, port=args.port)
    kept = [{key: record[key] for key in ("parameter", "value")} for record in records]
    return give_to_tuner(client, entry.id, kept, terminal)


def _for_from(args: argparse.Namespace, file: Path, kind: str) -> ClientError:
    """Return the error for a file that --filename does not read, with the command that imports it."""
    entry = select(Home.find(), args.id, port=args.port, to_change=True)
    what = "a CSV file" if kind == "csv" else "a download of the dashboard"
    words = ["nnictl", "experiment", "import", "--from", kind, str(file), "--to", entry.id]
    return ClientError(
        f"{file} is {what}, but --filename reads only JSON that 'experiment export' has written.",
        mend=f"Import it: {shlex.join(words)}",
    )


def give_to_tuner(
    client: Client, experiment_id: str, records: Sequence[Mapping[str, Any]], terminal: Terminal
) -> int:
    """Pass results to the tuner of a running experiment, and report it.

    Return the exit code: 1 if the tuner has got none of them. Raise ClientError.
    """
    with waiting(f"importing the results ({len(records)}) into experiment {experiment_id}"):
        answer = client.post(
            "experiments", experiment_id, "import", body={"records": records}, timeout_s=None
        )
    tuner = str(client.get("experiments", experiment_id)["config"]["tuner"].get("name") or "")
    if tuner.lower() in _DEAF:
        terminal.warn(
            f"The tuner {tuner} learns nothing from results: they are kept, but change nothing. "
            f"Use another tuner: nnictl update tuner {experiment_id} --filename FILE"
        )
    # A server of an earlier version does not report what it leaves out.
    given, warnings = answer.get("given", len(records)), answer.get("warnings", [])
    nnis = "" if terminal.for_people or not given else "Import data success! "
    terminal.info(f"{nnis}{_were_given(given, len(records))} given to the tuner.")
    for sentence in warnings:
        terminal.warn(f"{capital(sentence)}.")
    if terminal.as_json:
        sent = {"id": experiment_id, "records": len(records)}
        terminal.json({**sent, "given": given, "warnings": warnings})
    return 0 if given or not records else 1


def _were_given(given: int, sent: int) -> str:
    """Return how many of the results that were sent the tuner gets, with a verb."""
    if given == sent:
        return "1 result was" if sent == 1 else f"{sent} results were"
    if not given:
        return "The result was not" if sent == 1 else f"None of the {sent} results was"
    return f"{given} of {sent} results {'was' if given == 1 else 'were'}"


def export(args: argparse.Namespace, terminal: Terminal) -> int:
    """Write the results in NNI's format to a file or to standard output. A terminal gets a table."""
    home = Home.find()
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    with waiting(f"reading the results of experiment {entry.id}"):
        trials = client.call("GET", "experiments", entry.id, "export", timeout_s=None)["trials"]
    results = Counter(trial["trialId"] for trial in trials)
    unusable = _unusable(client.get("experiments", entry.id), trials)
    if args.type is None and args.filename is None and terminal.for_people:
        return _show(trials, entry.id, terminal, unusable=unusable, intermediate=args.intermediate)
    metrics = _metrics(client, entry.id) if args.intermediate else None
    rows = [_row(trial, metrics=metrics, several=results[trial["trialId"]] > 1) for trial in trials]
    kind = args.type or ("csv" if (args.filename or "").lower().endswith(".csv") else "json")
    text = _csv(rows) if kind == "csv" else json.dumps(rows, indent=4)
    if args.filename is None:
        terminal.out.write(text if text.endswith("\n") else text + "\n")
        if unusable:
            count = "1 result is" if len(rows) == 1 else f"{len(rows)} results are"
            terminal.warn(f"{count} written{_addition(unusable, entry.id)}.")
        if not rows:
            terminal.warn(f"No trial has a result. See the trials: nnictl trial ls {entry.id}")
        return 0
    if args.type is None and Path(args.filename).suffix.lower() not in _ENDINGS:
        terminal.warn(
            f"{args.filename} is written as JSON. A file whose name ends with .csv is written as CSV; "
            "--type json or --type csv chooses the format for any name."
        )
    _write(Path(args.filename), text)
    written = "1 result was" if len(rows) == 1 else f"{len(rows)} results were"
    terminal.info(f"{written} written to {args.filename} as {kind.upper()}{_addition(unusable, entry.id)}")
    if terminal.as_json:
        terminal.json({"file": os.path.abspath(args.filename), "trials": len(rows)})
    return 0


def _unusable(profile: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the exported results are not usable, because they are not finite numbers.

    A tuner of the user's own may use any result: then no trial counts as one without a usable result.
    """
    return sum(trial["value"] is None for trial in trials) if profile.get("withoutResult") else 0


def _addition(unusable: int, experiment_id: str) -> str:
    if not unusable:
        return ""
    them = "1 of them is" if unusable == 1 else f"{unusable} of them are"
    return f"; {them} not usable (see why: nnictl trial ls {experiment_id})"


def _show(
    trials: Sequence[Mapping[str, Any]],
    experiment_id: str,
    terminal: Terminal,
    *,
    unusable: int,
    intermediate: bool,
) -> int:
    """Print the results as a table, and then the command that writes them to a file.

    ``intermediate``: the user wants intermediate results, too, which a table does not show.
    """
    rows = [
        (
            str(trial["sequence"]),
            trial["trialId"],
            trial["text"] if trial["value"] is None else number(trial["value"]),
            parameters_text(trial["parameters"]),
        )
        for trial in trials
    ]
    if not rows:
        terminal.say(f"No trial has a result. See the trials: nnictl trial ls {experiment_id}")
        return 0
    show_table(terminal, _COLUMNS, rows)
    count = "1 result" if len(rows) == 1 else f"{len(rows)} results"
    terminal.say(f"{count}{_addition(unusable, experiment_id)}")
    more = " --intermediate" if intermediate else ""
    terminal.say(
        "This table has no intermediate results. A file has them:" if more else "Write them to a file:"
    )
    terminal.say(f"  nnictl experiment export {experiment_id}{more} -f results.csv")
    return 0


def _fault_of_record(record: Any) -> str | None:
    if not isinstance(record, dict):
        return "is not an object with 'parameter' and 'value'"
    missing = next((key for key in ("parameter", "value") if key not in record), None)
    if missing is not None:
        return f"has no '{missing}'"
    return None if isinstance(record["parameter"], dict) else "has a 'parameter' that is not an object"


def _metrics(client: Client, experiment_id: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return the metrics of each trial, by the trial's id. Only the trial's last attempt counts.

    The metrics include the trial's final result.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    attempts: dict[str, int] = {}
    after: int | None = 0
    with waiting(lambda: f"reading the metrics of experiment {experiment_id}: {len(found)} trials so far"):
        while after is not None:
            page = client.get("experiments", experiment_id, "metrics", after=after, limit=_PAGE)
            for metric in page["metrics"]:
                trial_id, attempt = metric["trialId"], metric["attempt"]
                if attempt > attempts.get(trial_id, 0):
                    attempts[trial_id], found[trial_id] = attempt, []
                if attempt == attempts[trial_id]:
                    found[trial_id].append(metric)
            after = page["nextAfter"]
    return found


def _row(
    trial: Mapping[str, Any], *, metrics: Mapping[str, list[Mapping[str, Any]]] | None, several: bool
) -> dict[str, Any]:
    """Return a result as a row of the exported file, in NNI's format.

    ``several``: the trial also has results of other parameter sets.
    """
    row = {"parameter": trial["parameters"], "value": trial["text"], "trialJobId": trial["trialId"]}
    if metrics is not None:
        own = None if trial["parameterId"] is None else str(trial["parameterId"])
        row["intermediate"] = [
            metric["text"]
            for metric in metrics.get(trial["trialId"], [])
            if not several or metric["parameterId"] == own
        ]
    return row


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the results as CSV text, one line per result.

    A line has the parameters, the trial's id, and the result: as ``reward``, or one column for each of its
    keys. A key that is also the name of a parameter gets a prefix.
    """
    parameters, results = [], []
    for row in rows:
        given, value = row["parameter"], json.loads(row["value"])
        parameters.append(given if isinstance(given, dict) else {"value": given})
        results.append((row, value if isinstance(value, dict) else {"reward": value}))
    names = dict.fromkeys(name for each in parameters for name in each)
    lines = []
    for given, (row, result) in zip(parameters, results, strict=True):
        line = {**given, "trialJobId": row["trialJobId"]}
        line.update((f"metrics.{key}" if key in names else key, value) for key, value in result.items())
        if "intermediate" in row:
            line["intermediate"] = f"[{','.join(row['intermediate'])}]"
        lines.append(line)
    columns = list(dict.fromkeys((*names, *(key for line in lines for key in line))))
    columns = columns or ["trialJobId", "reward"]
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
    """Write ``text`` to the file ``path``, completely or not at all, because the disk may be full."""
    try:
        with written(path) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ClientError(
            f"{path} cannot be written: {error.strerror}.",
            mend="Write to another file: {command} --filename FILE",
        ) from error
