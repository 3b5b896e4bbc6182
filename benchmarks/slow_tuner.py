"""Effect of a tuner that takes 30 s per suggestion on other experiments of the same server.

    python -m benchmarks.slow_tuner [--reports 500] [--requests 400]

An experiment whose trials report 50 times a second has an assessor that answers at once and records the age
of each report. Meanwhile a client requests that experiment and its trials, in turn. This is measured alone,
then beside two experiments with slow tuners, several times. A row is the median of the second over the first.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground, create
from benchmarks.latency import ASSESSOR, TRIAL
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from nnimgr.home import Home
from tests.e2e.product import Product

SLOW = """
import time
from nni.tuner import Tuner
class Slow(Tuner):
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        time.sleep(30)
        return {"x": 0.5}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
"""
RATIO = 1.2
PAUSE_S = 0.02


class Client:
    """Sends requests to a product's server over one connection."""

    def __init__(self, own: Product) -> None:
        self._headers = {"Authorization": f"Bearer {Home(own.home).token()}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> float:
        """Return the milliseconds until the whole answer has arrived."""
        before = time.perf_counter()
        self._connection.request("GET", f"/api/v1/experiments/{path}", headers=self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status}")
        return 1e3 * (time.perf_counter() - before)


@contextlib.contextmanager
def thinking(own: Product, name: str) -> Iterator[None]:
    """Run two experiments whose tuners think, until the end of the block."""
    code = own.directory / name
    code.mkdir()
    (code / "slow.py").write_text(SLOW, encoding="utf-8")
    tuner = {"className": "slow.Slow", "codeDirectory": str(code)}
    ids = [create(own, name, "", trialCommand="true", trialConcurrency=1, tuner=tuner) for _ in range(2)]
    try:
        yield
    finally:
        for experiment_id in ids:
            own.nnictl("stop", experiment_id)


def measured(own: Product, name: str, *, command: str, reports: int, requests: int) -> tuple[float, float]:
    """Return medians in ms: a report's age at the assessor's decision, and the time of a request."""
    code = own.directory / name
    code.mkdir()
    (code / "probe.py").write_text(ASSESSOR, encoding="utf-8")
    ages = code / "ages"
    own.environ |= {"BENCH_SIGNALS": os.devnull, "BENCH_REPORTS": str(reports)}
    assessor: dict[str, Any] = {
        "className": "probe.Probe",
        "codeDirectory": str(code),
        "classArgs": {"path": str(ages), "bad_at": -1},
    }
    experiment_id = create(
        own, name, TRIAL, trialCommand=command, trialConcurrency=2, maxTrialNumber=2, assessor=assessor
    )
    with contextlib.closing(Client(own)) as client:
        while not ages.exists() or not ages.stat().st_size:  # the trials have not begun
            time.sleep(PAUSE_S)
        answers = []
        for number in range(requests):
            answers.append(client.get(f"{experiment_id}{['', '/trials'][number % 2]}"))
            time.sleep(PAUSE_S / 4)
    own.wait(experiment_id, limit_s=60 + reports * PAUSE_S * 2)
    return statistics.median(_numbers(ages)), statistics.median(answers)


def _numbers(path: Path) -> list[float]:
    return [1e3 * float(line) for line in path.read_text(encoding="utf-8").split()]


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure decisions, then REST requests."""
    command = f"{ground.python} trial.py"
    alone, beside = [], []
    with ground.product("slow") as own:
        for pair in range(options.pairs):
            sizes = {"command": command, "reports": options.reports, "requests": options.requests}
            alone.append(measured(own, f"alone{pair}", **sizes))
            with thinking(own, f"thinking{pair}"):
                beside.append(measured(own, f"beside{pair}", **sizes))
    for index, name in enumerate(("a report's way to its decision", "an answer of REST")):
        quiet, slow = (statistics.median(each[index] for each in found) for found in (alone, beside))
        yield Row(
            name=f"{name}, beside tuners that think for 30 s, over without",
            value=slow / quiet,
            unit="",
            better=Better.LESS,
            limit=RATIO,
            details={"without_ms": quiet, "beside_ms": slow, "pairs": options.pairs},
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=500, help="of each of the two trials")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=5)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
