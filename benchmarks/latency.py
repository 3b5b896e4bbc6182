"""From a trial's report to the assessor's decision, and from a report to the stop signal in the trial.

    python -m benchmarks.latency [--reports 1000] [--stops 40]

Decision: two trials report 50 times a second; an assessor that answers at once notes how old each report is.
Signal: trials report every 20 ms until the assessor judges one report bad; the trial notes when SIGTERM came.
Beside both stands the fdatasync median of the disk at that moment.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from tests.e2e.product import Product, fdatasync_ms, percentile, product

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


def run(
    own: Product, name: str, *, trials: int, reports: int, bad_at: int
) -> tuple[list[float], list[float]]:
    """(ages of reports at the assessor, report to signal), in milliseconds."""
    code = own.directory / name
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    (code / "probe.py").write_text(ASSESSOR)
    own.environ |= {"BENCH_SIGNALS": str(code / "signals"), "BENCH_REPORTS": str(reports)}
    config: dict[str, Any] = {
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": "exec python3 trial.py",
        "trialCodeDirectory": str(code),
        "trialConcurrency": 2,
        "maxTrialNumber": trials,
        "tuner": {"name": "Random"},
        "assessor": {
            "className": "probe.Probe",
            "codeDirectory": str(code),
            "classArgs": {"path": str(code / "ages"), "bad_at": bad_at},
        },
    }
    experiment = own.create(name, config)
    profile = own.wait(experiment, limit_s=60 + reports * 0.03 + trials)
    if profile["status"] != "DONE":
        raise RuntimeError(f"{name}: {profile}")
    own.nnictl("stop", experiment)
    ages = [1e3 * float(line) for line in (code / "ages").read_text().split()]
    signals = code / "signals"
    return ages, [1e3 * float(line) for line in signals.read_text().split()] if signals.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=1000, help="of each of the two trials")
    parser.add_argument("--stops", type=int, default=40)
    options = parser.parse_args()
    with product("nnimgr-latency-") as own:
        disk = fdatasync_ms(own.directory)
        ages, _ = run(own, "decision", trials=2, reports=options.reports, bad_at=-1)
        row: dict[str, Any] = {
            "benchmark": "latency",
            "reports": len(ages),
            "decision_ms_p50": round(statistics.median(ages), 2),
            "decision_ms_p99": round(percentile(ages, 99), 2),
        }
        _, signals = run(own, "signal", trials=options.stops, reports=500, bad_at=10)
        row |= {
            "stops": len(signals),
            "signal_ms_p50": round(statistics.median(signals), 2),
            "signal_ms_p90": round(percentile(signals, 90), 2),
            "fdatasync_ms_before": round(disk, 2),
            "fdatasync_ms_after": round(fdatasync_ms(own.directory), 2),
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
