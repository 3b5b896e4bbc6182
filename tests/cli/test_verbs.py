"""Commands that show or end experiments and trials."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nnimgr.cli.main import main
from nnimgr.cli.terminal import shown_time
from nnimgr.cli.times import when
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry
from tests.cli.fake import CREATED_AT, FakeServer, Refused, listed, trial

WHEN = shown_time(CREATED_AT)


def line(server: FakeServer, experiment_id: str) -> str:
    return (
        f"Id: {experiment_id}    Name: a name    Status: RUNNING    Port: {server.port}    "
        f"Platform: local    StartTime: {WHEN}    EndTime: N/A"
    )


def test_list(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "list"]) == 1
    assert "no experiment created before" in capsys.readouterr().err
    server.add("old", status="STOPPED")
    assert main(["experiment", "list"]) == 0
    assert "There is no experiment running" in capsys.readouterr().err
    server.add("abc")
    assert main(["experiment", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1:-1] == ["Experiment information", line(server, "abc")]
    assert main(["experiment", "list", "--all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["experiments"]
    assert [(item["id"], item["status"], item["directory"]) for item in found] == [
        ("old", "STOPPED", f"{server.home.path}/data/old"),
        ("abc", "RUNNING", f"{server.home.path}/data/abc"),
    ]


def test_what_is_archived_is_listed_while_it_runs(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    server.add("def", status="DONE")
    for experiment_id in ("abc", "def"):
        Index(server.home).update(experiment_id, archived=True)
    assert main(["experiment", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1:-1] == ["Experiment information", line(server, "abc")]
    assert main(["experiment", "list", "--all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["experiments"]
    assert [(item["id"], item["archived"]) for item in found] == [("abc", True), ("def", True)]


def test_labels_by_the_server(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    assert main(["experiment", "tag", "abc", "one", "two"]) == 0
    assert server.requests[-1][1:] == ("experiments/abc/labels", {"tags": ["one", "two"]})
    assert "Experiment abc is tagged one, two." in capsys.readouterr().out
    assert main(["experiment", "archive", "abc"]) == 0
    assert server.requests[-1][2] == {"archived": True}
    assert (
        "Experiment abc is archived. It still runs, so lists show it until its end."
        in capsys.readouterr().out
    )
    assert main(["experiment", "archive", "abc", "--undo"]) == 0
    assert "Experiment abc is not archived any more." in capsys.readouterr().out
    assert main(["experiment", "tag", "zzz"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment 'zzz'.\n  See: nnictl experiment list --all\n"
    )


def test_labels_without_a_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeServer(home)
    fake.add("abc", status="DONE")
    assert main(["experiment", "tag", "abc", "one"]) == 0
    assert main(["experiment", "archive", "abc"]) == 0
    entry = Index(home).get("abc")
    assert entry is not None and (entry.tag, entry.archived) == (("one",), True)
    assert main(["experiment", "archive", "abc", "--undo"]) == 0
    assert main(["experiment", "tag", "abc", "two", "one"]) == 0
    assert main(["experiment", "tag", "abc"]) == 0
    entry = Index(home).get("abc")
    assert entry is not None and (entry.tag, entry.archived) == (("one", "two"), False)
    assert capsys.readouterr().out.endswith("INFO: Experiment abc is tagged one, two.\n")
    assert main(["experiment", "tag", "abc", "--clear"]) == 0
    entry = Index(home).get("abc")
    assert entry is not None and entry.tag == ()
    assert capsys.readouterr().out == "INFO: Experiment abc has no tags any more.\n"


def test_a_list_says_whose_server_is_dead(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeServer(home)
    fake.add("abc")
    fake.add("def")
    assert main(["experiment", "list"]) == 0
    told = capsys.readouterr().err.splitlines()  # once, whatever the number of experiments
    assert told == [
        f"WARNING: The server on port {fake.port} has ended. Its 2 experiments continue when it is started "
        "again: nnictl resume abc"
    ]


def test_what_a_dead_manager_of_nni_left_is_stopped(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    Index(home).add(
        IndexEntry(
            id="nnis",
            port=8080,
            started_at=None,
            ended_at=None,
            status="RUNNING",
            platform="local",
            name="two\nlines",
            log_dir="/data",
            pid=child,
        )
    )
    assert main(["experiment", "list", "--all"]) == 0
    assert "Name: two?lines " in capsys.readouterr().out
    assert main(["experiment", "list", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiments"][0]["status"] == "STOPPED"


def test_the_only_running_experiment_is_meant(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("old", status="STOPPED")
    server.add("abc")
    assert main(["experiment", "status"]) == 0
    assert capsys.readouterr().out == (
        '{\n    "errors":[],\n    "reason":"runs",\n    "status":"RUNNING"\n}\n'
    )
    server.add("def")
    assert main(["experiment", "status"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There are multiple experiments, please set the experiment id...\n"
        f"  def  a name  RUNNING  started {when(CREATED_AT)}\n"
        f"  abc  a name  RUNNING  started {when(CREATED_AT)}\n"
        "  Name one of them: nnictl experiment status def\n"
    )


@pytest.mark.parametrize(
    ("drain", "name"), [("budget", "NO_MORE_TRIAL"), ("tuner", "TUNER_NO_MORE_TRIAL"), ("user", "STOPPING")]
)
def test_status_has_nnis_names(
    server: FakeServer, capsys: pytest.CaptureFixture[str], drain: str, name: str
) -> None:
    server.add("abc", status="DRAINING", drain=drain, errors=[{"sentence": "It failed."}])
    assert main(["experiment", "status"]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": name, "errors": ["It failed."], "reason": "runs"}
    assert main(["experiment", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drain"] == drain


def test_status_tells_what_is_odd_at_present(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", notices=[{"about": "tuner", "sentence": "It hangs.", "detail": ""}])
    for options in ([], ["--json"]):
        assert main(["experiment", "status", *options]) == 0
        assert json.loads(capsys.readouterr().out)["notices"] == ["It hangs."]


@pytest.mark.parametrize(
    "verb",
    ["experiment status", "experiment show", "experiment export", "trial ls", "log trial", "top --json"],
)
def test_a_port_chooses_and_is_checked(
    server: FakeServer, home: Home, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    server.add("abc")
    server.add("def")
    Index(home).update("def", port=1)
    port = str(server.port)
    assert main([*verb.split(), "--port", port]) == 0
    assert main([*verb.split(), "abc", "--port", port]) == 0
    capsys.readouterr()
    assert main([*verb.split(), "def", "--port", port]) == 1
    assert capsys.readouterr().err == (
        "ERROR: Experiment id and port do not match, please check them.\n"
        "  Experiment def is on port 1: leave --port out.\n"
    )
    assert main([*verb.split(), "--port", "2"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ERROR: There is no experiment running on port 2.\n")
    assert f"latest: nnictl {verb.removesuffix(' --json')} def" in told
    assert "--port" not in told  # the suggested command works when pasted


def test_an_address_of_the_web_page(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    address = f"http://127.0.0.1:{server.port}/login#code=CODE"
    assert main(["webui", "url"]) == 0
    assert capsys.readouterr().out == f"{address}\n"
    assert main(["webui", "url", "abc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "abc", "url": address}


def test_show(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", counts={"RUNNING": 2, "SUCCEEDED": 3}, lastNumber=17)
    assert main(["experiment", "show"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["params"] == {
        "trialCommand": "true",
        "experimentWorkingDirectory": "/data",
        "searchSpace": {"x": {}},
    }
    assert (shown["execDuration"], shown["nextSequenceId"]) == (12, 5)
    assert shown["startTime"] == WHEN and "endTime" not in shown
    server.experiments["abc"].profile["endedAt"] = CREATED_AT
    assert main(["experiment", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["endTime"] == WHEN
    assert main(["experiment", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == server.experiments["abc"].profile


EXPORT = [
    {
        "trialId": "ta",
        "sequence": 0,
        "parameterId": 0,
        "parameters": {"x": 1},
        "value": 0.5,
        "text": "0.5",
        "intermediates": [0.1],
    },
    {
        "trialId": "tb",
        "sequence": 1,
        "parameterId": None,
        "parameters": {"x": 2, "m": {"_name": "a"}},
        "value": 0.7,
        "text": '{"default": 0.7, "loss": NaN}',
        "intermediates": [None, 2.0],
    },
]


METRICS = [
    {"trialId": "tb", "attempt": 1, "parameterId": "0", "text": "3.5"},  # of an earlier attempt
    {"trialId": "ta", "attempt": 1, "parameterId": "0", "text": "0.1"},
    {"trialId": "tb", "attempt": 2, "parameterId": "0", "text": '"good"'},
    {"trialId": "ta", "attempt": 1, "parameterId": "0", "text": "0.5"},
    {"trialId": "tb", "attempt": 2, "parameterId": "0", "text": '{"default": 0.7, "loss": NaN}'},
]


def test_export_as_json(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = server.add("abc")
    experiment.export, experiment.metrics = EXPORT, METRICS
    assert main(["experiment", "export", "-i"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"parameter": {"x": 1}, "value": "0.5", "trialJobId": "ta", "intermediate": ["0.1", "0.5"]},
        {
            "parameter": {"x": 2, "m": {"_name": "a"}},
            "value": '{"default": 0.7, "loss": NaN}',
            "trialJobId": "tb",
            "intermediate": ['"good"', '{"default": 0.7, "loss": NaN}'],
        },
    ]


def test_export_as_csv(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = server.add("abc")
    experiment.export, experiment.metrics = EXPORT, METRICS
    assert main(["experiment", "export", "-t", "csv", "-f", "out.csv", "-i"]) == 0
    assert capsys.readouterr().out == "INFO: 2 results were written to out.csv as CSV\n"
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["x", "m", "trialJobId", "reward", "intermediate", "default", "loss"],
        ["1", "", "ta", "0.5", "[0.1,0.5]", "", ""],
        ["2", '{"_name": "a"}', "tb", "", '["good",{"default": 0.7, "loss": NaN}]', "0.7", "nan"],
    ]
    assert [path.name for path in Path().glob("*out.csv*")] == ["out.csv"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("-f out.csv", "CSV"),
        ("-f OUT.CSV", "CSV"),
        ("-f out.json", "JSON"),
        ("-f out", "JSON"),
        ("-f out.csv -t json", "JSON"),
        ("-f out.json -t csv", "CSV"),
    ],
)
def test_the_end_of_a_files_name_is_its_type(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: str, kind: str
) -> None:
    server.add("abc").export = EXPORT
    assert main(["experiment", "export", *words.split()]) == 0
    name = words.split()[1]
    assert capsys.readouterr().out == f"INFO: 2 results were written to {name} as {kind}\n"
    assert Path(name).read_text().startswith("x,m,trialJobId" if kind == "CSV" else "[")


def test_export_of_a_multi_phase_trial(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = server.add("abc")
    ids = (0, 3, None)
    experiment.export = [{**EXPORT[0], "parameterId": each, "text": f"{each or 9}"} for each in ids]
    experiment.metrics = [
        {"trialId": "ta", "attempt": 1, "parameterId": parameter_id, "text": text}
        for parameter_id, text in [("0", "0.1"), ("0", "9"), ("3", "3"), (None, "9")]
    ]
    assert main(["experiment", "export", "-i"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["trialJobId"], row["value"], row["intermediate"]) for row in rows] == [
        ("ta", "9", ["0.1", "9"]),
        ("ta", "3", ["3"]),
        ("ta", "9", ["9"]),
    ]


def test_export_of_nothing(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    assert main(["experiment", "export", "-t", "csv"]) == 0
    assert capsys.readouterr().out == "trialJobId,reward\n"
    assert main(["experiment", "export"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_export_to_what_is_no_file_of_its_own(server: FakeServer) -> None:
    server.add("abc").export = [{"trialId": "ta", "parameters": {}, "text": '"\\ud800"'}]
    os.mkfifo("pipe")
    Path("file").write_text("")
    Path("link").symlink_to("file")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert main(["experiment", "export", "-t", "csv", "-f", "pipe"]) == 0
        assert reader.communicate()[0] == b"trialJobId,reward\nta,\\ud800\n"
    assert Path("pipe").is_fifo()
    assert main(["experiment", "export", "-f", "link"]) == 0
    assert Path("link").is_symlink() and "ta" in Path("file").read_text()
    assert main(["experiment", "export", "-f", "."]) == 1


def test_export_to_where_nothing_can_be_written(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    assert main(["experiment", "export", "-f", "none/out.json"]) == 1
    assert capsys.readouterr().err.startswith(
        "ERROR: none/out.json cannot be written: No such file or directory.\n"
    )


def test_trials(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = server.add("abc")
    experiment.trials = [
        trial("ta", 0, finalValue=0.5, finalText="0.5"),
        trial("tb", 1, status="RUNNING", endedAt=None),
        trial("tc", 2, finalValue=0.9, finalText='{"default": 0.9}'),
        trial("td", 3, status="FAILED", reason="exited with code 1", finalValue=2.0, finalText="2.0"),
        trial("te", 4, status="PAUSED", startedAt=None, endedAt=None),
    ]
    assert main(["trial", "ls"]) == 0
    text = capsys.readouterr().out
    assert text.startswith('[\n    {\n        "endTime":"')
    found = {item["trialJobId"]: item for item in json.loads(text)}
    assert list(found) == ["ta", "tb", "tc", "td", "te"]
    assert found["tc"]["finalMetricData"][0]["data"] == json.dumps('{"default": 0.9}')
    assert found["tc"]["finalMetricData"][0]["parameterId"] == "2"
    assert json.loads(found["ta"]["hyperParameters"][0]) == {
        "parameter_id": 0,
        "parameter_source": "algorithm",
        "parameters": {"x": 0.0},
        "parameter_index": 0,
    }
    assert found["td"]["message"] == "exited with code 1"
    assert "endTime" not in found["tb"]
    assert found["te"]["status"] == "WAITING"
    for option, ids in (("--head", ["tc", "ta"]), ("--tail", ["ta", "tc"])):
        assert main(["trial", "ls", option, "2"]) == 0
        assert [item["trialJobId"] for item in json.loads(capsys.readouterr().out)] == ids
    assert main(["trial", "ls", "--head", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"trials": [listed(experiment.trials[2])]}


def test_sets_of_a_multi_phase_trial(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    sets = [
        {"parameterId": None, "parameters": {"x": 1}, "finalValue": 0.5, "finalText": "0.5"},
        {"parameterId": 4, "parameters": {"x": 2}, "finalValue": None, "finalText": None},
        {"parameterId": 5, "parameters": {"x": 3}, "finalValue": 0.9, "finalText": "0.9"},
    ]
    shown = trial("ta", 0, source="rerun", parameterId=None, finalValue=0.9, finalText="0.9", sets=sets)
    server.add("abc").trials = [shown]
    assert main(["trial", "ls"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    records = [json.loads(record) for record in found["hyperParameters"]]
    assert [tuple(record.values()) for record in records] == [
        (None, "resumed", {"x": 1}, 0),
        (4, "algorithm", {"x": 2}, 1),
        (5, "algorithm", {"x": 3}, 2),
    ]
    assert [(metric["parameterId"], metric["data"]) for metric in found["finalMetricData"]] == [
        (None, '"0.5"'),
        ("5", '"0.9"'),
    ]


def test_logs_of_experiments(
    server: FakeServer, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Index(home).update("abc", log_dir=tmp_path)
    assert main(["log", "stderr"]) == 1
    assert "Experiment abc has not written this log" in capsys.readouterr().err
    log = tmp_path / "abc" / "log" / "dispatcher.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\nthree\n")
    for options, text in (
        ([], "one\ntwo\nthree\n"),
        (["--tail", "2"], "two\nthree\n"),
        (["--head", "1"], "one\n"),
        (["--path"], f"{log}\n"),
    ):
        assert main(["log", "stderr", *options]) == 0
        assert capsys.readouterr().out == text
    home.server_log_path(server.port).write_text("served\n")
    assert main(["log", "stdout", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["served"]


def test_top_says_how_to_repeat_failed_trials(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", status="DONE", counts={"FAILED": 1}).trials = [
        trial("ta", 0, status="FAILED", reason="exited with code 1: ValueError: boom")
    ]
    assert main(["top", "abc"]) == 0
    assert capsys.readouterr().out.endswith(
        "\nNext: correct the trial's code, then: nnictl trial retry abc --failed; "
        "or start again: nnictl create --config FILE\n"
    )


def test_top_as_json(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0), trial("tb", 1, status="RUNNING")]
    assert main(["top", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["experiment"]["id"] == "abc"
    assert [item["id"] for item in answer["running"]] == ["tb"]


def test_top_of_several(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    running = trial("tb", 1, status="RUNNING", latestValue=0.25)
    server.add("abc", counts={"RUNNING": 1, "SUCCEEDED": 2}).trials = [trial("ta", 0), running]
    constraints = {"searchSpaceConstraints": ["x < y", "y > 0"]}
    server.add("def", config=constraints, feasibleShare=0.2468)
    server.add("old", status="STOPPED")
    assert main(["top", "--time", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        line(server, "abc"),
        "    Trials: 1 RUNNING, 2 SUCCEEDED",
        "    Trial: tb    No.: 1    Status: RUNNING    Latest: 0.25",
        line(server, "def"),
        "    Trials: none",
        "    Constraints: x < y; y > 0 (24.7 % of the search space)",
    ]
    assert main(["experiment", "status", "def"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["searchSpaceConstraints"], shown["feasibleShare"]) == (["x < y", "y > 0"], 0.2468)
    server.refuse["experiments/def"] = Refused(404, "There is no experiment def.")
    assert main(["top", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["experiments"]
    assert [item["id"] for item in first["running"]] == ["tb"]
    assert second == {"id": "def", "error": "There is no experiment def."}


def test_hello_copies_the_example_once(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hello"]) == 0
    assert "is in nni_hello_hpo" in capsys.readouterr().out
    names = {path.name for path in Path("nni_hello_hpo").iterdir()}
    assert names == {"README.md", "exp.yml", "trial.py"}
    assert main(["hello"]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("active", [True, False], ids=["active environment", "other python3"])
def test_the_trials_of_the_example_can_import_nni(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    """Its trials import nni, which is where nnimgr is, but maybe not where the PATH's python3 is."""
    place = Path(sys.executable).parent if active else tmp_path
    if not active:
        (tmp_path / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    assert main(["hello"]) == 0
    command = yaml.safe_load(Path("nni_hello_hpo/exp.yml").read_text())["trialCommand"]
    python = "python3" if active else sys.executable
    assert command == f"{python} trial.py"
