"""``nnictl create`` and ``nnictl resume``."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli.main import main
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.rules.phrases import TUNER_EXHAUSTED
from tests.cli.fake import FakeExperiment, FakeServer, Refused, trial
from tests.cli.terminals import in_a_terminal

CONFIG = """\
searchSpace:
  x: {_type: choice, _value: [1, 2, 3]}
  y: {_type: randint, _value: [0, 5]}
trialCommand: ./run
trialConcurrency: 2
maxTrialNumber: 3
tuner: {name: Random}
goal: maximize
assessor: {name: Medianstop}
scheduler: {name: ASHA}
trainingService: {platform: local}
"""

STAMP = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "


@pytest.fixture
def config(home: Home) -> Path:
    Path("exp.yml").write_text(CONFIG)
    return Path("exp.yml")


def create(server: FakeServer, *arguments: str) -> int:
    return main(["create", "--config", "exp.yml", "--port", str(server.port), *arguments])


def test_create_prints_nnis_lines_and_sends_all(
    server: FakeServer,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "s3cret")
    assert create(server) == 0
    printed = capsys.readouterr()
    (experiment_id,) = server.experiments
    assert re.fullmatch("[a-z0-9]{8}", experiment_id)
    expected = [
        f"Creating experiment, Experiment ID: {experiment_id}",
        "Starting web server...",
        "Setting up...",
        f"Web portal URLs: http://127.0.0.1:{server.port}/login#code=CODE",
        f'To stop experiment run "nnictl stop {experiment_id}" or "nnictl stop --all"',
    ]
    lines = printed.out.splitlines()
    for line, text in zip(lines, expected, strict=False):
        assert re.fullmatch(STAMP + re.escape(text), line)
    assert "s3cret" not in printed.out + printed.err
    method, path, body = server.requests[0]
    assert (method, path) == ("POST", "experiments")
    assert body["id"] == experiment_id
    assert body["environ"] == dict(os.environ)
    assert (body["cwd"], body["python"]) == (str(tmp_path), sys.executable)
    assert list(body["searchSpace"]) == ["x", "y"]
    assert body["config"]["trialCommand"] == "./run"
    assert "searchSpace" not in body["config"]


def test_create_as_json_with_an_id_of_the_users(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(server, "--id", "My_Exp-1", "--json", "--debug") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "id": "My_Exp-1",
        "url": f"http://127.0.0.1:{server.port}/login#code=CODE",
        "port": server.port,
    }
    sent = server.requests[0][2]["config"]
    assert (sent["debug"], sent["logLevel"]) == (True, "debug")


def test_create_without_a_token(server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(server, "--no-token") == 1
    assert "runs already, and it needs its token" in capsys.readouterr().err
    assert not server.experiments
    server.needs_token = False
    for arguments in ([], ["--no-token"]):
        assert create(server, *arguments) == 0
        printed = capsys.readouterr()
        assert f"Web portal URLs: http://127.0.0.1:{server.port}\n" in printed.out
        assert "anyone on this machine can control its experiments" in printed.err


@pytest.mark.parametrize("wanted", ["a b", "../x", "x" * 33])
def test_a_bad_id_is_refused(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str], wanted: str
) -> None:
    assert create(server, "--id", wanted) == 1
    assert "cannot be an experiment id" in capsys.readouterr().err
    assert server.requests == []


def test_faults_of_the_configuration_are_all_shown(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("trialConcurrency: 2", "trialConcurency: 2").replace("choice", "chioce"))
    assert create(server) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "ERROR: exp.yml:2:7: searchSpace.x._type: must be one of choice, randint, uniform, quniform, "
        "loguniform, qloguniform, normal, qnormal, lognormal, qlognormal, not 'chioce'; did you mean choice?",
        "ERROR: exp.yml:5:1: trialConcurency: unknown field; did you mean 'trialConcurrency'?",
        "  Correct exp.yml, then check it: nnictl create --dry-run --config exp.yml",
    ]
    assert create(server, "--json") == 1
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert [problem["line"] for problem in problems] == [2, 5]
    assert server.requests == []


def test_a_missing_file(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(server) == 1
    assert capsys.readouterr().err == (
        "ERROR: exp.yml: this file does not exist\n  Write a configuration to start from: nnictl hello\n"
    )


def test_faults_that_the_server_finds(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [{"field": "tuner", "message": "is not there", "line": 3}]
    server.refuse["experiments"] = Refused(400, "The configuration has faults.", problems=problems)
    assert create(server) == 1
    assert capsys.readouterr().err == "ERROR: 3: tuner: is not there\n  See: nnictl create --help\n"


def test_a_terminal_is_told_of_a_server_only_if_one_starts(server: FakeServer, config: Path) -> None:
    seen = in_a_terminal("create", "--config", "exp.yml", "--port", str(server.port))
    assert seen.code == 0 and "Setting up..." in seen.text and "Starting web server" not in seen.text


def test_a_url_prefix(server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(server, "--url_prefix", "a b") == 1
    assert "'a b' cannot be a URL prefix" in capsys.readouterr().err
    assert create(server, "--url_prefix", "a/b") == 1
    assert "runs already, and it has no URL prefix" in capsys.readouterr().err
    assert not server.experiments
    server.url_prefix = "a/b"
    assert create(server, "--url_prefix", "/a/b/") == 0
    assert create(server) == 0


def test_nni_itself_in_the_environment_is_refused(
    server: FakeServer,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "site" / "nni-3.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert create(server) == 1
    assert f"{sys.executable} -m pip uninstall nni" in capsys.readouterr().err
    assert server.requests == []


def test_a_failure_before_the_command_ends_is_shown(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the background, the user would not see it."""

    def script(experiment: FakeExperiment) -> None:
        reason = "command not found: pyton3 (exit code 127)"
        experiment.trials.append(trial("t0", 0, status="FAILED", reason=reason))
        experiment.profile["counts"] = {"FAILED": 1}

    server.on_create = script
    assert create(server, "--id", "abc") == 0
    assert capsys.readouterr().err == (
        "WARNING: Trial 0 (t0) FAILED: command not found: pyton3 (exit code 127)\n"
        "  See: nnictl log trial abc -T 0 --file stderr\n"
    )
    server.on_create = lambda experiment: server.emit(
        experiment, "ExperimentMoved", status="STOPPED", reason="the first trial failed"
    )
    assert create(server, "--id", "def") == 0
    assert capsys.readouterr().err == "WARNING: Experiment STOPPED: the first trial failed\n"


