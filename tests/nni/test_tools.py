"""Modules of NNI's command line that programs import (``nni.tools``)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nni.tools import package_utils
from nni.tools.nnictl import nnictl_utils, updater, url_utils
from nni.tools.nnictl.command_utils import _check_pid_running, check_output_command, kill_command
from nni.tools.nnictl.common_utils import (
    detect_port,
    detect_process,
    generate_temp_dir,
    get_json_content,
    get_yml_content,
    print_error,
    print_green,
)
from nni.tools.nnictl.config_utils import Config, Experiments
from nni.tools.nnictl.launcher import create_experiment
from nni.tools.nnictl.launcher_utils import validate_all_content
from nni.tools.nnictl.nnictl import get_parser
from nni.tools.nnictl.rest_utils import check_rest_server_quick, rest_get, rest_post
from nnimgr.config import ConfigError
from tests.nni.serving import serving


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "home"
    monkeypatch.setenv("NNIMGR_HOME", str(found))
    monkeypatch.setenv("NNI_CONFIG_DIR", str(tmp_path / "config"))
    return found


class Api(BaseHTTPRequestHandler):
    """NNI's routes with fixed answers. ``asked``: the requests."""

    asked: ClassVar[list[tuple[str, str, Any]]] = []
    answers: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.asked.append((self.command, self.path, json.loads(self.rfile.read(length) or "null")))
        found = self.answers.get(self.path.rpartition("/api/v1/nni")[2])
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        pass


def finished(trial_id: str, value: Any) -> dict[str, Any]:
    return {"id": trial_id, "startTime": 1000, "finalMetricData": [{"data": json.dumps(json.dumps(value))}]}


@pytest.fixture
def port() -> Iterator[int]:
    Api.asked.clear()
    Api.answers = {
        "/check-status": {"status": "RUNNING", "errors": []},
        "/experiment": {"id": "one", "startTime": 5, "endTime": 9},
        "/trial-jobs": [finished("a", 0.5), {"id": "b"}, finished("c", {"default": 3}), finished("d", 2)],
        "/trial-jobs/a": "",
    }
    with serving(Api) as found:
        yield found


def args(**named: Any) -> Namespace:
    return Namespace(**({"id": None, "port": None, "all": False, "head": None, "tail": None} | named))


def add(experiment_id: str, port: Any = 8080, **fields: Any) -> None:
    given: dict[str, Any] = {"status": "RUNNING", "pid": os.getpid()} | fields
    Experiments().add_experiment(experiment_id, port, 123456, "local", "a name", **given)


def test_the_index(home: Path) -> None:
    index = Experiments()
    assert index.get_all_experiments() == {}
    index.add_experiment("one", "8080", "N/A", "local", "test", pid=3, logDir=home)
    assert index.get_all_experiments() == Experiments(home).get_all_experiments()
    entry: dict[str, Any] = {
        "id": "one",
        "port": "8080",
        "startTime": "N/A",
        "endTime": "N/A",
        "status": "INITIALIZED",
    }
    entry |= {"platform": "local", "experimentName": "test", "tag": [], "pid": 3, "webuiUrl": []}
    assert json.loads((home / ".experiment").read_text()) == {
        "one": {**entry, "logDir": str(home), "prefixUrl": None}
    }
    assert index.update_experiment("one", "pid", None) and index.update_experiment("one", "port", 1)
    assert not index.update_experiment("two", "port", 1)
    assert "pid" not in Experiments().get_all_experiments()["one"]
    assert Experiments().get_all_experiments()["one"]["port"] == 1
    index.remove_experiment("one")
    index.remove_experiment("one")
    assert index.get_all_experiments() == {} == Experiments().get_all_experiments()


def test_a_configuration_that_nni_has_stored(tmp_path: Path) -> None:
    params = {
        "trainingServicePlatform": "remote",
        "clusterMetaData": [
            {"key": "machine_list", "value": [{"ip": "1.2.3.4"}]},
            {"key": "trial_config", "value": {"command": "true"}},
        ],
    }
    (tmp_path / "one" / "db").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "one" / "db" / "nni.sqlite") as database:
        database.execute("CREATE TABLE ExperimentProfile (params, id, startTime, endTime, revision)")
        database.execute("INSERT INTO ExperimentProfile VALUES (?, 'one', 1, NULL, 1)", (json.dumps(params),))
    assert Config("one", str(tmp_path)).get_config() == {
        "trainingServicePlatform": "remote",
        "machineList": [{"ip": "1.2.3.4"}],
        "trial": {"command": "true"},
    }
    with pytest.raises(FileNotFoundError, match="there is no database"):
        Config("two", str(tmp_path))


