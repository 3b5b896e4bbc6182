"""Trials of several worker processes, on a real server."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys

from tests.e2e.product import product

TRIAL = """
import os
import nni

parameters = nni.get_next_parameter()
rank = os.environ["RANK"]
print("rank", rank, "of", os.environ["WORLD_SIZE"])
state = nni.load_checkpoint() or {"step": 0}
for step in range(state["step"], 3):
    nni.save_checkpoint({"step": step + 1}, step=step + 1, metric=parameters["x"] + step)
    if rank == "1" and step == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("as expected")
nni.report_final_result(parameters["x"])
"""


def test_a_group_starts_again_from_the_checkpoint_of_rank_0() -> None:
    with product("nnimgr-processes-") as own:
        code = own.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        experiment = own.create(
            "code",
            {
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "trialCommand": f"{sys.executable} trial.py",
                "trialCodeDirectory": str(code),
                "trialConcurrency": 2,
                "maxTrialNumber": 2,
                "gang": {"processes": 3},
                "maxRetries": {"userError": 1},
                "goal": "maximize",
                "tuner": {"name": "Random"},
            },
        )
        assert own.wait(experiment, limit_s=120)["counts"] == {"SUCCEEDED": 2}
        database = own.home / experiment / "db" / "nnimgr.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            trials = connection.execute("SELECT trial_id, parameters FROM trials").fetchall()
            for trial_id, parameters in trials:
                x = json.loads(parameters)["x"]
                query = "SELECT text FROM metrics WHERE trial_id = ? AND type = 'PERIODICAL' ORDER BY number"
                rows = connection.execute(query, (trial_id,)).fetchall()
                assert [float(text) for (text,) in rows] == [x, x + 1, x + 2]
                query = "SELECT payload FROM facts WHERE kind = 'AttemptDue' AND trial_id = ?"
                ((payload,),) = connection.execute(query, (trial_id,)).fetchall()
                assert "rank 1 failed first: ValueError: as expected; 2 others were stopped" in payload
        listed = own.nnictl("trial", "files", experiment, "-T", "0")
        assert "ranks/2/stdout" in listed and "ranks/0/stdout" not in listed
        said = own.nnictl("trial", "get", experiment, "-T", "0", "--file", "ranks/2/stdout", "--output", "-")
        assert said == "rank 2 of 3\n"
