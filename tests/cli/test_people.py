"""Verbs in a terminal of 80 columns, for people, and in a pipe, which gets NNI's forms."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli.times import duration_text, when
from nnimgr.index import Index
from tests.cli.endings import add_ended
from tests.cli.fake import CREATED_AT, FakeServer, trial
from tests.cli.terminals import in_a_pipe, in_a_terminal

NAME = "an experiment with a name that is much longer than any terminal is wide, whatever its letters"
PARAMETERS = {"learning_rate": 0.000123456, "optimizer": "adam", "layers": 12, "note": "a long " * 20}
RUNNING: dict[str, Any] = {"status": "RUNNING", "latestValue": 0.5}
REASON = "exited with code 1: ValueError: " + "boom " * 30
BEST = {"trialId": "k0001", "sequence": 1, "value": 0.987654321, "parameters": PARAMETERS}
LIMITS = {
    "trialConcurrency": 2,
    "maxTrialNumber": 60,
    "maxExperimentDurationS": 2400.0,
    "maxTrialDurationS": None,
}


@pytest.fixture
def busy(server: FakeServer) -> FakeServer:
    """A server with one experiment, in which something of each kind has happened."""
    now = datetime.now(UTC)
    ended, begun = (now - timedelta(seconds=90)).isoformat(), (now - timedelta(seconds=215)).isoformat()
    recent = (now - timedelta(seconds=5)).isoformat()
    common: dict[str, Any] = {"parameters": PARAMETERS, "startedAt": begun, "endedAt": ended}
    experiment = server.add(
        "abcdefgh",
        name=NAME,
        counts={"RUNNING": 1, "SUCCEEDED": 2, "FAILED": 1},
        withoutResult=1,
        goalStated=False,
        bestTrial=BEST,
        limits=LIMITS,
        now="1 of 2 slots busy, 3 of 60 finished, 2 of 40 min used",
        notices=[{"about": "tuner", "sentence": "the tuner hangs " * 8, "detail": ""}],
    )
    experiment.trials = [
        trial("k0000", 0, **common, finalText='"good"'),
        trial("k0001", 1, **common, finalValue=0.987654321, finalText="0.987654321"),
        trial("k0002", 2, **common, status="FAILED", reason=REASON),
        trial(
            "k0003", 3, **{**common, "startedAt": recent, "endedAt": None}, status="RUNNING", latestValue=0.5
        ),
    ]
    experiment.export = [
        {"trialId": "k0001", "sequence": 1, "parameterId": 1, "parameters": PARAMETERS, "value": 0.5}
        | {"text": "0.5", "intermediates": []}
    ]
    experiment.logs = {"stdout": b"printed\n", "stderr": b""}
    return server


def test_trials(busy: FakeServer) -> None:
    seen = in_a_terminal("trial", "ls")
    assert seen.code == 0 and seen.widest <= 80
    assert seen.lines[:5] == [
        "NO.  ID     STATUS       RESULT       TIME  PARAMETERS",
        '  0  k0000  SUCCEEDED    "good"  2 min 5 s  learning_rate=0.0001235, optimizer=…',
        "  1  k0001  SUCCEEDED  0.987654  2 min 5 s  learning_rate=0.0001235, optimizer=…",
        "  2  k0002  FAILED            -  2 min 5 s  learning_rate=0.0001235, optimizer=…",
        seen.lines[4],
    ]
    assert "~0.5" in seen.lines[4]
    assert seen.lines[5:9] == [
        "Trials: 1 RUNNING, 2 SUCCEEDED (1 without a usable result), 1 FAILED",
        'Goal: maximize (NNI\'s default; set "goal:")',
        "Best: 0.987654, trial 1 (k0001), 1 min ago",
        "~: the latest intermediate result of a trial without a final result",
    ]
    assert seen.lines[9].startswith("FAILED, trial no. 2: ")
    assert seen.lines[-1] == "  See: nnictl log trial abcdefgh -T 2 --file stderr"
    found = json.loads(in_a_pipe("trial", "ls").text)
    assert [each["trialJobId"] for each in found] == ["k0000", "k0001", "k0002", "k0003"]


def test_a_confirmation_names_the_trial_that_it_confirms(server: FakeServer) -> None:
    server.add("abc").trials = [
        trial("ta", 0, status="SUCCEEDED"),
        trial("tb", 1, status="SUCCEEDED"),
        trial("tc", 2, status="RUNNING", source="confirmation", retryOf="tb"),
    ]
    title, *rows = in_a_terminal("trial", "ls", "abc").lines[:4]
    at = title.index("CONFIRMS")
    assert [row[at : at + len("CONFIRMS")].strip() for row in rows] == ["", "", "1"]


@pytest.mark.parametrize("option", ["--head", "--tail"])
@pytest.mark.parametrize(("status", "yet"), [("RUNNING", " yet"), ("DONE", "")])
def test_the_best_of_no_usable_results_are_none(
    server: FakeServer, option: str, status: str, yet: str
) -> None:
    server.add("abc", status=status).trials = [trial("ta", 0, status="RUNNING")]
    assert in_a_terminal("trial", "ls", "abc", option, "3").lines[0] == (
        f"{option} lists only trials with a usable result, and there are none{yet}."
    )


def test_a_trial_that_waits_after_a_resume_shows_its_latest_result(server: FakeServer) -> None:
    server.add("abc").trials = [
        trial("ta", 0, status="WAITING", finalValue=None, finalText=None, latestValue=8)
    ]
    assert "~8" in in_a_terminal("trial", "ls", "abc").lines[1]


def test_failures_are_listed_by_cause(server: FakeServer) -> None:
    failed: dict[str, Any] = {"status": "FAILED", "reason": "was killed by signal 9 (SIGKILL)"}
    server.add("abc").trials = [
        trial("ta", 0, **failed, cause="out_of_memory"),
        trial("tb", 1, **failed, cause="user_error"),
        trial("tc", 2, **failed, cause="out_of_memory"),
    ]
    assert in_a_terminal("trial", "ls", "abc").lines[-3:] == [
        "FAILED (out of memory), trials no. 0 and 2: was killed by signal 9 (SIGKILL)",
        "  See: nnictl log trial abc -T 2",  # stderr is empty, or its last line would be the reason
        "FAILED, trial no. 1: was killed by signal 9 (SIGKILL)",
    ]


def test_failures_that_differ_in_numbers_are_one_cause(server: FakeServer) -> None:
    server.add("abc").trials = [
        trial("ta", 0, status="FAILED", reason="exited with code 1: ValueError: bad lr 1.5e-3"),
        trial("tb", 1, status="FAILED", reason="exited with code 2: ValueError: bad lr 0.2"),
        trial("tc", 2, status="FAILED", reason="exited with code 1: ValueError: bad lr -7"),
    ]
    assert in_a_terminal("trial", "ls", "abc").lines[-4:] == [
        "FAILED, trials no. 0 and 2, for example no. 2: exited with code 1: ValueError:",
        "  bad lr -7",
        "  See: nnictl log trial abc -T 2 --file stderr",
        "FAILED, trial no. 1: exited with code 2: ValueError: bad lr 0.2",
    ]


def test_the_log_of_the_member_that_has_failed_is_named(server: FakeServer) -> None:
    reason = "exited with code 7: ValueError: bad (member 1 on elm)"
    server.add("abc").trials = [trial("ta", 0, status="FAILED", reason=reason)]
    last = in_a_terminal("trial", "ls", "abc").lines[-1]
    assert last == "  See: nnictl log trial abc -T 0 --file stderr --member 1"


def test_no_trial_that_has_failed_is_passed_over(server: FakeServer) -> None:
    reason = "exited with code 1: "
    reasons = [f"{reason}{'abcdefghijkl'[min(no, 11)]}" for no in range(40)]
    failed = [trial(f"f{no}", no, status="FAILED", reason=why) for no, why in enumerate(reasons)]
    wrong = trial("w", 40, noResult=True, reason="no result: never called")
    server.add("abc").trials = [*failed, wrong]
    lines = in_a_terminal("trial", "ls", "abc").lines
    assert lines[-14:-10] == [
        "SUCCEEDED, trial no. 40: no result: never called",
        "FAILED, 29 trials, the newest ones no. 32, 33, 34, 35, 36, 37, 38 and 39: exited",
        "  with code 1: l",
        "  See: nnictl log trial abc -T 39 --file stderr",
    ]
    assert lines[-3:] == [
        "FAILED, trial no. 3: exited with code 1: d",
        "Also failed or without a usable result: trials no. 0, 1 and 2",
        "  See why: nnictl trial show abc -T 2",
    ]
    server.experiments["abc"].logs = {"stdout": b"printed\n"}
    assert in_a_terminal("log", "trial", "abc", "-T", "40").lines == [
        "printed",
        "WARNING: Trial 40 (w) SUCCEEDED: no result: never called",
    ]


def test_tags_of_trials_have_a_column_once_there_are_any(busy: FakeServer) -> None:
    assert in_a_terminal("trial", "tag", "-T", "1", "--add", "keep,check").code == 0
    seen = in_a_terminal("trial", "ls")
    assert seen.widest <= 80 and "TAGS" in seen.lines[0]
    assert "keep, check" in seen.lines[2] and "keep" not in seen.lines[1]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(busy: FakeServer, columns: int) -> None:
    Index(busy.home).update("abcdefgh", log_dir="/data")  # a short path, which fits into each terminal
    for words in (["trial", "ls"], ["experiment", "list"], ["experiment", "show"], ["experiment", "status"]):
        assert in_a_terminal(*words, columns=columns).widest <= columns


def test_an_experiment(busy: FakeServer) -> None:
    seen = in_a_terminal("experiment", "show")
    assert seen.code == 0 and seen.widest <= 80
    assert "Status      RUNNING: 1 of 2 slots busy, 3 of 60 finished, 2 of 40 min used" in seen.lines
    assert "Limits      2 slots, 60 trials, 40 min" in seen.lines
    assert any(line.startswith("WARNING: The tuner hangs") for line in seen.lines)
    assert json.loads(in_a_pipe("experiment", "show").text)["status"] == "RUNNING"
    assert "Best        0.987654, trial 1 (k0001), 1 min ago" in in_a_terminal("experiment", "status").lines
    assert json.loads(in_a_pipe("experiment", "status").text)["status"] == "RUNNING"


def test_the_rules_that_end_an_experiment(server: FakeServer) -> None:
    rules = {
        "metric": 0.95,
        "plateau": {"trials": 20, "improvement": 0.001},
        "totalTrialTime": "100h",
        "failures": 3,
        "runningTrials": "stop",
    }
    server.add("abc", config={"trialCommand": "true", "stopWhen": rules})
    text = " ".join(in_a_terminal("experiment", "show", columns=200).text.split())
    assert (
        "Ends when a result reaches 0.95, or 20 trials bring no improvement of 0.001, or 100h of trial time "
        "are used, or 3 trials in a row fail; running trials are then stopped" in text
    )


def test_an_assessor_beside_an_advisor_is_not_used(server: FakeServer) -> None:
    server.add("abc", config={"tuner": {"name": "ASHA"}, "assessor": {"name": "Medianstop"}})
    text = in_a_terminal("experiment", "show", columns=200).text
    assert "Medianstop (not used, because the tuner is an advisor)" in text


def test_a_single_trial_is_counted_in_the_singular(server: FakeServer) -> None:
    rules = {"plateau": {"trials": 1}, "failures": 1}
    profile = server.add("abc", config={"trialCommand": "true", "stopWhen": rules}).profile
    profile["limits"] |= {"trialConcurrency": 1, "maxTrialNumber": 1, "maxExperimentDurationS": 30}
    lines = in_a_terminal("experiment", "show").lines
    assert "Limits      1 slot, 1 trial, 30 s" in lines
    assert "Ends when   1 trial brings no improvement, or a trial fails" in lines


def test_lists_of_experiments(busy: FakeServer) -> None:
    seen = in_a_terminal("experiment", "list")
    assert seen.lines[0].split() == ["ID", "NAME", "STATUS", "TRIALS", "BEST", "STARTED"]
    assert seen.lines[1].split()[:2] == ["abcdefgh", "a"] and seen.widest <= 80
    assert in_a_pipe("experiment", "list").lines[2].startswith("Id: abcdefgh    Name: a name    Status: ")


def test_the_last_column_of_a_list_is_not_cut(server: FakeServer) -> None:
    began = datetime.now(UTC) - timedelta(minutes=10, seconds=5)
    for number, status in enumerate(("RUNNING", "STOPPED after an error that has a long reason", "DONE")):
        experiment_id = f"an_experiment_with_a_long_id_{number}"
        server.add(experiment_id, status=status)
        Index(server.home).update(experiment_id, name=NAME, started_at=began)
    seen = in_a_terminal("experiment", "list", "--all")
    assert seen.widest <= 80 and [line[-10:] for line in seen.lines[1:]] == ["10 min ago"] * 3


def test_trials_that_change_while_they_are_read_are_read_again(server: FakeServer) -> None:
    found = server.add("abc", counts={"SUCCEEDED": 1})

    def lists() -> int:
        server.requests.clear()
        assert in_a_terminal("trial", "ls").code == 0
        return sum(path == "experiments/abc/trials" for _, path, _ in server.requests)

    found.trials = [trial("ta", 0, status="SUCCEEDED")]
    assert lists() == 1
    found.trials = [trial("ta", 0, status="RUNNING")]
    assert lists() == 2


def test_a_list_counts_what_it_leaves_out(server: FakeServer) -> None:
    server.add("abc")
    server.add("old", status="STOPPED")
    Index(server.home).update("abc", started_at=datetime.now(UTC))
    assert in_a_terminal("experiment", "list").lines[-1] == (
        "1 more experiment is stopped or archived: nnictl experiment list --all"
    )
    assert "more experiment" not in in_a_terminal("experiment", "list", "--all").text


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ("done", "STOPPED after DONE"),
        ("user", "STOPPED by a user"),
        ("again", "STOPPED by a user"),
        ("error", "STOPPED after ERR"),
        ("failures", "STOPPED: the "),
    ],
)
async def test_a_list_shows_how_an_experiment_has_ended(
    server: FakeServer, tmp_path: Path, how: str, shown: str
) -> None:
    experiment_id = "an_experiment_with_a_long_id"
    await add_ended(server, experiment_id, tmp_path, how)
    Index(server.home).update(experiment_id, name=NAME, started_at=datetime(2026, 1, 2, tzinfo=UTC))
    seen = in_a_terminal("experiment", "list", "--all")
    assert shown in seen.lines[1] and seen.widest <= 80


def test_results(busy: FakeServer) -> None:
    seen = in_a_terminal("experiment", "export")
    assert seen.lines[0].split() == ["NO.", "TRIAL", "RESULT", "PARAMETERS"] and seen.widest <= 80
    assert seen.lines[-1] == "  nnictl experiment export abcdefgh -f results.csv"
    assert in_a_terminal("experiment", "export", "--intermediate").lines[-2:] == [
        "This table has no intermediate results. A file has them:",
        "  nnictl experiment export abcdefgh --intermediate -f results.csv",
    ]
    assert in_a_terminal("experiment", "export", "-t", "csv").lines[0].startswith("learning_rate,")
    for words in (["experiment", "export"], ["experiment", "export", "-t", "json"]):
        assert json.loads(in_a_pipe(*words).text)[0]["trialJobId"] == "k0001"


def test_results_that_are_not_usable_are_counted(busy: FakeServer) -> None:
    experiment = busy.experiments["abcdefgh"]
    word = {"trialId": "k0000", "sequence": 0, "value": None, "text": '"good"'}
    experiment.export = [{**experiment.export[0], **word}, *experiment.export]
    why = "1 of them is not usable (see why: nnictl trial ls abcdefgh)"
    assert in_a_terminal("experiment", "export", columns=200).lines[-3] == f"2 results; {why}"
    written = in_a_pipe("experiment", "export", "-f", "out.json")
    assert written.text == f"INFO: 2 results were written to out.json as JSON; {why}\n"
    plain = in_a_terminal("experiment", "export", "-t", "csv", columns=200)
    assert plain.lines[-1] == f"WARNING: 2 results are written; {why}."
    experiment.export = []
    assert in_a_terminal("experiment", "export", columns=200).lines == [
        "No trial has a result. See the trials: nnictl trial ls abcdefgh"
    ]


def test_the_log_of_a_trial(busy: FakeServer) -> None:
    place = "/data/abc/trials/k0001\n"
    assert in_a_terminal("log", "trial", "-T", "1").text == "printed\n"
    assert in_a_terminal("log", "trial", "-T", "1", "--path").text == place
    assert in_a_pipe("log", "trial", "-T", "1", "--path").text == place
    assert in_a_pipe("log", "trial", "-T", "1").text == f"id:k0001 path:{place}"
    assert in_a_pipe("log", "trial", "-T", "1", "--file", "stdout").text == "printed\n"
    folders = in_a_terminal("log", "trial")
    assert folders.lines[0].split() == ["NO.", "ID", "FOLDER"]
    assert folders.lines[-1] == "See what a trial has printed: nnictl log trial abcdefgh -T 3"
    failed = in_a_terminal("log", "trial", "-T", "2")
    assert failed.lines[0] == "printed" and failed.lines[1].startswith("WARNING: Trial 2 (k0002) FAILED: ")
    nothing = in_a_terminal("log", "trial", "-T", "1", "--file", "stderr")
    assert nothing.text == "WARNING: Trial 1 has printed nothing to stderr.\n"


def test_top_of_several(busy: FakeServer) -> None:
    busy.add("second", name=NAME, now="runs")
    busy.add("done", status="DONE")
    seen = in_a_terminal("top", kind="dumb")
    assert seen.code == 0 and seen.widest <= 80
    assert seen.lines[0].split() == ["ID", "NAME", "STATUS", "TRIALS", "BEST", "STARTED"]
    assert [line.split()[0] for line in seen.lines[1:3]] == ["abcdefgh", "second"]
    assert seen.lines[4].split() == ["EXPERIMENT", "NO.", "TRIAL", "TIME", "LATEST", "PARAMETERS"]
    assert seen.lines[5].split()[:3] == ["abcdefgh", "3", "k0003"]
    assert seen.lines[-1].startswith("Watch one experiment: nnictl top second")


def test_top_of_several_that_have_ended(server: FakeServer) -> None:
    for experiment_id in ("one", "two"):
        server.add(experiment_id, status="DONE")
    seen = in_a_terminal("top")
    assert seen.code == 0 and [line.split()[0] for line in seen.lines[1:3]] == ["one", "two"]
    assert seen.lines[-1] == "Watch one experiment: nnictl top two"


@pytest.mark.parametrize(
    "words",
    [
        "trial foo",
        "update concurrency abcdefgh",
        "trial stop abcdefgh",
        "trial retry abcdefgh",
        "create exp.yml",
        "top --port 99999",
        "experiment export -t xml",
    ],
)
def test_usage_errors_fit_the_terminal(busy: FakeServer, words: str) -> None:
    seen = in_a_terminal(*words.split())
    assert seen.code == 2 and seen.widest <= 80
    assert [": error: " in line for line in in_a_pipe(*words.split()).lines[-2:]] == [True, False]


def test_a_change_is_confirmed_in_plain_words(busy: FakeServer) -> None:
    assert in_a_terminal("update", "trialnum", "--value", "70").lines[0] == "INFO: maxTrialNumber is now 70."
    seen = in_a_terminal("update", "duration", "--value", "90m")
    assert seen.lines[0] == "INFO: maxExperimentDuration is now 1 h 30 min."
    assert in_a_pipe("update", "trialnum", "--value", "70").lines[0] == "INFO: Update trialnum success!"
    assert in_a_terminal("stop").lines[-1] == "INFO: Experiment abcdefgh is stopped."


@pytest.mark.parametrize(
    ("verb", "text", "sentence"),
    [
        ("searchspace", "x: {}", "The search space was the same already: nothing has changed."),
        ("constraints", "[x < 1]", "The constraints were the same already: nothing has changed."),
        ("searchspace", "y: {}", "The search space is changed."),
    ],
)
def test_a_change_to_the_same_is_named(
    server: FakeServer, tmp_path: Path, verb: str, text: str, sentence: str
) -> None:
    server.add("abc", searchSpace={"x": {}})
    (tmp_path / "new.yml").write_text(text)
    seen = in_a_terminal("update", verb, "-f", "new.yml", cwd=tmp_path)
    assert seen.lines[0] == f"INFO: {sentence}"


def test_top_in_a_pipe_begins_with_the_present_state(server: FakeServer) -> None:
    experiment = server.add("abc", now="waits for a machine", lastNumber=7)
    server.emit(experiment, "ExperimentMoved", status="DONE", reason="enough")
    told = [line.partition("] ")[2] for line in in_a_pipe("top").lines]
    assert told[0] == "Waits for a machine"


def test_the_live_view(busy: FakeServer) -> None:
    busy.emit(busy.experiments["abcdefgh"], "ExperimentMoved", status="DONE", reason="60 of 60 trials")
    text = in_a_terminal("top").text
    assert "  trial 1 (k0001)  learning_rate=0.0001235, optimizer=adam, " in text and "…" in text
    assert "Next: nnictl experiment export abcdefgh -t csv -f results.csv" in text


def test_files(busy: FakeServer) -> None:
    seen = in_a_terminal("trial", "files", "-T", "1")
    assert seen.lines[0].split() == ["BYTES", "CHANGED", "FILE"]
    assert seen.lines[2].split()[-1] == "stdout"


def test_errors_are_wrapped_between_words(busy: FakeServer) -> None:
    seen = in_a_terminal("experiment", "show", "x" * 60)
    assert seen.code == 1 and seen.widest <= 80
    assert seen.lines[-1] == "  See: nnictl experiment list --all"


def test_advice_is_wrapped_between_words(server: FakeServer) -> None:
    server.add("a" * 32)
    seen = in_a_terminal("trial", "lost", "a" * 32, "-T", "1")
    assert seen.code == 1 and seen.widest <= 80


# ---- times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
    ],
)
def test_recent_times_are_relative(seconds: float, text: str) -> None:
    now = datetime.now(UTC)
    assert when(now - timedelta(seconds=seconds), now=now) == text


def test_other_times_are_local() -> None:
    now = datetime(2026, 11, 23, 14, 5, tzinfo=UTC)
    local = now.astimezone().strftime("%Y-%m-%d %H:%M")
    assert when(now.isoformat(), now=now + timedelta(days=1)) == local
    assert when(now, now=now - timedelta(hours=1)) == local
    assert when(None) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.4, "< 1 s"),
        (59, "59 s"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3725, "1 h 2 min"),
        (90_061, "1 d 1 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_equal_errors_are_one_line_with_their_number(server: FakeServer) -> None:
    errors = [{"sentence": sentence, "at": CREATED_AT} for sentence in ("bad", "other", "bad")]
    server.add("abc", errors=errors)
    lines = in_a_terminal("experiment", "status", columns=120).lines
    assert [line for line in lines if line.startswith("WARNING")] == [
        f"WARNING: bad (2 times, the last one {when(CREATED_AT)})",
        "WARNING: other",
    ]


@pytest.mark.parametrize(("retried", "said"), [(0, False), (1, True)])
def test_a_failed_trial_that_was_retried_is_shown_as_such(
    server: FakeServer, retried: int, said: bool
) -> None:
    server.add("abc", counts={"FAILED": 1, "SUCCEEDED": 1}, retried=retried)
    server.experiments["abc"].trials = [trial("ta", 0, status="FAILED", reason="exited with code 1")]
    text = in_a_terminal("experiment", "status", columns=160).text
    assert "exited with code 1" in text and ("; all failed trials were retried" in text) is said
