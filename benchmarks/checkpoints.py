"""What checkpoints cost: a save in the trial and until it is stored, a pause, and a resume.

    python -m benchmarks.checkpoints [--saves 60] [--pauses 30] [--size 1048576]

Save: a trial saves a checkpoint with a metric, and in turn writes the same bytes to a file, flushes and
renames it. Stored: from the call of the save to the event that says that the checkpoint is in the database,
less the time of the bare write just before. Pause: one slot; a paused trial looks for requests every 2 ms and
saves; the next trial's command takes the slot. Resume: from the request until the trial's own code has its
state, and in turn from the request for a new trial until its own code has its parameters.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground, create
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from nnimgr.client.calls import Event
from nnimgr.client.servers import connect
from nnimgr.home import Home
from tests.e2e.product import Product, percentile

TRIAL = """
import json, os, sys, time
import nni

size, out = int(os.environ["BENCH_SIZE"]), os.environ["BENCH_OUT"]
body = os.urandom(size)

def say(**found):
    with open(out, "a") as file:
        file.write(json.dumps(found) + "\\n")

def plain():
    path = os.path.join(os.environ["NNI_SYS_DIR"], "plain")
    with open(path + ".new", "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)

def timed(act):
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin

nni.get_next_parameter()
state = nni.load_checkpoint()
say(kind="start", began=float(sys.argv[1]), ready=time.time(), resumed=state is not None)
if os.environ["BENCH_PART"] == "saves":
    for number in range(int(os.environ["BENCH_SAVES"])):
        bare = timed(plain)
        saved = timed(lambda: nni.save_checkpoint(body, step=number, metric=0.5))
        say(kind="save", bare=bare, saved=saved)
    for number in range(1, 1 + int(os.environ["BENCH_SAVES"])):
        time.sleep(0.05)
        bare, began = timed(plain), time.time()
        nni.save_checkpoint(body, step=10_000 + number, metric=0.5)
        say(kind="stored", bare=bare, began=began, step=10_000 + number)
    nni.report_final_result(0.5)
    sys.exit(0)
nni.save_checkpoint(body, step=0, metric=0.5)
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    if nni.should_checkpoint():
        nni.save_checkpoint(body, step=1, metric=0.5)
    time.sleep(0.002)
"""
SAVE_RATIO, STORED_MS, PAUSE_MS, RESUME_RATIO = 1.5, 10.0, 40.0, 2.0
LIMIT_S = 60.0


class Trials:
    """Experiment whose trials write what they measure to a file."""

    def __init__(self, own: Product, name: str, *, python: Path, size: int, saves: int) -> None:
        self.out = own.directory / f"{name}.jsonl"
        self.out.touch()
        own.environ |= {
            "BENCH_OUT": str(self.out),
            "BENCH_SIZE": str(size),
            "BENCH_SAVES": str(saves),
            "BENCH_PART": name,
        }
        self.id = create(
            own,
            name,
            TRIAL,
            trialCommand=f"{python} trial.py $(date +%s.%N)",
            trialConcurrency=1,
            maxTrialNumber=1 if name == "saves" else 10_000,
        )
        self._headers = {"Authorization": f"Bearer {Home(own.home).token()}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=60)

    def found(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def wait(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Wait for this number of lines of a kind."""
        deadline = time.monotonic() + LIMIT_S
        while len(found := self.found(kind)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} lines {kind}")
            time.sleep(0.002)
        return found

    def running(self) -> str:
        """Return the id of the trial that runs and has saved its first checkpoint."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            trials = self.ask("GET", "/trials?status=RUNNING")["trials"]
            if trials and trials[0]["intermediates"]:
                return str(trials[0]["id"])
            time.sleep(0.01)
        raise TimeoutError("no trial runs")

    def ask(self, method: str, path: str) -> Any:
        """Send a request about the experiment, and return the answer."""
        self._connection.request(method, f"/api/v1/experiments/{self.id}{path}", headers=self._headers)
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text.decode()}")
        return json.loads(text)


class Arrivals:
    """Time at which the event of each saved checkpoint arrives here, by the checkpoint's step."""

    def __init__(self, own: Product, experiment_id: str) -> None:
        self.at: dict[int, float] = {}
        events = connect(Home(own.home), own.port).events("experiments", experiment_id, "events", after=0)
        self._thread = threading.Thread(target=self._follow, args=(events,))
        self._thread.start()

    def _follow(self, events: Iterator[Event | None]) -> None:
        for event in events:
            if event is not None and event.kind == "CheckpointReported":
                self.at[event.fields["step"]] = time.time()
            elif event is not None and event.kind == "ExperimentMoved" and event.fields["status"] == "DONE":
                return

    def join(self) -> None:
        """Return when the experiment is done."""
        self._thread.join(LIMIT_S)


def stored(ground: Ground, trials: Trials, arrivals: Arrivals, options: argparse.Namespace) -> Row:
    """Return the row about the time until a checkpoint is stored."""
    found = trials.wait("stored", options.saves)
    arrivals.join()
    times = [1e3 * (arrivals.at[each["step"]] - each["began"] - each["bare"]) for each in found]
    return Row(
        name="save of a checkpoint to its event from the database, less the bare write, median",
        value=statistics.median(times),
        unit="ms",
        better=Better.LESS,
        limit=STORED_MS,
        details={
            "saves": len(times),
            "p90_ms": percentile(times, 90),
            "bare_ms": 1e3 * statistics.median(each["bare"] for each in found),
            "fdatasync_ms": ground.fdatasync_ms(),
        },
    )


def pauses(trials: Trials, count: int) -> list[float]:
    """Return the milliseconds from the request to pause the running trial to the next trial's command."""
    found = []
    for number in range(1, count + 1):
        trial = trials.running()
        asked = time.time()
        trials.ask("POST", f"/trials/{trial}/pause")
        found.append(1e3 * (trials.wait("start", number + 1)[number]["began"] - asked))
    return found


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure saves, then pauses, then resumes."""
    sizes = {"python": ground.python, "size": options.size, "saves": options.saves}
    with ground.product("checkpoints") as own:
        trials = Trials(own, "saves", **sizes)
        arrivals = Arrivals(own, trials.id)
        saves = trials.wait("save", options.saves)
        ratios = [each["saved"] / each["bare"] for each in saves]
        yield Row(
            name="save of a checkpoint with a metric, over write, fsync and rename",
            value=statistics.median(ratios),
            unit="times",
            better=Better.LESS,
            limit=SAVE_RATIO,
            details={
                "saves": len(saves),
                "bytes": options.size,
                "save_ms": 1e3 * statistics.median(each["saved"] for each in saves),
                "bare_ms": 1e3 * statistics.median(each["bare"] for each in saves),
                "fdatasync_ms": ground.fdatasync_ms(),
            },
        )
        yield stored(ground, trials, arrivals, options)
        trials = Trials(own, "pauses", **sizes)
        times = pauses(trials, options.pauses)
        yield Row(
            name="request to pause a trial to the slot's next process, median",
            value=statistics.median(times),
            unit="ms",
            better=Better.LESS,
            limit=PAUSE_MS,
            details={
                "pauses": len(times),
                "p90_ms": percentile(times, 90),
                "fdatasync_ms": ground.fdatasync_ms(),
            },
        )
        yield from resumes(ground, trials, options)


def resumes(ground: Ground, trials: Trials, options: argparse.Namespace) -> Iterator[Row]:
    """Measure how long a paused trial takes to have its state back, beside the start of a new trial."""
    starts = trials.found("start")
    fresh = [each["ready"] - each["began"] for each in starts if not each["resumed"]]
    paused = [each["id"] for each in trials.ask("GET", "/trials?status=PAUSED")["trials"]]
    again = []
    for number, trial in enumerate(paused[: options.pauses], len(starts)):
        running = trials.running()
        trials.ask("POST", f"/trials/{trial}/resume")
        trials.ask("POST", f"/trials/{running}/stop")
        found = trials.wait("start", number + 1)[number]
        again.append(found["ready"] - found["began"])
    yield Row(
        name="start of a resumed trial until it has its state, over a new trial's",
        value=statistics.median(again) / statistics.median(fresh),
        unit="times",
        better=Better.LESS,
        limit=RESUME_RATIO,
        details={
            "resumes": len(again),
            "resumed_ms": 1e3 * statistics.median(again),
            "new_ms": 1e3 * statistics.median(fresh),
            "bytes": options.size,
            "fdatasync_ms": ground.fdatasync_ms(),
        },
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--saves", type=int, default=60)
    parser.add_argument("--pauses", type=int, default=30)
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of each checkpoint")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
