"""A client of NNI's before a real server: it knows a port and no token."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.e2e.scene import eventually
from tests.server.harness import Server, nothing_left, serving

BASE = "/api/v1/nni"

TRIAL = """\
import sys, time
import nni

parameters = nni.get_next_parameter()
nni.report_intermediate_result(0.5)
nni.report_intermediate_result({"default": 0.25, "other": 1e-07})
print("hello from", nni.get_sequence_id())
if nni.get_sequence_id() == 1:
    time.sleep(600)
nni.report_final_result({"default": parameters["x"], "what": "é"})
"""


def call(server: Server, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    with closing(server.connection()) as connection:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()


def get(server: Server, path: str, base: str = BASE) -> Any:
    status, body = call(server, "GET", base + path)
    assert status == 200, body
    return json.loads(body)


def config(directory: Path) -> dict[str, Any]:
    program = directory / "trial.py"
    program.write_text(TRIAL)
    return {
        "experimentName": "of NNI's",
        "experimentType": "hpo",
        "searchSpace": {"x": {"_type": "choice", "_value": [0.00001, 1.0, 2, 3, 4, 5, 6]}},
        "trialCommand": f"{sys.executable} {program}",
        "trialCodeDirectory": str(directory),
        "trialConcurrency": 2,
        "maxTrialNumber": 3,
        "useAnnotation": False,
        "debug": False,
        "logLevel": "info",
        "experimentWorkingDirectory": str(directory / "work"),
        "tuner": {"name": "Random"},
        "trainingService": {
            "platform": "local",
            "trialCommand": f"{sys.executable} {program}",
            "trialCodeDirectory": str(directory),
            "debug": False,
            "maxTrialNumberPerGpu": 1,
            "reuseMode": False,
        },
    }


def test_the_life_of_an_experiment(tmp_path: Path) -> None:
    with nothing_left(tmp_path), serving(tmp_path, "--no-token", "--until-idle") as server:
        assert get(server, "/check-status") == {"status": "INITIALIZED", "errors": []}
        status, body = call(server, "POST", f"{BASE}/experiment", config(tmp_path))
        assert status == 200, body
        experiment_id = json.loads(body)["experiment_id"]
        own = f"/e/{experiment_id}{BASE}"

        eventually(lambda: len(get(server, "/export-data")) == 2, "two trials that succeed")
        profile = get(server, "/experiment")
        assert profile["params"] == config(tmp_path) and profile["id"] == experiment_id
        assert profile["logDir"] == str(tmp_path / "work" / experiment_id)
        assert get(server, "/check-status")["status"] == "NO_MORE_TRIAL"

        (running,) = get(server, "/trial-jobs?status=RUNNING", own)
        assert running["sequenceId"] == 1
        reported = eventually(
            lambda: (found := get(server, f"/metric-data/{running['trialJobId']}"))[1:] and found, "metrics"
        )
        assert [json.loads(json.loads(metric["data"])) for metric in reported] == [
            0.5,
            {"default": 0.25, "other": 1e-07},
        ]
        assert call(server, "DELETE", f"{BASE}/trial-jobs/{running['trialJobId']}") == (200, b"")
        assert get(server, f"/trial-jobs/{running['trialJobId']}")["status"] == "USER_CANCELED"
        eventually(lambda: get(server, "/check-status")["status"] == "DONE", "the end")

        profile["params"]["maxTrialNumber"] = 4
        assert call(server, "PUT", f"{BASE}/experiment?update_type=MAX_TRIAL_NUM", profile) == (200, b"")
        eventually(lambda: len(get(server, "/export-data")) == 3, "one trial more")
        spent = call(server, "POST", f"{BASE}/trial-jobs", {"x": 7})
        assert spent == (500, b'{"error":"reach maxTrialNum"}')
        eventually(lambda: get(server, "/check-status")["status"] == "DONE", "the end")
        assert "endTime" in get(server, "/experiment")

        trials = get(server, "/trial-jobs", own)
        assert [trial["status"] for trial in trials] == [
            "SUCCEEDED",
            "USER_CANCELED",
            "SUCCEEDED",
            "SUCCEEDED",
        ]
        record = json.loads(trials[3]["hyperParameters"][0])
        assert record["parameter_id"] == 3 and record["parameters"]["x"] in (0.00001, 1, 2, 3, 4, 5, 6)
        metrics = get(server, "/metric-data")
        assert [metric["type"] for metric in metrics].count("FINAL") == 3
        assert trials[3]["finalMetricData"] == [metrics[-1]]
        assert get(server, "/metric-data-range/3/3") == metrics[-3:]
        assert sorted(get(server, "/metric-data-latest"), key=str) == sorted(
            [m for m in metrics if m["type"] == "FINAL" or m["sequence"] == 1], key=str
        )
        first = trials[0]["trialJobId"]
        assert call(server, "GET", f"{BASE}/trial-file/{first}/stdout") == (200, b"hello from 0\n")
        assert call(server, "GET", f"{BASE}/trial-file/{first}/stderr") == (200, b"stderr is empty.")
        status, record = call(server, "GET", f"{BASE}/trial-file/{first}/parameter.cfg")
        assert status == 200 and json.loads(record) == json.loads(trials[0]["hyperParameters"][0])
        (entry,) = get(server, "/experiments-info")
        assert entry == get(server, "/experiment-metadata")
        assert (entry["id"], entry["port"]) == (experiment_id, server.port)
        assert entry["pid"] != server.process.pid
        stand_in = os.pidfd_open(entry["pid"])
        assert call(server, "DELETE", f"{BASE}/experiment") == (200, b"")
        assert select.select([stand_in], [], [], 30)[0], "the experiment's process has not ended with it"
        os.close(stand_in)
        assert server.wait() == 0


PHASES = """\
import nni

