"""Trial with the published SDKs of NNI compared with our SDK: its CPU, and whether every metric arrives.

    python -m benchmarks.sdk_peers [--runs 15] [--trials 100] [--reports 20]

CPU is that of a whole trial outside an experiment, with its interpreter and its child processes; medians,
measured in turn. Then ``--trials`` trials with each published SDK run in our experiments, and every metric is
compared with the reported value. ``tests/e2e/sdks.py`` installs the SDKs; an SDK that cannot be installed
gives no row.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground, Look, create, plain_environ
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from benchmarks.sdk import TRIAL, cpu_ms
from nnimgr.home import Home
from tests.e2e.answers import Side
from tests.e2e.metric_routes import Reported, unlike
from tests.e2e.sdks import VERSIONS, NoSdk, sdk_python

PEER = "3.0"
WHOLE = 1 / 60
ABOVE = 1 / 300
REPORTING = """import nni
nni.get_next_parameter()
for number in range({reports}):
    nni.report_intermediate_result(nni.get_sequence_id() + number / 64)
nni.report_final_result(nni.get_sequence_id())
"""
LIMIT_S = 3_600
SHOWN = 5  # wrong metrics to show


def costs(ground: Ground, theirs: Path, *, runs: int) -> Iterator[Row]:
    """Measure our trial's CPU as a share of theirs."""
    ours = ground.python
    with_sdk, plain = ground.sdk_environ(), plain_environ()
    without = {key: value for key, value in with_sdk.items() if key != "PYTHONPATH"}
    measured = {
        "ours": ([str(ours), "-c", TRIAL], with_sdk),
        "ours_pass": ([str(ours), "-c", "pass"], plain),
        "theirs": ([str(theirs), "-c", TRIAL], without),
        "theirs_pass": ([str(theirs), "-c", "pass"], plain),
    }
    found: dict[str, list[float]] = {name: [] for name in measured}
    cwd = ground.folder("empty")  # an empty folder, so that nothing is imported from it
    for run in range(runs + 1):
        for name, (argv, environ) in measured.items():
            used = cpu_ms(argv, environ, cwd=cwd)
            if run:  # the first run writes the compiled modules
                found[name].append(used)
    ms = {name: statistics.median(values) for name, values in found.items()}
    details = {f"{name}_ms": value for name, value in ms.items()}
    yield Row(
        name=f"CPU of a whole trial with our SDK, as a share of one with NNI {PEER}'s",
        value=ms["ours"] / ms["theirs"],
        unit="",
        better=Better.LESS,
        limit=WHOLE,
        details={"runs": runs, **details},
    )
    yield Row(
        name=f"the same above python -c pass, as a share of NNI {PEER}'s",
        value=(ms["ours"] - ms["ours_pass"]) / (ms["theirs"] - ms["theirs_pass"]),
        unit="",
        better=Better.LESS,
        limit=ABOVE,
        details={"runs": runs},
    )


def complete(ground: Ground, version: str, python: Path, *, trials: int, reports: int) -> Row:
    """Check that every metric is shown as it was reported."""
    with ground.product(f"sdk-{version}") as own:
        experiment = create(
            own,
            "trials",
            REPORTING.format(reports=reports),
            trialCommand=f"{python} trial.py",
            trialConcurrency=2,
            maxTrialNumber=trials,
        )
        look = Look(own, experiment)
        look.wait_done(LIMIT_S)
        ran = [
            Reported(id=trial_id, sequence=sequence, texts=texts(sequence, reports), final=str(sequence))
            for trial_id, sequence in look.rows("SELECT trial_id, sequence FROM trials ORDER BY sequence")
        ]
        look.close()
        side = Side(port=own.port, places={}, token=Home(own.home).token())
        wrong = unlike(side, ran)
    return Row(
        name=f"trials with NNI {version}'s SDK whose metrics all come back, in order, from every route",
        value=0 if wrong else len(ran),
        unit=f"of {trials}",
        better=Better.MORE,
        limit=trials,
        details={"metrics": trials * (reports + 1)},
        note=", ".join(wrong[:SHOWN]),
    )


def texts(sequence: int, reports: int) -> list[str]:
    """Return a trial's reports before its end, as JSON texts."""
    return [repr(sequence + number / 64) for number in range(reports)]


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the shares of CPU, and compare the metrics of many trials."""
    for version in VERSIONS:
        try:
            python = sdk_python(version)
        except NoSdk as refusal:
            yield Row(name=f"NNI {version}'s SDK", value=None, unit="", better=Better.MORE, note=str(refusal))
            continue
        if version == PEER:
            yield from costs(ground, python, runs=options.runs)
        if options.trials:
            yield complete(ground, version, python, trials=options.trials, reports=options.reports)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--trials", type=int, default=100, help="with each SDK; 0: none")
    parser.add_argument("--reports", type=int, default=20, help="of each trial")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