def script_success(experiment: FakeExperiment, server: FakeServer) -> None:
    moves: list[tuple[str, dict[str, Any]]] = [
        ("ExperimentMoved", {"status": "RUNNING", "reason": "runs"}),
        ("Suggested", {"trialId": "ta", "sequence": 0, "parameters": {"x": 1}}),
        ("JobStarted", {"trialId": "ta", "attempt": 1, "startedAt": "2026-01-01T00:00:00+00:00"}),
        ("MetricReported", {"trialId": "ta", "type": "PERIODICAL", "value": 0.1}),
        ("MetricReported", {"trialId": "ta", "type": "FINAL", "value": 0.5, "text": "0.5"}),
        ("TrialEnded", {"trialId": "ta", "status": "SUCCEEDED", "reason": "exited with code 0"}),
        ("Suggested", {"trialId": "tb", "sequence": 1, "parameters": {"x": 2}}),
        ("JobWaiting", {"trialId": "tb", "reason": "no free GPU"}),
        ("TrialEnded", {"trialId": "tb", "status": "FAILED", "reason": "exited with code 3"}),
        ("ExperimentMoved", {"status": "DONE", "reason": "all 2 trials were created"}),
    ]
    for kind, fields in moves:
        server.emit(experiment, kind, **fields)
    experiment.profile["counts"] = {"SUCCEEDED": 1, "FAILED": 1}
    experiment.profile["bestTrial"] = {"trialId": "ta", "sequence": 0, "value": 0.5, "parameters": {"x": 1}}


