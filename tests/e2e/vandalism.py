"""One experiment whose trials each spoil files on which attempts depend, and what has to come of it.

The program needs the standard library only, so it runs on every platform. Its environment names a folder,
``RECORDS``, that the product knows nothing of: each start writes a line there, and a file ``go`` there lets
the trials end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trial_keeper.machine import procs

LIMIT_S = 30.0  # from the end of a trial's process to the end of the trial
EXIT_CODE = 3
TRIALS = 9  # as many as there are ways

TRIAL = f"""
import os, pathlib, shutil, sys, time

own = pathlib.Path(os.environ["NNI_SYS_DIR"])
job = os.environ["NNIMGR_JOB_ID"]
records = pathlib.Path(os.environ["RECORDS"])
with open(records / job, "a") as file:
    file.write("start\\n")
attempts = next(found for parent in own.parents for found in parent.glob("keeper*/attempts"))
claim = attempts / (job + ".claim")

def clear():
    shutil.rmtree(os.environ["NNI_OUTPUT_DIR"])
    os.makedirs(os.environ["NNI_OUTPUT_DIR"])

def remove_own_files():
    shutil.rmtree(own / ".nni")

def replace_metrics():
    (own / ".nni" / "metrics").unlink()
    os.mkfifo(own / ".nni" / "metrics")

def replace_claim():
    claim.unlink()
    os.mkfifo(claim)

def overwrite_claim():
    claim.write_bytes(b"aborted boot\\n")

def remove_attempts():
    for file in attempts.iterdir():
        try:
            file.unlink()
        except FileNotFoundError:
            pass

ways = [
    clear, lambda: own.rename(str(own) + "-moved"), remove_own_files, replace_metrics, claim.unlink,
    replace_claim, lambda: os.truncate(claim, 0), overwrite_claim, remove_attempts,
]
try:
    ways[int(os.environ["NNI_TRIAL_SEQ_ID"]) % {TRIALS}]()
except FileNotFoundError:
    pass  # another trial was faster
with open(records / job, "a") as file:
    file.write("spoiled\\n")
while not (records / "go").exists():
    time.sleep(0.01)
sys.exit({EXIT_CODE})
"""


def all_have_spoiled(records: Path) -> bool:
    """Check whether each trial has done its damage."""
    return sum("spoiled" in lines for lines in _written(records).values()) == TRIALS


def started_once(records: Path) -> bool:
    """Check that no attempt has started twice."""
    return all(lines.count("start") == 1 for lines in _written(records).values())


def left(records: Path) -> list[int]:
    """Return the processes of trials that still run."""
    return procs.marked("RECORDS", str(records))


def unexplained(trials: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the trials that did not end with the status FAILED, or whose reason is empty."""
    return [trial for trial in trials if trial["status"] != "FAILED" or not trial["reason"]]


def _written(records: Path) -> dict[str, list[str]]:
    return {file.name: file.read_text().split() for file in records.iterdir() if file.name != "go"}
