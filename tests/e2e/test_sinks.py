"""Sinks of a real experiment, whose server and sinks are killed: each event is written once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tests.e2e.scene import Scene, eventually
from tests.processes import kill
from tests.server.harness import free_port, nothing_left, serving
from trial_keeper.machine import procs

# The first attempt of each trial fails after two results.
TRIAL = """
import os, sys, time, nni
nni.get_next_parameter()
first = os.path.join(os.path.dirname(__file__), "seen-" + os.environ["NNI_TRIAL_JOB_ID"])
again = os.path.exists(first)
open(first, "w").close()
for step in range(2 if not again else 4):
    nni.report_intermediate_result(step + 100 * again)
    time.sleep(0.05)
if not again:
    sys.exit(1)
nni.report_final_result(1.0)
"""
SINKS = [{"name": "csv"}, {"name": "jsonl"}]


def sinks_of(folder: Path) -> list[int]:
    """Return the process ids of the sinks that write below a folder."""
    return [
        pid
        for pid in procs.marked("NNIMGR_HOME", str(folder / "home"))
        if "nnimgr.sinks.worker" in procs.strings(pid, "cmdline")
    ]


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    metrics = tmp_path / "work" / "exp" / "sinks" / "csv" / "metrics.csv"

    def size() -> int:
        return metrics.stat().st_size if metrics.exists() else 0

    port = free_port()
    with nothing_left(tmp_path):
        for life in range(3):
            with serving(tmp_path, port=port) as server:
                here = Scene(server, tmp_path)
                if life == 0:
                    limits = {"maxTrialNumber": 6, "trialConcurrency": 2, "maxRetries": {"userError": 1}}
                    here.create(here.script(TRIAL), **limits, sinks=SINKS)
                before = size()
                eventually(lambda before=before: size() != before, "a further result")  # type: ignore[misc]
                if life < 2:
                    server.process.kill()
                    server.process.wait()
                    kill(*sinks_of(tmp_path))
                    continue
                here.done()
                here.nnictl("stop", "exp")
                counts = [len(here.metrics(trial["id"])) for trial in here.trials()]
    lines = (here.folder / "sinks" / "jsonl" / "events.jsonl").read_text().splitlines()
    numbers = [json.loads(line)["number"] for line in lines]
    assert numbers == sorted(set(numbers))
    events = [json.loads(line)["event"] for line in lines]
    assert events.count("Reported") == sum(counts) - 6  # each trial has one final result
    assert (events.count("TrialRestarted"), events.count("TrialEnded")) == (6, 6)
    with (here.folder / "sinks" / "csv" / "metrics.csv").open() as file:
        rows = [(int(row["trial"]), int(row["step"]), float(row["value"])) for row in csv.DictReader(file)]
    assert sorted(rows) == [(trial, step, 100.0 + step) for trial in range(6) for step in range(4)]
    with (here.folder / "sinks" / "csv" / "trials.csv").open() as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["SUCCEEDED"] * 6
