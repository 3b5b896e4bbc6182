"""Time from a trial's report to the assessor's decision, and from a report to the stop signal in the trial.

    python -m benchmarks.latency [--reports 1000] [--stops 40] [--peers]

Decision: two trials report 50 times a second; an assessor that answers at once records the age of each
report. Signal: trials report every 20 ms until the assessor judges one report bad; the trial records when
SIGTERM came.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground, Look, create
from benchmarks.peers.ask import Peers, figures
from benchmarks.report import Better, Row
from tests.e2e.product import Product, percentile

TRIAL = """
import os, signal, sys, time
import nni
reported = 0.0
def stopped(*_):
    now = time.time()
    with open(os.environ["BENCH_SIGNALS"], "a") as file:
        file.write("%.6f\\n" % (now - reported))
    os._exit(0)
signal.signal(signal.SIGTERM, stopped)
nni.get_next_parameter()
due = time.monotonic()
for number in range(int(os.environ["BENCH_REPORTS"])):
    due += 0.02
    time.sleep(max(0.0, due - time.monotonic()))
    reported = time.time()
    nni.report_intermediate_result(reported)
nni.report_final_result(0.5)
"""

ASSESSOR = """
import time
from nni.assessor import Assessor, AssessResult
class Probe(Assessor):
    def __init__(self, path, bad_at):
        self.file = open(path, "a", buffering=1)
        self.bad_at = bad_at
    def assess_trial(self, trial_job_id, trial_history):
        self.file.write("%.6f\\n" % (time.time() - float(trial_history[-1])))
        return AssessResult(len(trial_history) != self.bad_at)
"""
DECISION_MS, DECISION_P99_MS, SIGNAL_MS = 2.0, 8.0, 10.0
BAD_AT = 10  # number of the report that is judged bad, in the runs with stops
PEER_REPORTS = 200
PAUSE_S = 0.02


def run(
    own: Product, name: str, *, command: str, trials: int, reports: int, bad_at: int
) -> tuple[list[float], list[float]]:
    """Return (ages of reports at the assessor, times from report to signal), in milliseconds."""
    code = own.directory / name
    code.mkdir()
    (code / "probe.py").write_text(ASSESSOR, encoding="utf-8")
    ages, signals = code / "ages", code / "signals"
    signals.touch()
    own.environ |= {"BENCH_SIGNALS": str(signals), "BENCH_REPORTS": str(reports)}
    assessor: dict[str, Any] = {
        "className": "probe.Probe",
        "codeDirectory": str(code),
        "classArgs": {"path": str(ages), "bad_at": bad_at},
    }
    experiment = create(
        own,
        name,
        TRIAL,
        trialCommand=command,
        trialConcurrency=2,
        maxTrialNumber=trials,
        assessor=assessor,
    )
    look = Look(own, experiment)
    look.wait_done(60 + reports * PAUSE_S * 1.5 + trials)
    look.close()
    found = [[1e3 * float(line) for line in path.read_text().split()] for path in (ages, signals)]
    return found[0], found[1]


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure decisions, then signals."""
    command = f"{ground.python} trial.py"
    with ground.product("latency") as own:
        disk = ground.fdatasync_ms()
        ages, _ = run(own, "decision", command=command, trials=2, reports=options.reports, bad_at=-1)
        answers = peers.ask("latency", reports=PEER_REPORTS, pause=PAUSE_S)
        yield Row(
            name="report to decision, median",
            value=statistics.median(ages),
            unit="ms",
            better=Better.LESS,
            limit=DECISION_MS,
            details={"reports": len(ages), "fdatasync_ms": disk},
            peers=figures(answers, "p50"),
        )
        yield Row(
            name="report to decision, 99 of 100",
            value=percentile(ages, 99),
            unit="ms",
            better=Better.LESS,
            limit=DECISION_P99_MS,
            details={"reports": len(ages), "fdatasync_ms": disk},
            peers=figures(answers, "p99"),
        )
        disk = ground.fdatasync_ms()
        _, signals = run(own, "signal", command=command, trials=options.stops, reports=500, bad_at=BAD_AT)
        yield Row(
            name="report to the stop signal in the trial, median",
            value=statistics.median(signals),
            unit="ms",
            better=Better.LESS,
            limit=SIGNAL_MS,
            details={"stops": len(signals), "p90_ms": percentile(signals, 90), "fdatasync_ms": disk},
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=1000, help="of each of the two trials")
    parser.add_argument("--stops", type=int, default=40)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