def test_which_experiment_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert nnictl_utils.check_experiment_id(args()) is None and nnictl_utils.parse_ids(args()) is None
    add("gone", 8079, pid=2**22 + 1)
    add("one", "8080")
    assert nnictl_utils.check_experiment_id(args()) == "one" == nnictl_utils.get_config_filename(args())
    assert Experiments().get_all_experiments()["gone"]["status"] == "STOPPED"
    assert nnictl_utils.get_experiment_port(args(id="one")) == "8080"
    assert nnictl_utils.check_experiment_id(args(id="on")) is None
    assert nnictl_utils.parse_ids(args()) == ["one"]
    add("other", 8081)
    assert nnictl_utils.parse_ids(args(all=True)) == ["one", "other"] == nnictl_utils.parse_ids(args(id="o*"))
    assert nnictl_utils.parse_ids(args(port=8081)) == ["other"] == nnictl_utils.parse_ids(args(id="ot"))
    assert nnictl_utils.parse_ids(args(id="one", port=8080)) == ["one"]
    assert nnictl_utils.parse_ids(args(id="x")) == [] and nnictl_utils.parse_ids(args(id="o")) is None
    assert "o is ambiguous, please choose one other" in capsys.readouterr().out
    for call, asked in (
        (nnictl_utils.parse_ids, args(id="one", port=8081)),
        (nnictl_utils.parse_ids, args()),
        (nnictl_utils.get_config_filename, args()),
        (nnictl_utils.get_config_filename, args(id="x")),
    ):
        with pytest.raises(SystemExit):
            call(asked)
    assert nnictl_utils.experiment_list(args(all=True)) == ["gone", "one", "other"]
    assert "Id: other    Name: a name    Status: RUNNING    Port: 8081" in capsys.readouterr().out


def test_an_experiment_of_nnimgr_is_not_marked_as_stopped(home: Path) -> None:
    (home / "one" / "db").mkdir(parents=True)
    (home / "one" / "db" / "nnimgr.sqlite").touch()
    add("one", pid=2**22 + 1, logDir=home)
    nnictl_utils.update_experiment()
    assert Experiments().get_all_experiments()["one"]["status"] == "RUNNING"