while (parameters := nni.get_next_parameter()) is not None:
    nni.report_intermediate_result(parameters["x"])
    nni.report_final_result(parameters["x"] / 8)
"""


def test_a_multi_phase_trial(tmp_path: Path) -> None:
    phases = config(tmp_path) | {"multiPhase": True, "trialConcurrency": 1, "tuner": {"name": "GridSearch"}}
    del phases["maxTrialNumber"]
    phases["searchSpace"] = {"x": {"_type": "choice", "_value": [0.5, 1.5, 2, 3, 4]}}
    (tmp_path / "trial.py").write_text(PHASES)
    with nothing_left(tmp_path), serving(tmp_path, "--no-token") as server:
        status, body = call(server, "POST", f"{BASE}/experiment", phases)
        assert status == 200, body
        eventually(lambda: get(server, "/check-status")["status"] == "DONE", "the end")
        tried = [
            (trial["trialJobId"], json.loads(record)["parameters"]["x"])
            for trial in get(server, "/trial-jobs")
            for record in trial["hyperParameters"]
        ]
        assert sorted(x for _, x in tried) == phases["searchSpace"]["x"]["_value"]
        first = get(server, "/trial-jobs")[0]
        assert get(server, f"/trial-jobs/{first['trialJobId']}") == first
        records = [json.loads(record) for record in first["hyperParameters"]]
        assert [record["parameter_index"] for record in records] == list(range(len(records)))
        assert len(records) > 1
        assert [metric["parameterId"] for metric in first["finalMetricData"]] == [
            str(record["parameter_id"]) for record in records
        ]
        finals = [metric for metric in get(server, "/metric-data") if metric["type"] == "FINAL"]
        assert first["finalMetricData"] == finals[: len(records)]
        exported = get(server, "/export-data")
        assert [(row["trialJobId"], row["parameter"]["x"], float(row["value"]) * 8) for row in exported] == [
            (trial, x, x) for trial, x in tried
        ]
        command = [sys.executable, "-m", "nnimgr.cli.main", "experiment", "export", "-i"]
        environ = {**os.environ, "NNIMGR_HOME": str(server.home.path)}
        printed = subprocess.run(command, env=environ, capture_output=True, check=True).stdout
        assert json.loads(printed) == [
            {**row, "intermediate": [json.dumps(row["parameter"]["x"]), row["value"]]} for row in exported
        ]
        assert call(server, "DELETE", f"{BASE}/experiment") == (200, b"")


def test_several_experiments_of_one_server(tmp_path: Path) -> None:
    with nothing_left(tmp_path), serving(tmp_path, "--no-token", "--until-idle") as server:
        for name in ("first", "second"):
            status, body = call(server, "POST", f"/e/{name}{BASE}/experiment", config(tmp_path))
            assert (status, json.loads(body)) == (200, {"experiment_id": name})
        assert get(server, "/experiment")["id"] == "second"
        assert get(server, "/experiment", f"/e/first{BASE}")["id"] == "first"
        assert call(server, "DELETE", f"/e/first{BASE}/experiment") == (200, b"")
        eventually(lambda: get(server, "/check-status", f"/e/first{BASE}")["status"] == "STOPPED", "a stop")
        assert get(server, "/experiment")["id"] == "second"
        assert call(server, "POST", f"/e/first{BASE}/experiment") == (200, b"")
        assert get(server, "/experiment")["id"] == "first"
        for name in ("first", "second"):
            assert call(server, "DELETE", f"/e/{name}{BASE}/experiment") == (200, b"")
        assert server.wait() == 0


def test_a_prefix(tmp_path: Path) -> None:
    options = ("--no-token", "--until-idle", "--url-prefix", "a/b")
    with nothing_left(tmp_path), serving(tmp_path, *options) as server:
        base = f"/a/b{BASE}"
        status, body = call(server, "POST", f"{base}/experiment", config(tmp_path))
        assert status == 200, body
        assert call(server, "GET", f"{BASE}/check-status") == (404, b'Outside prefix "/a/b"')
        assert get(server, "/experiment-metadata", base)["prefixUrl"] == "a/b"
        assert call(server, "DELETE", f"{base}/experiment") == (200, b"")
        assert server.wait() == 0


def test_an_experiment_that_is_viewed(tmp_path: Path) -> None:
    with nothing_left(tmp_path), serving(tmp_path, "--no-token") as server:
        status, body = call(server, "POST", f"{BASE}/experiment", config(tmp_path))
        assert status == 200, body
        eventually(lambda: len(get(server, "/export-data")) == 2, "two trials that succeed")
        assert call(server, "DELETE", f"{BASE}/experiment") == (200, b"")
        eventually(lambda: get(server, "/check-status")["status"] == "STOPPED", "the stop")
        metrics = get(server, "/metric-data")
        experiment_id = get(server, "/experiment")["id"]
        assert call(server, "POST", f"/api/v1/experiments/{experiment_id}/view")[0] == 200
        assert get(server, "/check-status") == {"status": "VIEWED", "errors": []}
        assert get(server, "/metric-data") == metrics and len(get(server, "/trial-jobs")) == 3
        assert get(server, "/experiment-metadata")["status"] == "VIEWED"
        status, body = call(server, "POST", f"{BASE}/trial-jobs", {"x": 1})
        assert status == 500
        assert json.loads(body) == {"error": "Error: can not add customized trial job in readonly mode!"}
        assert call(server, "DELETE", f"{BASE}/experiment") == (200, b"")
        assert get(server, "/check-status")["status"] == "STOPPED"
