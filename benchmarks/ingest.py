"""Rate of durable metrics when trials report as fast as they can, and the server's memory meanwhile.

    python -m benchmarks.ingest [--trials 8] [--reports 40000] [--runs 3] [--peers]

The trials wait until all of them run, then report floats one call at a time. The rate is measured from the
first report to the moment when the last row is in the database. Then the content and order of all rows are
checked. The server's high-water mark is relative to its resident memory just before the first report.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import proc, program
from benchmarks.ground import Ground, Look, create, looks, server_pid
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from tests.e2e.product import Product

TRIAL = """import os, time
import nni
nni.get_next_parameter()
first = int(os.environ["NNI_TRIAL_SEQ_ID"]) * 1000000
reports = int(os.environ["BENCH_REPORTS"])
go = os.environ["BENCH_GO"]
while not os.path.exists(go):
    time.sleep(0.01)
with open("begun-%d" % first, "w") as file:
    file.write(repr(time.time()))
for number in range(reports):
    nni.report_intermediate_result((first + number) / 16)
"""
LIMIT_PER_S = 30_000
LIMIT_MIB = 32
PEER_REPORTS = 500
PAUSE_S = 0.02
BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Ingest:
    """Results of one run."""

    per_s: float
    mib: float
    server_us: float  # CPU of the server per metric
    keeper_us: float


def run(own: Product, name: str, *, command: str, trials: int, reports: int) -> Ingest:
    """Run one experiment. Raise RuntimeError if a row is missing, doubled, changed or out of order."""
    code = own.directory / name
    go = code / "go"
    own.environ |= {"BENCH_REPORTS": str(reports), "BENCH_GO": str(go)}
    experiment = create(
        own, name, TRIAL, trialCommand=command, trialConcurrency=trials, maxTrialNumber=trials
    )
    look = Look(own, experiment)
    for _ in looks(60):
        if look.one("SELECT count(*) FROM trials WHERE status = 'RUNNING'") == trials:
            break
    server = server_pid(own)
    keeper, _ = proc.keepers(str(look.directory))
    before = proc.memory_kib(server, "VmRSS")
    proc.reset_high_water(server)
    used = [proc.cpu(server), proc.cpu(keeper)]
    go.touch()
    last, durable_at = -1, 0.0
    high_water, after = before, list(used)
    for _ in looks(120 + trials * reports / 1000, PAUSE_S):
        number = look.one("SELECT max(number) FROM metrics") or 0
        now = time.time()
        if number != last:
            last, durable_at = number, now
            high_water = proc.memory_kib(server, "VmHWM")
            after = [proc.cpu(server), proc.cpu(keeper) or after[1]]
        if look.status()[0] == "DONE":
            break
    high_water = max(high_water, proc.memory_kib(server, "VmHWM"))
    check(look, trials=trials, reports=reports)
    look.close()
    begun = min(float(path.read_text(encoding="ascii")) for path in code.glob("begun-*"))
    micro = [1e6 * (b.own - a.own) / (trials * reports) for a, b in zip(used, after, strict=True) if a and b]
    return Ingest(
        per_s=trials * reports / (durable_at - begun),
        mib=(high_water - before) / 1024,
        server_us=micro[0],
        keeper_us=micro[1],
    )


def check(look: Look, *, trials: int, reports: int) -> None:
    """Compare every row with its trial's report, in order."""
    sequences = dict(look.rows("SELECT trial_id, sequence FROM trials WHERE status = 'SUCCEEDED'"))
    expected = dict.fromkeys(sequences, 0)
    after = 0
    while page := look.rows(
        "SELECT number, trial_id, position, sequence, type, value, text FROM metrics WHERE number > ? "
        "ORDER BY number LIMIT ?",
        after,
        BATCH,
    ):
        for number, trial_id, position, sequence, kind, value, text in page:
            at = expected[trial_id]
            reported = (sequences[trial_id] * 1_000_000 + at) / 16
            if (position, sequence, kind, value, text) != (at, at, "PERIODICAL", reported, repr(reported)):
                raise RuntimeError(f"row {number} of trial {trial_id} is not its report {at}: {text}")
            expected[trial_id] = at + 1
        after = page[-1][0]
    if len(expected) != trials or set(expected.values()) != {reports}:
        raise RuntimeError(f"stored are {sorted(expected.values())} rows, not {reports} of {trials} trials")


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure metrics per second, and the server's memory growth."""
    trials, reports, runs = options.trials, options.reports, options.runs
    found, disks = [], []
    for number in range(runs):
        disks.append(ground.fdatasync_ms())
        with ground.product("ingest") as own:
            found.append(
                run(own, f"run{number}", command=f"{ground.python} trial.py", trials=trials, reports=reports)
            )
    yield Row(
        name=f"durable metrics of {trials} trials",
        value=statistics.median(one.per_s for one in found),
        unit="per s",
        better=Better.MORE,
        limit=LIMIT_PER_S,
        details={
            "metrics": trials * reports,
            "runs": runs,
            "server_us": statistics.median(one.server_us for one in found),
            "keeper_us": statistics.median(one.keeper_us for one in found),
            "fdatasync_ms": statistics.median(disks),
        },
        peers=figures(peers.ask("stream", trials=trials, reports=PEER_REPORTS), "per_s"),
    )
    yield Row(
        name="server's high-water mark above its memory before the first metric",
        value=max(one.mib for one in found),
        unit="MiB",
        better=Better.LESS,
        limit=LIMIT_MIB,
        details={"metrics": trials * reports, "runs": runs},
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--reports", type=int, default=40_000, help="of each trial")
    parser.add_argument("--runs", type=int, default=3)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
