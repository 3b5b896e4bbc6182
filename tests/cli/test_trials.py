"""Commands about one trial, and how a trial is named."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer, Refused, trial
from tests.cli.terminals import in_a_terminal


@pytest.mark.parametrize(
    ("word", "found"),
    [("kab12", "kab12"), ("kab1", "kab12"), ("0", "kab12"), ("2", "m2222"), ("m", "m2222"), ("kac", "kac12")],
)
def test_a_trial_is_named_by_its_id_its_beginning_or_its_number(
    server: FakeServer, word: str, found: str
) -> None:
    server.add("abc").trials = [trial("kab12", 0), trial("kac12", 1), trial("m2222", 2)]
    assert main(["trial", "stop", "-T", word]) == 0
    assert server.requests[-1][1] == f"experiments/abc/trials/{found}/stop"


@pytest.mark.parametrize("word", ["3", "ab12", "none", "9" * 30])
def test_what_names_no_trial(server: FakeServer, capsys: pytest.CaptureFixture[str], word: str) -> None:
    server.add("abc").trials = [trial("kab12", 0), trial("kac12", 1)]
    for verb in (["trial", "stop", "-T", word], ["trial", "files", "-T", word], ["log", "trial", "-T", word]):
        assert main(verb) == 1
        assert capsys.readouterr().err == (
            f"ERROR: There is no trial '{word}' in experiment abc.\n  See: nnictl trial ls abc\n"
        )


def test_an_ambiguous_beginning_lists_the_trials(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc").trials = [trial("kab12", 0), trial("kac12", 1, status="RUNNING")]
    assert main(["trial", "stop", "-T", "ka"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: 'ka' is ambiguous: it fits 2 trials of experiment abc.\n"
        "  kab12  No. 0  SUCCEEDED\n"
        "  kac12  No. 1  RUNNING\n"
        "  Name one of them by its number or id, such as 0. See: nnictl trial ls abc\n"
    )


def test_kill(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    assert main(["trial", "kill", "abc", "--trial_id", "ta"]) == 0
    assert capsys.readouterr().out == "INFO: Trial 0 (ta) is being stopped.\n"
    assert main(["trial", "kill", "abc", "-T", "none"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no trial 'none' in experiment abc.\n  See: nnictl trial ls abc\n"
    )


def test_pause_and_resume(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    assert main(["trial", "pause", "abc", "-T", "ta"]) == 0
    assert capsys.readouterr().out == (
        "INFO: Trial 0 (ta) is being paused. "
        "Then it waits until you continue it: nnictl trial resume abc -T 0\n"
    )
    assert main(["trial", "resume", "abc", "-T", "0"]) == 0
    assert capsys.readouterr().out == "INFO: Trial 0 (ta) continues as soon as a slot is free.\n"
    server.experiments["abc"].trials = [trial("ta", 0, status="PAUSED")]
    assert main(["trial", "pause", "-T", "0"]) == 0
    assert capsys.readouterr().out == (
        "INFO: Trial 0 (ta) is paused, and stays so until you continue it. "
        "To continue it: nnictl trial resume abc -T 0\n"
    )


def test_save(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    assert main(["trial", "save", "-T", "ta"]) == 0
    assert capsys.readouterr().out == (
        "INFO: Trial 0 (ta) is asked to save its state. If its code does not look for such "
        "requests (nni.should_checkpoint), a notice says so. "
        "See the notice and the checkpoints: nnictl trial show abc -T 0\n"
    )
    assert server.requests[-1][:2] == ("POST", "experiments/abc/trials/ta/save")


def test_add(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0, parameters={"lr": 0.1, "net": "a"})]
    assert main(["trial", "add", "-T", "0"]) == 0
    assert server.requests[-1] == ("POST", "experiments/abc/trials", {"like": "ta"})
    assert capsys.readouterr().out == (
        "INFO: Trial 9 (ta2) starts with the parameters of trial 0 as soon as a slot is free.\n"
    )
    server.experiments["abc"].warnings = ["lr is 50, outside loguniform [0.001, 1]"]
    assert main(["trial", "add", "-T", "0", "--set", "lr=50"]) == 0
    wanted = {"like": "ta", "parameters": {"lr": 50, "net": "a"}}
    assert server.requests[-1] == ("POST", "experiments/abc/trials", wanted)
    said = capsys.readouterr()
    assert said.out == (
        "INFO: Trial 9 (ta2) starts with changed parameters of trial 0 as soon as a slot is free.\n"
    )
    assert said.err == "WARNING: lr is 50, outside loguniform [0.001, 1].\n"


def test_fork(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0, parameters={"lr": 0.1, "net": "a"})]
    assert main(["trial", "fork", "-T", "0"]) == 0
    assert capsys.readouterr().out == (
        "INFO: Trial 9 (ta2) continues from a checkpoint of trial 0 as soon as a slot is free.\n"
    )
    changes = ["--set", "lr=0.001", "--set", "net=b"]
    assert main(["trial", "fork", "-T", "0", *changes, "--checkpoint", "1.8"]) == 0
    wanted = {"checkpoint": {"attempt": 1, "number": 8}, "parameters": {"lr": 0.001, "net": "b"}}
    assert server.requests[-1] == ("POST", "experiments/abc/trials/ta/fork", wanted)
    server.experiments["abc"].warnings = ["lr is 50, outside loguniform [0.001, 1]"]
    assert main(["trial", "fork", "-T", "0", "--set", "lr=50"]) == 0
    assert capsys.readouterr().err == "WARNING: lr is 50, outside loguniform [0.001, 1].\n"


@pytest.mark.parametrize(("verb", "path"), [("add", "trials"), ("fork", "trials/ta/fork")])
def test_a_new_trial_above_the_limit(server: FakeServer, verb: str, path: str) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    assert main(["trial", verb, "-T", "0", "--raise-limit"]) == 0
    assert server.requests[-1][:2] == ("POST", f"experiments/abc/{path}")
    assert server.requests[-1][2]["raiseLimit"] is True


def test_a_new_trial_that_the_limit_forbids(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    told = 'the limit is reached; to raise it: --raise-limit ("raiseLimit": true in REST)'
    server.refuse["experiments/abc/trials/ta/fork"] = Refused(409, told)
    assert main(["trial", "fork", "-T", "0"]) == 1
    assert capsys.readouterr().err.endswith("Repeat: nnictl trial fork -T 0 --raise-limit\n")


@pytest.mark.parametrize("words", [["-T", "0,tb"], ["-T", "0", "-T", "1,ta"]])
def test_several_trials(server: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    server.add("abc").trials = [trial("ta", 0), trial("tb", 1)]
    assert main(["trial", "stop", *words]) == 0
    assert capsys.readouterr().out == (
        "INFO: Trial 0 (ta) is being stopped.\nINFO: Trial 1 (tb) is being stopped.\n"
    )
    stopped = [path for method, path, _ in server.requests if method == "POST"]
    assert stopped == [f"experiments/abc/trials/{each}/stop" for each in ("ta", "tb")]
    assert main(["trial", "pause", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"trials": [{"id": "ta"}, {"id": "tb"}]}


def test_the_error_of_several_trials_is_printed_once(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc").trials = [trial(name, at, status="RUNNING") for at, name in enumerate(("ta", "tb"))]
    closed = Refused(409, "the experiment is STOPPED: resume it first")
    server.refuse = {f"experiments/abc/trials/{each}/stop": closed for each in ("ta", "tb")}
    assert main(["trial", "stop", "-T", "0,1"]) == 1
    assert capsys.readouterr().err.count("ERROR: The experiment is STOPPED: resume it first\n") == 1


@pytest.mark.parametrize("verb", ["pause", "stop", "save", "resume", "retry"])
def test_a_resume_does_not_help_to_change_an_ended_trial(
    server: FakeServer, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    ended = "Trial 0 (ta) has ended already: it is SYS_CANCELED."
    server.add("abc", status="STOPPED").trials = [trial("ta", 0, status="SYS_CANCELED"), trial("tb", 1)]
    server.experiments["abc"].trials[1]["status"] = "FAILED" if verb == "retry" else "PAUSED"
    rerun = "experiments/abc/rerun"
    paths = {
        each: rerun if verb == "retry" else f"experiments/abc/trials/{each}/{verb}" for each in ("ta", "tb")
    }
    closed = "the experiment is STOPPED, and no server has it open: resume it first"
    server.refuse = {paths["ta"]: Refused(409, ended if verb == "retry" else closed)}
    assert main(["trial", verb, "abc", "-T", "0"]) == 1
    assert capsys.readouterr().err == f"ERROR: {ended}\n  See the trials: nnictl trial ls abc\n"
    server.refuse = {paths["tb"]: Refused(409, "the experiment is STOPPED: resume it first")}
    assert main(["trial", verb, "abc", "-T", "1"]) == 1
    assert capsys.readouterr().err.endswith(
        f"\n  Resume it, then repeat: nnictl resume abc && nnictl trial {verb} abc -T 1\n"
    )


def test_where_the_attempts_of_a_trial_are_listed(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    refused = Refused(404, "Trial 0 (ta) has no attempt 4.")
    server.refuse["experiments/abc/trials/ta/files"] = refused
    for words in (["log", "trial", "abc", "-T", "0", "--file", "stdout"], ["trial", "files", "-T", "0"]):
        assert main([*words, "--attempt", "4"]) == 1
        assert ": nnictl trial show abc -T 0\n" in capsys.readouterr().err


def test_a_command_about_one_trial_says_so(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [trial("ta", 0), trial("tb", 1)]
    assert main(["trial", "show", "-T", "0,1"]) == 1
    assert capsys.readouterr().err.startswith(
        "ERROR: '0,1' names several trials, but this command takes one trial at a time.\n"
    )


@pytest.mark.parametrize(
    ("option", "error"),
    [
        (["--set", "rate=1"], "--set rate=1: there is no parameter rate; the parameters are x"),
        (["--set", "x=1e999"], "--set x=1e999: the value is not finite, so no trial can get it"),
        (
            ["--checkpoint", "8"],
            "--checkpoint must be the number of an attempt and of its checkpoint, such as 1.8, not '8'",
        ),
    ],
)
def test_a_fork_with_a_wrong_option(
    server: FakeServer, capsys: pytest.CaptureFixture[str], option: list[str], error: str
) -> None:
    server.add("abc").trials = [trial("ta", 0)]
    assert main(["trial", "fork", "-T", "0", *option]) == 1
    assert capsys.readouterr().err == f"ERROR: {error}\n  See: nnictl trial fork --help\n"


@pytest.mark.parametrize(
    ("mode", "option", "best_first", "by_size"),
    [
        ("maximize", "--head", ["tc", "ta"], ["tc", "ta"]),
        ("maximize", "--tail", ["tb", "ta"], ["tb", "ta"]),
        ("minimize", "--head", ["tb", "ta"], ["tc", "ta"]),
        ("minimize", "--tail", ["tc", "ta"], ["tb", "ta"]),
    ],
)
def test_the_head_is_the_best_and_in_nnis_format_the_largest(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    option: str,
    best_first: list[str],
    by_size: list[str],
) -> None:
    experiment = server.add("abc", optimizeMode=mode)
    experiment.trials = [
        trial("ta", 0, finalValue=0.5),
        trial("tb", 1, finalValue=0.1),
        trial("tc", 2, finalValue=0.9),
        trial("td", 3, status="FAILED"),
    ]
    assert main(["trial", "ls", option, "2", "--json"]) == 0
    printed = capsys.readouterr()
    assert [each["id"] for each in json.loads(printed.out)["trials"]] == best_first and printed.err == ""
    rows = in_a_terminal("trial", "ls", option, "2").lines[1:3]
    assert [row.split()[1] for row in rows] == best_first
    assert main(["trial", "ls", option, "2"]) == 0
    printed = capsys.readouterr()
    assert [each["trialJobId"] for each in json.loads(printed.out)] == by_size
    assert ("The goal is minimize, so these are the" in printed.err) is (mode == "minimize")


def test_the_log_of_an_earlier_attempt(server: FakeServer) -> None:
    paths: list[dict[str, Any]] = [
        {"attempt": number, "keeperId": "local", "logPath": f"/data/abc/trials/ta.{number}"}
        for number in (1, 2)
    ]
    experiment = server.add("abc")
    experiment.trials = [trial("ta", 0, attempt=2, jobs=paths)]
    experiment.logs = {"stdout": b"hello\n"}
    assert in_a_terminal("log", "trial", "-T", "0", columns=200).lines == [
        "hello",
        "WARNING: This is attempt 2 of trial 0 (ta), the latest. See the first: "
        "nnictl log trial abc -T 0 --file stdout --attempt 1",
    ]
    assert server.requests[-1][1].endswith("/trials/ta/logs/stdout?attempt=2")
    assert in_a_terminal("log", "trial", "-T", "0", "--attempt", "1").lines == ["hello"]
    assert server.requests[-1][1].endswith("/trials/ta/logs/stdout?attempt=1")
    assert (
        in_a_terminal("log", "trial", "-T", "0", "--attempt", "1", "--path").text
        == f"{paths[0]['logPath']}\n"
    )
    none = in_a_terminal("log", "trial", "-T", "0", "--attempt", "3", "--path")
    assert none.code == 1
    assert none.lines == [
        "ERROR: Trial 0 (ta) has no attempt 3; its latest is 2.",
        "  See the latest: nnictl log trial abc -T 0",
    ]


@pytest.mark.parametrize(
    "queued", [[], [{"attempt": 2, "keeperId": None, "logPath": "/data/abc/trials/ta.2"}]]
)
def test_the_log_while_the_next_attempt_waits(server: FakeServer, queued: list[dict[str, Any]]) -> None:
    first = {"attempt": 1, "keeperId": "local", "logPath": "/data/abc/trials/ta"}
    experiment = server.add("abc")
    experiment.trials = [trial("ta", 0, attempt=2, status="WAITING", jobs=[first, *queued])]
    experiment.logs = {"stdout": b"hello\n"}
    assert in_a_terminal("log", "trial", "-T", "0", columns=200).lines == [
        "hello",
        "WARNING: This is attempt 1 of trial 0 (ta), the latest that has started. "
        "Attempt 2 has not started yet.",
    ]
    answer = json.loads(in_a_terminal("log", "trial", "-T", "0", "--file", "stdout", "--json").text)
    assert answer["attempt"] == 1


def test_the_log_of_an_attempt_that_has_not_started(server: FakeServer) -> None:
    experiment = server.add("abc")
    experiment.trials = [trial("ta", 0, attempt=3, jobs=[])]
    experiment.logs = {"stdout": b""}
    assert in_a_terminal("log", "trial", "-T", "0", columns=200).lines == [
        "WARNING: Trial 0 has printed nothing to stdout."
    ]


def test_lost(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("abc").trials = [trial("ta", 0, status="UNKNOWN"), trial("tb", 1, status="RUNNING")]
    told = "INFO: Trial 0 (ta) counts as lost; it is started again as often as maxRetries allows.\n"
    for answer, code, out in (("n\n", 1, ""), ("", 1, ""), ("y\n", 0, told)):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert main(["trial", "lost", "abc", "-T", "ta"]) == code
        printed = capsys.readouterr()
        assert (
            printed.out == out
            and "Give up trial 0 (ta) on its machine, and start it again on another one?" in printed.err
        )
    assert main(["trial", "lost", "-T", "ta", "-y"]) == 0
    assert main(["trial", "lost", "-T", "tb"]) == 1
    refused = capsys.readouterr().err
    assert refused.startswith("ERROR: Trial 1 (tb) is RUNNING: only an UNKNOWN trial") and "?" not in refused
    assert main(["trial", "lost", "-T", "none", "-y"]) == 1


def test_rerun(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = server.add("abc")
    experiment.trials = [trial("ta", 0)]
    assert main(["trial", "rerun", "abc", "--failed"]) == 0
    assert capsys.readouterr().out == "INFO: No failed trial is left to retry.\n"
    experiment.trials = [trial("ta", 0), trial("tb", 1, status="FAILED")]
    assert main(["trial", "retry", "--failed"]) == 0
    assert capsys.readouterr().out == "INFO: Trial 1 (tb) is retried as trial 9 (tb2).\n"
    assert main(["trial", "rerun", "-T", "ta", "-T", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["retryOf"] for each in found["trials"]] == ["ta", "tb"]
    with pytest.raises(SystemExit):
        main(["trial", "rerun"])


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({}, "Run its parameters again: nnictl trial add abc -T 0"),
        ({"status": "USER_CANCELED"}, "Run its parameters again: nnictl trial add abc -T 0"),
        ({"status": "PAUSED"}, "Continue it: nnictl trial resume abc -T 0"),
        ({"status": "RUNNING"}, "See the trials: nnictl trial ls abc"),
        ({"source": "confirmation"}, "See the trials: nnictl trial ls abc"),
    ],
)
def test_what_to_do_instead_of_a_retry(
    server: FakeServer, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], mend: str
) -> None:
    server.add("abc").trials = [trial("ta", 0, **changes)]
    refused = "Trial 0 (ta) has not failed."
    server.refuse = {"experiments/abc/rerun": Refused(409, refused)}
    assert main(["trial", "retry", "abc", "-T", "0"]) == 1
    assert capsys.readouterr().err == f"ERROR: {refused}\n  {mend}\n"


def test_a_person_with_a_pipe_is_told_how_to_get_the_output(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    server.add("abc").trials = [trial("ta", 0)]
    monkeypatch.setattr("sys.stderr", screen := Screen())
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["log", "trial", "-T", "0"]) == 0
    assert capsys.readouterr().out == "id:ta path:/data/abc/trials/ta\n"
    said = " ".join(screen.getvalue().split())
    assert said == "WARNING: A pipe gets the folder of the trial, as in NNI. To get the output, add --follow."
    assert main(["log", "trial"]) == 0
    assert " ".join(screen.getvalue().split()).endswith("To get the output, add -T TRIAL --follow.")


def test_logs_of_trials(server: FakeServer, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    experiment = server.add("abc")
    experiment.trials = [trial("ta", 0), trial("tb", 1), trial("tc", 2)]
    experiment.logs = {"stdout": b"hello \xff\n", "stderr": b"oops\n"}
    assert main(["log", "trial"]) == 0
    assert capfdbinary.readouterr().out == (
        b"id:ta path:/data/abc/trials/ta\nid:tb path:/data/abc/trials/tb\nid:tc path:/data/abc/trials/tc\n"
    )
    assert main(["log", "trial", "-T", "tb"]) == 0
    assert capfdbinary.readouterr().out == b"id:tb path:/data/abc/trials/tb\n"
    assert main(["log", "trial", "-T", "tb", "--follow"]) == 0
    assert capfdbinary.readouterr().out == b"hello \xff\n"
    assert server.requests[-1][1].endswith("/trials/tb/logs/stdout?follow=true")
    assert main(["log", "trial", "-T", "tb", "--file", "stderr"]) == 0
    assert capfdbinary.readouterr().out == b"oops\n"
    assert main(["log", "trial", "-T", "tb", "--file", "stdout", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {
        "trial": "tb",
        "attempt": 1,
        "file": "stdout",
        "text": "hello \ufffd\n",
    }
    assert main(["log", "trial", "-T", "1", "--path"]) == 0
    assert capfdbinary.readouterr().out == b"/data/abc/trials/tb\n"
    assert main(["log", "trial", "--follow"]) == 1


def test_two_trials_where_one_is_meant_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trial", "fork", "-T", "0", "-T", "1"])
    assert "-T/--trial_id: is given twice, but this command takes one trial at a time" in (
        " ".join(capsys.readouterr().err.split())
    )


def test_trials_of_some_statuses(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    statuses = ["SUCCEEDED", "FAILED", "RUNNING", "FAILED"]
    server.add("abc").trials = [trial(f"t{no}", no, status=status) for no, status in enumerate(statuses)]
    assert main(["trial", "ls", "--status", "failed, running", "--json"]) == 0
    assert [each["id"] for each in json.loads(capsys.readouterr().out)["trials"]] == ["t1", "t2", "t3"]
    lines = in_a_terminal("trial", "ls", "--status", "FAILED").lines
    assert [line.split()[1] for line in lines[1:3]] == ["t1", "t3"]
    assert in_a_terminal("trial", "ls", "--status", "PAUSED").lines[0] == "No trial is PAUSED."
    with pytest.raises(SystemExit):
        main(["trial", "ls", "--status", "BAD"])
    assert "there is no status 'BAD'; valid are WAITING, RUNNING, " in capsys.readouterr().err