def test_in_the_foreground_it_tells_what_happens_and_stops_at_the_end(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on_create = lambda experiment: script_success(experiment, server)
    assert create(server, "--foreground", "--id", "abc") == 0
    lines = [re.sub(f"^{STAMP}", "", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[4:] == [
        "Experiment RUNNING",
        "Trial 0 (ta) started",
        "Trial 0 (ta) SUCCEEDED: 0.5, the best so far",
        "Trial 1 (tb) has no place yet: no free GPU",
        "Trial 1 (tb) FAILED: exited with code 3",
        "Experiment DONE: all 2 trials were created",
        "Trials: 1 SUCCEEDED, 1 FAILED",
        "Trial 1 (tb) FAILED: exited with code 3",
        "  See: nnictl log trial abc -T 1",
        "Best trial: 0 (ta) with 0.5, goal: maximize",
        "  x: 1",
        "Next: nnictl experiment export abc -t csv -f results.csv",
    ]
    assert server.requests[-1][:2] == ("POST", "experiments/abc/stop")


@pytest.mark.parametrize(
    ("ends", "lines"),
    [
        (
            [("FAILED", "exited with code 1: ValueError: boom")],
            [
                "Trials: 1 FAILED",
                "Trial 0 (t0) FAILED: exited with code 1: ValueError: boom",
                "  See: nnictl log trial abc -T 0 --file stderr",
                "No trial has a usable result.",
                "Next: correct the trial's code, then: nnictl create --config exp.yml --port {port}",
            ],
        ),
        (
            [("SUCCEEDED", "exited with code 0")],
            [
                "Trials: 1 SUCCEEDED (1 without a usable result)",
                "No trial has a usable result.",
                "Next: see why no trial has a usable result: nnictl trial ls abc",
            ],
        ),
    ],
)
def test_done_without_a_result_is_no_success(
    server: FakeServer,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    ends: list[tuple[str, str]],
    lines: list[str],
) -> None:
    def script(experiment: FakeExperiment) -> None:
        for sequence, (status, reason) in enumerate(ends):
            found = {"trialId": f"t{sequence}", "sequence": sequence, "parameters": {}}
            server.emit(experiment, "Suggested", **found)
            server.emit(experiment, "TrialEnded", trialId=f"t{sequence}", status=status, reason=reason)
        experiment.profile["counts"] = {status: 1 for status, _ in ends}
        experiment.profile["withoutResult"] = int(ends[0][0] == "SUCCEEDED")
        server.emit(experiment, "ExperimentMoved", status="DONE", reason="all")

    server.on_create = script
    assert create(server, "--foreground", "--id", "abc") == 1
    told = [line.format(port=server.port) for line in lines]
    assert capsys.readouterr().out.splitlines()[-len(lines) :] == told


def test_a_command_that_is_not_found_is_corrected_first(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(experiment: FakeExperiment) -> None:
        failed = trial("t0", 0, status="FAILED", reason="command not found: pyhton3 (exit code 127)")
        experiment.trials.append(failed)
        experiment.profile["counts"] = {"FAILED": 1}
        server.emit(experiment, "ExperimentMoved", status="DONE", reason="all")

    server.on_create = script
    assert create(server, "--foreground", "--id", "abc") == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"Next: correct trialCommand, then: nnictl create --config exp.yml --port {server.port}"


def test_an_error_in_the_foreground_ends_with_1(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(experiment: FakeExperiment) -> None:
        error = {"sentence": "The tuner cannot be made.", "traceback": "Traceback: ..."}
        experiment.profile["errors"] = [error]
        server.emit(experiment, "AlgorithmFailed", role="tuner", call="__init__", sentence="no such file")
        server.emit(experiment, "ExperimentMoved", status="ERROR", reason="the tuner failed")

    server.on_create = script
    assert create(server, "-f") == 1
    printed = capsys.readouterr().out
    assert "The tuner failed in __init__: no such file" in printed
    assert "The tuner cannot be made.\nTraceback: ..." in printed


@pytest.mark.parametrize(
    ("code", "following"),
    [
        (127, "correct trialCommand, then: nnictl create --config exp.yml --port {port}"),
        (
            1,
            "correct the trial's code, then: nnictl resume abc\n"
            "  Then repeat the failed trials: nnictl trial retry abc --failed",
        ),
    ],
)
def test_what_failed_alike_is_corrected_first(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str], code: int, following: str
) -> None:
    def script(experiment: FakeExperiment) -> None:
        failed = trial("t0", 0, status="FAILED", reason=f"it failed (exit code {code})")
        experiment.trials.append(failed)
        experiment.profile["counts"] = {"FAILED": 1}
        server.emit(experiment, "ExperimentMoved", status="STOPPED", reason="all failed alike")

    server.on_create = script
    assert create(server, "-f", "--id", "abc") == 1
    assert capsys.readouterr().out.endswith(f"\nNext: {following.format(port=server.port)}\n")


def test_another_command_may_stop_what_is_watched(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(experiment: FakeExperiment) -> None:
        server.emit(experiment, "ExperimentMoved", status="STOPPED", reason="another user stopped it")

    server.on_create = script
    server.refuse["experiments/abc/stop"] = Refused(503, "The server is leaving.")
    assert create(server, "-f", "--id", "abc") == 1
    printed = capsys.readouterr()
    assert "Experiment STOPPED: another user stopped it" in printed.out
    assert printed.out.endswith("No trial has a usable result.\nNext: nnictl resume abc\n")
    assert printed.err == ""


def test_an_id_that_is_taken_is_no_success(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    assert create(server, "--id", "abc") == 1
    assert capsys.readouterr().err == (
        "ERROR: Experiment abc exists already.\n"
        f"  Choose another id: nnictl create --config exp.yml --port {server.port} --id abc-2\n"
        "  Or see that experiment: nnictl experiment show abc\n"
    )


@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("RUNNING", "Or see that experiment: nnictl experiment show abc"),
        ("STOPPED", "Or continue that experiment: nnictl resume abc"),
    ],
)
def test_an_id_of_another_experiment(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str], status: str, command: str
) -> None:
    server.add("abc", status=status)
    server.refuse["experiments"] = Refused(409, "experiment abc exists with another configuration")
    assert create(server, "--id", "abc") == 1
    assert capsys.readouterr().err == (
        "ERROR: Experiment abc exists with another configuration\n"
        f"  Choose another id: nnictl create --config exp.yml --port {server.port} --id abc-2\n"
        f"  {command}\n"
    )


def test_the_end_in_the_foreground_as_json(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on_create = lambda experiment: script_success(experiment, server)
    assert create(server, "-f", "--json", "--id", "abc") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["id"], answer["status"], answer["bestTrial"]["value"]) == ("abc", "DONE", 0.5)


def test_resume(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", status="STOPPED")
    assert main(["resume", "abc"]) == 0
    assert "Experiment ID: abc" in capsys.readouterr().out
    method, path, body = server.requests[1]
    assert (method, path) == ("POST", "experiments/abc/resume")
    assert set(body) == {"environ", "python"}


def test_resume_says_that_a_limit_is_used_up(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"status": "DONE", "reason": "10 of 10 trials", "counts": {"SUCCEEDED": 10}}
    experiment = server.add("abc", status="STOPPED")
    server.on_resume = lambda: experiment.profile.update(ended)
    assert main(["resume", "abc"]) == 0
    assert capsys.readouterr().err == (
        "WARNING: The experiment ended at once: 10 of 10 trials. "
        "Raise the limit: nnictl update trialnum abc --value 20\n"
    )
    ended["counts"] = {"SUCCEEDED": 8, "FAILED": 2}
    assert main(["resume", "abc"]) == 0
    assert capsys.readouterr().err.endswith(
        "--value 20; or repeat the failed trials: nnictl trial retry abc --failed\n"
    )
    ended |= {"reason": TUNER_EXHAUSTED, "counts": {"SUCCEEDED": 9}}
    assert main(["resume", "abc"]) == 0
    assert capsys.readouterr().err == f"WARNING: The experiment ended at once: {TUNER_EXHAUSTED}.\n"
    ended |= {"reason": "a result reached 3", "config": {"trialCommand": "true", "stopWhen": {"metric": 3}}}
    assert main(["resume", "abc"]) == 0
    assert capsys.readouterr().err == (
        "WARNING: The experiment ended at once: a result reached 3. "
        "Change or remove stopWhen: nnictl update stopwhen abc --filename FILE\n"
    )


def test_an_interrupt_while_the_experiment_is_made_stops_it(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on_create = lambda experiment: os.kill(os.getpid(), signal.SIGINT)
    assert create(server, "--foreground", "--id", "abc") == 130
    assert "Stopping the experiment and its trials" in capsys.readouterr().out
    assert ("POST", "experiments/abc/stop") in [request[:2] for request in server.requests]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_resume_in_the_foreground_begins_behind_what_was(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = server.add("abc", status="STOPPED")
    server.emit(experiment, "TrialEnded", trialId="old", status="SUCCEEDED", reason="")
    experiment.trials.append(trial("ta", 3, status="RUNNING"))
    server.breaking.add("abc")  # the stream breaks once and is resumed

    def script() -> None:
        experiment.trials.append(
            trial("tb", 2, finalValue=0.25, finalText="0.25")
        )  # ended before it could be listed
        server.emit(experiment, "TrialEnded", trialId="tb", status="SUCCEEDED", reason="")
        server.emit(experiment, "TrialEnded", trialId="ta", status="EARLY_STOPPED", reason="the assessor")
        best = {"trialId": "tb", "sequence": 2, "value": 0.25, "parameters": {}}
        experiment.profile["bestTrial"] = best
        server.emit(experiment, "ExperimentMoved", status="DONE", reason="all")

    server.on_resume = script
    assert main(["resume", "abc", "-f"]) == 0
    printed = capsys.readouterr().out
    assert "old" not in printed
    assert "Trial 2 (tb) SUCCEEDED: 0.25" in printed
    assert "Trial 3 (ta) EARLY_STOPPED: the assessor" in printed


def test_resume_of_nothing(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "abc"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment 'abc'.\n  See: nnictl experiment list --all\n"
    )


def test_resume_on_another_port_than_a_running_one(
    server: FakeServer, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    assert main(["resume", "abc", "--port", "1"]) == 1
    assert f"is served on port {server.port} already" in capsys.readouterr().err
    assert Index(home).get("abc") is not None
