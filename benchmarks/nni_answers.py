"""Answers of NNI 3.0's own manager compared with ours, byte by byte, about the same trials.

    python -m benchmarks.nni_answers [--trials 100] [--sdk 3.0 2.10.1] [--record tests/e2e/nni_answers.json]

The experiment of ``tests/e2e/answers.py`` runs on NNI 3.0 with its own SDK, because its manager has no
channel for an older one, and on our server with each published SDK. Our trials run one at a time, in the
order of NNI's. Then each route is requested on both sides, and all answers are compared. The exit status is 1
if an answer differs. NNI takes two seconds for a trial, and ``python -m benchmarks.peers.setup nni`` installs
it. ``--record`` writes NNI's answers to a file for ``tests/e2e/test_nni_answers.py``; use it with ``--trials
10 --sdk``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ground import Ground
from benchmarks.peers import ask
from benchmarks.peers.setup import interpreter
from tests.e2e.answers import Answer, Side, config, in_order, recorded, reordered, start
from tests.e2e.product import free_port
from tests.e2e.sdks import VERSIONS, NoSdk, sdk_python

PEER = "3.0"
LOOK_S = 0.5
LIMIT_S = 60.0
TRIAL_LIMIT_S = 10.0
SHOWN = 5  # differences to show per route

Answers = Mapping[tuple[str, str], Answer]  # answers by route and by path with the trial's number


@contextlib.contextmanager
def on_nni(ground: Ground, manager: Path, trials: int) -> Iterator[Side]:
    """Yield NNI when its experiment is done."""
    python = sdk_python(PEER)
    place = ground.short_folder()
    code, work = place / "code", place / "work"
    wanted = config(code, python, trials) | {"experimentWorkingDirectory": str(work)}
    path, port = place / "exp.json", free_port()
    path.write_text(json.dumps(wanted), encoding="utf-8")
    command = [str(manager.parent / "nnictl"), "create", "--config", str(path), "--port", str(port)]
    try:
        with (place / "log").open("wb") as output:
            subprocess.run(
                command,
                env=ask.environ(manager, place),
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
        side = Side(port=port, places={str(python): "python", str(work): "work", str(code): "code"})
        wait_done(side, "NNI", trials)
        yield side
    finally:
        ask.end(place)


@contextlib.contextmanager
def on_ours(ground: Ground, version: str, trials: int) -> Iterator[Side]:
    """Yield our server when its experiment is done."""
    with ground.product(f"sdk-{version}") as own:
        side = start(own, sdk_python(version), trials)
        wait_done(side, "we", trials)
        yield side


def wait_done(side: Side, who: str, trials: int) -> None:
    """Wait for the end of the experiment. Raise RuntimeError."""
    deadline = time.monotonic() + LIMIT_S + TRIAL_LIMIT_S * trials
    while (status := side.status()) != "DONE":
        if status in ("ERROR", "STOPPED") or time.monotonic() > deadline:
            raise RuntimeError(f"{who}: the experiment is {status}")
        time.sleep(LOOK_S)


def answers(side: Side) -> Answers:
    """Return all answers of this side."""
    return {(route, path): answer for route, path, answer in side.answers()}


@dataclass(slots=True)
class Tally:
    """Results of the comparison of one route. ``differences``: one sentence each.

    ``reordered``: number of answers with equal records where only ours are in the order of the reports.
    """

    answers: int = 0
    reordered: int = 0
    records: int = 0
    size: int = 0
    differences: list[str] = field(default_factory=list)


def compare(wanted: Answers, given: Answers) -> dict[str, Tally]:
    """Compare by route. ``wanted`` has NNI's answers; both sides have the same trials."""
    found: dict[str, Tally] = {}
    for (route, path), theirs in wanted.items():
        ours = given[route, path]
        tally = found.setdefault(route, Tally())
        tally.answers += 1
        tally.size += len(theirs.text.encode())
        tally.records += len(theirs.items())
        difference = theirs.difference(ours)
        if difference and of_metrics(route) and reordered(theirs, ours):
            tally.reordered += 1
        elif difference:
            tally.differences.append(f"/{path}: NNI has {difference}")
    return found


def of_metrics(route: str) -> bool:
    """Return True if the route answers with metrics."""
    return route.startswith("metric-data")


def show(version: str, found: Mapping[str, Tally]) -> int:
    """Print the comparison by route, with the first differences. Return the number of differences."""
    print(f"\nNNI {PEER} with its own SDK, and ours with SDK {version}:")
    for route, tally in found.items():
        verdict = f"{len(tally.differences)} DIFFERENCES" if tally.differences else "equal"
        verdict += f", but for NNI's order in {tally.reordered}" if tally.reordered else ""
        counted = f"{tally.answers:>4} answers {tally.records:>7} records {tally.size:>10} bytes"
        print(f"  {route:<36} {counted}  {verdict}")
        for difference in tally.differences[:SHOWN]:
            print(f"      {difference}")
    tallies = found.values()
    count, records = sum(tally.answers for tally in tallies), sum(tally.records for tally in tallies)
    size, differences = sum(tally.size for tally in tallies), sum(len(tally.differences) for tally in tallies)
    print(
        f"  in all: {count} answers, {records} records, {size} bytes, {differences} differences", flush=True
    )
    return differences


def only_theirs(wanted: Answers, given: Answers) -> list[str]:
    """Return the headers that only NNI sends."""
    pairs = ((answer.headers, given[key].headers) for key, answer in wanted.items())
    return sorted({name for theirs, ours in pairs for name in theirs if name not in ours})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--sdk", nargs="*", choices=VERSIONS, default=VERSIONS, help="of our trials")
    parser.add_argument("--record", type=Path, help="the file to write NNI's answers to")
    parser.add_argument("--directory", type=Path, help="where to run; a temporary folder's parent by default")
    options = parser.parse_args()
    manager = interpreter("nni")
    if manager is None:
        sys.exit("NNI is not installed: python -m benchmarks.peers.setup nni")
    differences = 0
    try:
        with Ground(options.directory) as ground:
            with on_nni(ground, manager, options.trials) as nni:
                wanted = answers(nni)
            if options.record is not None:
                if not all(in_order(told) for (route, _), told in wanted.items() if of_metrics(route)):
                    sys.exit("NNI's order was one of chance this time: record it again")
                told = {path: answer for (_, path), answer in wanted.items()}
                options.record.write_text(recorded(told), encoding="utf-8")
            for version in options.sdk:
                with on_ours(ground, version, options.trials) as ours:
                    given = answers(ours)
                differences += show(version, compare(wanted, given))
                print("  headers that only NNI sends:", ", ".join(only_theirs(wanted, given)))
    except NoSdk as refusal:
        sys.exit(str(refusal))
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
