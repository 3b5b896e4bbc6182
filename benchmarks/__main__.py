"""Run all benchmarks, and write the table.

    python -m benchmarks [--peers] [--only throughput ...] [--quick] [--table docs/benchmarks.md]

Each row is printed as soon as it is measured. A program that fails gives a row with its error. The exit
status is 1 if a limit is exceeded. ``--quick`` uses small sizes: it tests the programs, and its figures are
not meaningful.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers
from benchmarks.peers.setup import PEERS, interpreter
from benchmarks.report import Better, Row, emit, table

PROGRAMS = {
    "sdk": ("--runs", "10"),
    "sdk_peers": ("--runs", "2", "--trials", "2"),
    "startup": ("--runs", "2"),
    "tune": ("--runs", "2"),
    "latency": ("--reports", "100", "--stops", "6"),
    "slow_tuner": ("--reports", "100", "--requests", "60", "--pairs", "1"),
    "throughput": ("--trials", "60", "--pairs", "1"),
    "preloaded": ("--trials", "60", "--pairs", "1"),
    "checkpoints": ("--saves", "5", "--pauses", "3"),
    "populations": ("--members", "4", "--steps", "4"),
    "ask_tell": ("--trials", "20", "--pairs", "100", "--batch", "20", "--runs", "1"),
    "checkpoint_transfers": ("--size", "16777216"),
    "ingest": ("--reports", "5000", "--runs", "1"),
    "idle": ("--trials", "100", "--seconds", "5"),
    "many": ("--experiments", "10", "--seconds", "5"),
    "remote": (
        *("--trials", "60", "--pairs", "1", "--runs", "1"),
        *("--cut", "5", "--machines", "5", "--seconds", "5"),
    ),
    "kubernetes": ("--trials", "16", "--shared", "60", "--pairs", "1"),
    "slurm": ("--trials", "40", "--bare", "8", "--pairs", "1"),
    "gangs": ("--runs", "1", "--trials", "60", "--pairs", "1"),
    "ray_tasks": ("--trials", "40", "--bare", "40", "--pairs", "1"),
    "dashboard": ("--trials", "3000", "--few", "300", "--seconds", "3"),
    "dashboard_peers": ("--trials", "300", "--seconds", "10"),
    "kubernetes_watch": ("--pods", "1000", "--events", "2000", "--runs", "1"),
    "restores": (
        *("--ended", "100", "--paused", "4", "--running", "2", "--runs", "1"),
        *("--past-trials", "50", "--past-reports", "20"),
    ),
    "growth": ("--trials", "3000", "--runs", "1", "--past", "5000"),
}  # with the sizes of --quick
LIBRARIES = ("nnimgr", "sqlalchemy", "fastapi", "uvicorn", "pydantic")


def rows(ground: Ground, peers: Peers, names: Sequence[str], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of these programs, each as soon as it is measured."""
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        options_of = argparse.ArgumentParser()
        module.arguments(options_of)
        options = options_of.parse_args(PROGRAMS[name] if quick else ())
        try:
            yield from program.rows(module.measure, ground, peers, options)
        except Exception as error:  # the rows of other programs are still useful
            note = f"failed: {type(error).__name__}: {error}"
            yield Row(name=name, value=None, unit="", better=Better.MORE, limit=1, note=note)


def document(found: Sequence[Row], arguments: Sequence[str]) -> str:
    """Return the page with the figures, how they were measured, and on which machine."""
    installed = [peer.title for name, peer in PEERS.items() if interpreter(name) is not None]
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    disks = [row.details["fdatasync_ms"] for row in found if "fdatasync_ms" in row.details]
    disk = f"{min(map(_number, disks)):.2g} to {max(map(_number, disks)):.2g} ms" if disks else "not measured"
    command = " ".join(("python -m benchmarks", *arguments))
    machine = f"{len(os.sched_getaffinity(0))} CPUs ({_processor()}), Linux {platform.release()}"
    return f"""# Benchmarks

Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}.
`benchmarks/README.md` says how to read it. Figures of one machine and one moment: compare ratios, and figures
of the same run.

- {machine}; medians of one fdatasync: {disk}
- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}
- peers: {", ".join(installed) or "none installed"}

{table(found)}"""


def _number(value: object) -> float:
    return float(str(value))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def main() -> None:
    parser = program.parser(__doc__)
    names = list(PROGRAMS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PROGRAM")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", type=Path, help="the Markdown file to write")
    options = parser.parse_args()
    found: list[Row] = []
    with Ground(options.directory) as ground:
        peers = Peers(ground, wanted=options.peers)
        for row in rows(ground, peers, options.only, quick=options.quick):
            found.append(emit(row))
            if options.table is not None:  # after each row, so that an interrupted run keeps its rows
                options.table.write_text(document(found, _shown(options)), encoding="utf-8")
    sys.exit(any(row.ok is False for row in found))


def _shown(options: argparse.Namespace) -> list[str]:
    """Return the arguments that differ from the defaults, for the page."""
    shown = ["--peers"] if options.peers else []
    shown += ["--quick"] if options.quick else []
    if options.only != list(PROGRAMS):
        shown += ["--only", *options.only]
    return [*shown, "--table", "docs/benchmarks.md"]


if __name__ == "__main__":
    main()
