"""``nnictl trial show``, and the reasons below the table of ``nnictl trial ls``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import CREATED_AT, FakeServer, trial
from tests.cli.terminals import in_a_terminal

LATER = "2026-01-02T03:05:10+00:00"
JOB: dict[str, Any] = {
    "attempt": 1,
    "keeperId": "local",
    "gpus": [],
    "startedAt": CREATED_AT,
    "endedAt": LATER,
    "endReason": "exited",
    "exitCode": 1,
    "signal": None,
    "cause": "user_error",
    "members": [],
    "message": "ValueError: boom",
}
CHECKPOINT = {"attempt": 1, "number": 3, "step": 8, "state": "saved", "at": CREATED_AT}


def detailed(**changes: Any) -> dict[str, Any]:
    found = trial("ta", 0, jobs=[JOB], **changes)
    return {"cause": None, "noResult": None, "checkpoints": [], "legs": [], "retriedAs": None, **found}


def test_a_page_has_everything_about_a_trial(server: FakeServer) -> None:
    second = {**JOB, "attempt": 2, "keeperId": "alice_gpu1_22", "gpus": [0, 1], "endedAt": None}
    second |= {"endReason": None, "exitCode": None, "message": None}
    shown = detailed(
        status="EARLY_STOPPED",
        reason="the assessor judged it bad " * 6,
        checkpoints=[CHECKPOINT],
        note="the trial was asked to save its state",
        userNote="a note",
        tags=["kept"],
        latestValue=0.5,
    )
    server.add("abc").trials = [{**shown, "jobs": [JOB, second]}]
    server.experiments["abc"].metrics = [
        {"value": None if at == 7 else at / 10, "text": '"bad"'} for at in range(8)
    ]
    seen = in_a_terminal("trial", "show", "-T", "0")
    assert seen.widest <= 80 and seen.code == 0
    lines = [" ".join(line.split()) for line in seen.lines]
    assert lines[0] == "Trial 0 (ta) of experiment abc"
    assert lines[1].startswith("Status EARLY_STOPPED: the assessor judged it bad")
    assert "Result -" in lines and 'Reports 8 in all, the last 5: 0.3, 0.4, 0.5, 0.6, "bad"' in lines
    assert "Parameters x=0" in lines
    assert any(line.startswith("Attempt 2 on gpu1, GPUs 0, 1, runs for ") for line in lines)
    assert "Attempt 1 on this machine, 1 min 5 s, exited with code 1: ValueError: boom" in lines
    assert any(
        line.startswith("Checkpoints 1 saved, 1 kept; the newest is number 3 of attempt 1 at step 8")
        for line in lines
    )
    assert "Notice the trial was asked to save its state" in lines and "Note a note" in lines
    assert "Tags kept" in lines and "Files /data/abc/trials/ta" in lines
    assert "nnictl trial checkpoint ls abc -T 0 # its checkpoints" in lines


def test_a_page_says_where_the_parameters_of_an_attempt_are_from(server: FakeServer) -> None:
    leg = {"leg": 1, "attempt": 2, "parameters": {"x": 2}, "reason": "rank 3 of 3; trial b has 5"}
    jobs = [JOB, {**JOB, "attempt": 2}]
    server.add("abc").trials = [{**detailed(firstParameters={"x": 1}), "jobs": jobs, "legs": [leg]}]
    lines = [" ".join(line.split()) for line in in_a_terminal("trial", "show", "-T", "0", columns=120).lines]
    at = next(number for number, line in enumerate(lines) if line.startswith("Attempt 2"))
    assert lines[at + 1] == "begins leg 1, with x=2 instead of x=1: rank 3 of 3; trial b has 5"


def test_a_page_shows_a_result_that_is_not_usable(server: FakeServer) -> None:
    reason = 'no usable result: "0.93 %" is not a number; pass a float to nni.report_final_result()'
    server.add("abc").trials = [
        detailed(finalValue=None, finalText='"0.93 %"', noResult=reason, reason=reason)
    ]
    lines = [" ".join(line.split()) for line in in_a_terminal("trial", "show", "-T", "0", columns=120).lines]
    assert f"Status SUCCEEDED: {reason}" in lines
    assert 'Result "0.93 %", which is not usable: see Status' in lines
    assert any(" not usable " in line for line in in_a_terminal("trial", "ls").lines)


def test_a_page_of_a_trial_that_ran_elsewhere(server: FakeServer) -> None:
    job = {**JOB, "keeperId": "ask"}
    server.add("abc").trials = [{**detailed(status="FAILED", reason="bad", logPath=""), "jobs": [job]}]
    lines = in_a_terminal("trial", "show", "-T", "0").lines
    assert "in a program of your own, 1 min 5 s, its end was told" in lines[5]
    assert not any("nnictl log" in line for line in lines)


@pytest.mark.parametrize(
    ("started", "attempt"),
    [(CREATED_AT, "imported, ran 1 min 5 s elsewhere"), (None, "imported")],
)
def test_a_page_of_a_trial_that_was_imported(server: FakeServer, started: str | None, attempt: str) -> None:
    job = {**JOB, "keeperId": "import", "startedAt": started, "exitCode": 0, "message": None}
    server.add("abc").trials = [{**detailed(logPath=""), "jobs": [job]}]
    lines = [" ".join(line.split()) for line in in_a_terminal("trial", "show", "-T", "0").lines]
    assert f"Attempt 1 {attempt}" in lines
    assert "Files none: it was imported, and did not run here" in lines
    assert not any("nnictl log" in line or "trial files" in line for line in lines)
    refused = in_a_terminal("log", "trial", "-T", "0", columns=120)
    assert refused.code == 1 and refused.lines == [
        "ERROR: Trial 0 (ta) was imported, and did not run here, so nnimgr has no output and no files of it.",
        "  See how it ended: nnictl trial show abc -T 0",
    ]


def test_a_page_names_the_members_on_several_machines(server: FakeServer) -> None:
    ended = {key: JOB[key] for key in ("startedAt", "endedAt", "endReason", "exitCode", "signal", "message")}
    members = [
        {
            **ended,
            "member": 0,
            "keeperId": "alice_gpu1_22",
            "gpus": [0],
            "endReason": "stopped",
            "message": None,
        },
        {**ended, "member": 1, "keeperId": "alice_gpu2_22", "gpus": [1], "exitCode": 7, "message": "boom"},
    ]
    server.add("abc").trials = [{**detailed(), "jobs": [{**JOB, "members": members}]}]
    lines = [" ".join(line.split()) for line in in_a_terminal("trial", "show", "-T", "0").lines]
    assert "member 0: on gpu1, GPU 0, 1 min 5 s, stopped by nnimgr" in lines
    assert "member 1: on gpu2, GPU 1, 1 min 5 s, exited with code 7: boom" in lines


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"endReason": "stopped", "exitCode": None, "signal": 15}, "stopped by nnimgr"),
        ({"endReason": "stopped", "exitCode": 0}, "stopped by nnimgr"),
        ({"endReason": "stopped", "exitCode": None}, "stopped"),  # in a program of the user
        (
            {"endReason": "lease", "exitCode": None, "signal": 9},
            "stopped by nnimgr, because its machine had no contact to the server",
        ),
        ({"exitCode": None, "signal": 9}, "killed by signal 9"),
    ],
)
def test_a_page_says_how_an_attempt_has_ended(server: FakeServer, end: dict[str, Any], told: str) -> None:
    job = {**JOB, "cause": None, "message": None, **end}
    server.add("abc").trials = [{**detailed(), "jobs": [job]}]
    lines = [" ".join(line.split()) for line in in_a_terminal("trial", "show", "-T", "0", columns=200).lines]
    assert f"Attempt 1 on this machine, 1 min 5 s, {told}" in lines


def test_a_page_of_a_trial_that_waits_names_no_folder(server: FakeServer) -> None:
    server.add("abc").trials = [{**detailed(status="WAITING"), "jobs": [{**JOB, "keeperId": None}]}]
    lines = in_a_terminal("trial", "show", "-T", "0").lines
    assert not any(line.startswith("Files") or "nnictl log trial" in line for line in lines)


def test_the_trial_that_is_repeated_has_its_number(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    repeats = {**detailed(), "id": "tb", "sequence": 1, "source": "rerun", "retryOf": "ta"}
    server.add("abc").trials = [detailed(), repeats]
    assert main(["trial", "show", "-T", "1"]) == 0
    assert "Repeats     trial 0 (ta)\n" in capsys.readouterr().out


def test_a_fork_says_where_it_continues_and_what_is_changed(server: FakeServer) -> None:
    before = {**detailed(), "parameters": {"lr": 0.1, "width": 8}}
    fork = {**detailed(), "id": "tb", "sequence": 1, "source": "fork", "retryOf": "ta"}
    server.add("abc").trials = [before, {**fork, "parameters": {"lr": 0.2, "width": 8}}]
    names = {"trialId": "tb", "originTrialId": "ta", "originAttempt": 1, "originNumber": 2, "step": 5}
    server.experiments["abc"].forks = [{**names, "trialId": "other"}, names]

    def continues() -> str:
        lines = in_a_terminal("trial", "show", "-T", "1", columns=200).lines
        (line,) = (line for line in lines if line.startswith("Continues"))
        return line.removeprefix("Continues").strip()

    assert continues() == "from checkpoint 1.2 (step 5) of trial 0 (ta), with lr=0.2 instead of lr=0.1"
    names["step"] = None
    server.experiments["abc"].trials = [before, {**fork, "parameters": before["parameters"]}]
    assert continues() == "from checkpoint 1.2 of trial 0 (ta)"
    retry = {**fork, "id": "tc", "sequence": 2, "source": "rerun", "retryOf": "tb", "intermediates": 3}
    server.experiments["abc"].metrics = [{"value": 0.5, "text": "0.5"}]
    server.experiments["abc"].trials = [before, fork, {**retry, "parameters": before["parameters"]}]
    server.experiments["abc"].forks = [names, {**names, "trialId": "tc"}]
    lines = in_a_terminal("trial", "show", "-T", "2", columns=200).lines
    assert [line.split(maxsplit=1) for line in lines if line.startswith(("Re", "Continues"))] == [
        ["Repeats", "trial 1 (tb)"],
        ["Continues", "from checkpoint 1.2 of trial 0 (ta)"],
        ["Result", "-"],
        ["Reports", "0.5 (after the 2 of the trial from which it continues)"],
    ]


def test_the_latest_of_many_reports(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").trials = [detailed()]
    server.experiments["abc"].metrics = [{"value": float(at), "text": ""} for at in range(1001)]
    assert main(["trial", "show", "-T", "0"]) == 0
    assert "Reports     1001 in all, the latest: 1000\n" in capsys.readouterr().out
    assert main(["trial", "show", "-T", "0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["id"] == "ta" and answer["latestMetrics"] == [{"value": 1000.0, "text": ""}]


def test_a_list_says_why_trials_were_stopped_early_or_wait(server: FakeServer) -> None:
    why = ["bad", "worse", "worst", "bad", "below 0.5", "below 0.7"]
    stopped = [trial(f"s{no}", no, status="EARLY_STOPPED", reason=why[no]) for no in range(6)]
    waits = [trial(f"w{no}", 6 + no, status="WAITING", reason="no free GPU") for no in range(2)]
    starts = [trial(f"t{no}", 8 + no, status="WAITING", reason="is being started") for no in range(2)]
    late = trial("u0", 10, status="SYS_CANCELED", reason="stopped after 5m (maxTrialDuration)")
    server.add("abc").trials = [*stopped, *waits, *starts, late]
    assert in_a_terminal("trial", "ls", "abc").lines[-8:] == [
        "EARLY_STOPPED, trials no. 4 and 5, for example no. 5: below 0.7",
        "EARLY_STOPPED, trials no. 0 and 3: bad",
        "EARLY_STOPPED, trial no. 2: worst",
        "Also EARLY_STOPPED: trial no. 1",
        "  See why: nnictl trial show abc -T 1",
        "SYS_CANCELED, trial no. 10: stopped after 5m (maxTrialDuration)",
        "WAITING, trials no. 8 and 9: each is being started",
        "WAITING, trials no. 6 and 7: no free GPU",
    ]