def test_lookups_over_rest(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    add("one", port)
    assert nnictl_utils.get_experiment_time(port) == (5, 9)
    assert nnictl_utils.get_experiment_status(port) == "RUNNING"
    assert nnictl_utils.check_rest(args(id="one"))
    assert [trial["id"] for trial in nnictl_utils.trial_ls(args(id="one"))] == ["a", "b", "c", "d"]
    assert [trial["id"] for trial in nnictl_utils.trial_ls(args(head=2))] == ["c", "d"]
    assert [trial["id"] for trial in nnictl_utils.trial_ls(args(tail=2))] == ["a", "d"]
    assert nnictl_utils.trial_ls(args(head=2, tail=2)) is None
    assert nnictl_utils.list_experiment(args())["id"] == "one"
    assert nnictl_utils.experiment_status(args())
    assert nnictl_utils.trial_kill(args(trial_id="a")) and not nnictl_utils.trial_kill(args(trial_id="x"))
    assert {path for _, path, _ in Api.asked if path[:12] != "/api/v1/nni/"} == set()
    add("two", port, prefixUrl="p")
    nnictl_utils.experiment_status(args(id="two"))
    assert Api.asked[-1][1] == "/p/e/two/api/v1/nni/check-status"
    assert rest_post(url_utils.import_data_url(port), '[{"a": 1}]', 5).status_code == 404
    assert Api.asked[-1] == ("POST", "/api/v1/nni/experiment/import-data", [{"a": 1}])
    capsys.readouterr()


def test_a_server_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert rest_get("http://localhost:1/x", 1, show_error=True) is None
    assert "ERROR: " in capsys.readouterr().out
    assert check_rest_server_quick(1) == (False, None) and nnictl_utils.get_experiment_status(1) is None
    assert nnictl_utils.get_experiment_time(1) == (None, None)
    add("one", 1)
    assert not nnictl_utils.check_rest(args()) and nnictl_utils.trial_ls(args()) is None


def test_times() -> None:
    assert nnictl_utils.get_time_interval(0, 93_784_000) == "1d 2h 3m 4s"
    assert nnictl_utils.get_time_interval(0, "N/A") == "N/A"
    found = nnictl_utils.convert_time_stamp_to_date({"startTime": 1_600_326_895_536, "endTime": None})
    assert found["startTime"].startswith("2020/09/1") and found["endTime"] is None


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert url_utils.trial_job_id_url(80, "a") == "http://localhost:80/api/v1/nni/trial-jobs/a"
    monkeypatch.setattr(url_utils, "API_ROOT_URL", url_utils.API_ROOT_URL)
    url_utils.set_prefix_url("p")
    assert url_utils.check_status_url(80) == "http://localhost:80/p/api/v1/nni/check-status"


def test_files_and_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yml"
    file.write_text("field: [1\n")
    with pytest.raises(SystemExit):
        get_yml_content(file)
    assert "cannot be read" in capsys.readouterr().out
    file.write_text('{"field": "test"}')
    assert get_yml_content(str(file)) == get_json_content(str(file)) == {"field": "test"}
    print_error("a", 1)
    print_green("b")
    assert capsys.readouterr().out == "\033[31mERROR: a 1\033[39m\n\033[32mb\033[39m\n"
    file.write_text("1\n2\n3\n")
    assert check_output_command(str(file), head=1) + check_output_command(str(file), tail=1) == "1\n3\n"
    assert os.listdir(generate_temp_dir()) == []


def test_processes(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert detect_port(port) and not detect_port(1)
    with subprocess.Popen(["sleep", "100"]) as process:
        assert detect_process(process.pid)
        kill_command(process.pid)
        assert not _check_pid_running(process.pid) and not detect_process(process.pid)
        process.returncode = 0
    code = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{code}\nwhile True: time.sleep(9)"], stdout=-1) as process:
        assert process.stdout is not None and process.stdout.readline()
        started = time.monotonic()
        kill_command(process.pid, timeout=0.2)
        assert time.monotonic() - started < 5 and _check_pid_running(process.pid)
        assert f"kill -9 {process.pid}" in capsys.readouterr().out
        process.kill()
    assert not detect_process(None)


def test_verbs_run_nnictl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing.yml")
    given = Namespace(config=missing, port=8080, debug=False, url_prefix=None, foreground=True)
    assert create_experiment(given) == 1
    assert missing in capsys.readouterr().err
    assert nnictl_utils.stop_experiment(args(id="missing")) == 1
    assert "missing" in capsys.readouterr().err
    assert get_parser().parse_args(["experiment", "list"]).verb
    with pytest.raises(ValueError, match="must be an integer from 1 to 5"):
        updater.validate_digit("9", 1, 5)
    with pytest.raises(FileNotFoundError):
        updater.validate_file(missing)


def test_algorithms() -> None:
    found = package_utils.get_algo_meta("tpe")
    assert found is not None and found.class_name == "nni.algorithms.hpo.tpe_tuner.TpeTuner"
    assert package_utils.get_algo_meta("pb2") is None  # NNI has no schedulers
    meta = {"algoType": "tuner", "builtinName": "mine", "className": "string.Formatter"}
    package_utils.register_algo_meta(package_utils.AlgoMeta.load(meta))
    described = package_utils.get_registered_algo_meta("MINE")
    assert described == {
        "builtinName": "mine",
        "className": "string.Formatter",
        "source": "user",
        "nniVersion": "",
    }
    assert package_utils.create_builtin_class_instance("mine", {}, "tuners").format("{}", 1) == "1"
    tuner = package_utils.create_builtin_class_instance("random", {"seed": 1}, "tuners")
    assert type(tuner).__name__ == "RandomTuner"
    with pytest.raises(RuntimeError, match="there is no assessor 'mine'"):
        package_utils.create_builtin_class_instance("mine", {}, "assessors")
    own = {"className": "nnimgr.tuners.random.RandomTuner", "classArgs": {"seed": 3}}
    assert type(package_utils.create_customized_class_instance(own)).__name__ == "RandomTuner"
    package_utils.unregister_algo_meta("mine")
    assert package_utils.get_algo_meta("mine") is None


def test_configurations_of_the_first_format(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"x": {"_type": "choice", "_value": [1, 2]}}')
    v1 = {
        "authorName": "default",
        "trialConcurrency": 1,
        "trainingServicePlatform": "local",
        "searchSpacePath": "space.json",
        "tuner": {"builtinTunerName": "Random"},
        "trial": {"command": "true", "codeDir": ".", "gpuNum": 0},
    }
    validate_all_content(v1, str(tmp_path / "config.yml"))
    with pytest.raises(ConfigError):
        validate_all_content({**v1, "tuner": {"builtinTunerName": "Missing"}}, str(tmp_path / "config.yml"))


def test_annotations_say_what_to_use() -> None:
    with pytest.raises(ModuleNotFoundError, match="write a search space, and call"):
        __import__("nni.tools.annotation")
