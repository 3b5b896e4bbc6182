"""The live view of an experiment."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from nnimgr.cli.live import LiveScreen, view
from nnimgr.cli.progress import Progress, moved, number, parameters_text
from nnimgr.client.calls import Event
from tests.cli.fake import profile, trial

NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def shown(progress: Progress) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(view(progress, now=NOW, since=timedelta(seconds=3)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


def event(kind: str, **fields: Any) -> Event:
    return Event(kind, 1, fields)


def test_the_view_shows_what_is_of_interest() -> None:
    progress = Progress.of(
        profile(
            "abc",
            counts={"RUNNING": 1, "SUCCEEDED": 3, "FAILED": 1},
            bestTrial={"trialId": "tb", "sequence": 1, "value": 0.123456789, "parameters": {"x": 0.25}},
            durationS=60.0,
        )
    )
    progress.add_trial(trial("ta", 4, status="RUNNING", latestValue=0.5, intermediates=7))
    progress.apply(event("JobWaiting", trialId="zz", reason="no free GPU"))
    text = shown(progress)
    assert "Experiment abc a name  RUNNING\nruns\n" in text
    assert "4 of 10" in text
    assert "1 min 3 s, no limit" in text
    assert "1 RUNNING 3 SUCCEEDED 1 FAILED" in text
    assert "Best   0.123457  trial 1 (tb)  x=0.25" in text
    assert "Trial zz has no place yet: no free GPU" in text
    (line,) = [line for line in text.splitlines() if line.strip().startswith("ta ")]
    assert line.split() == ["ta", "4", "1", "min", "7", "0.5", "x=0.4"]


@pytest.mark.parametrize("height", [40, 10])
def test_a_recent_sentence_is_cut_only_if_the_screen_is_full(height: int) -> None:
    progress = Progress.of(profile("abc", counts={"RUNNING": 1}))
    reason = "waits until nnimgr's keeper on this machine answers"
    for name in ("ta", "tb"):
        progress.apply(event("JobWaiting", trialId=name, reason=reason))
    console = Console(file=io.StringIO(), width=50, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(view(progress, now=NOW, since=timedelta(0)))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 50
    recent = lines[lines.index("Recent") + 1 :]
    rest = "    nnimgr's keeper on this machine answers"
    tb = ["  Trial tb has no place yet: waits until", rest]
    cut = ["  Trial ta has no place yet: waits until nnimgr's…"]
    ta = ["  Trial ta has no place yet: waits until", rest] if height == 40 else cut
    assert recent == [*ta, *tb]


def test_a_command_in_a_sentence_is_not_broken() -> None:
    command = '"nnictl trial resume abc -T ta"'
    progress = Progress.of(profile("abc", now=f"1 trial is paused and waits (to continue it: {command})"))
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    console.print(view(progress, now=NOW, since=timedelta(0)))
    assert command in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_end_of_a_trial_does_not_repeat_the_verdict() -> None:
    progress = Progress.of(profile("abc"))
    progress.add_trial(trial("ta", 4, status="RUNNING"))
    why = "0.1 is too little"
    progress.apply(event("Verdict", trialId="ta", position=3, good=False, reason=why))
    reason = f"the assessor judged the trial bad at report 4: {why}"
    told = progress.apply(event("TrialEnded", trialId="ta", status="EARLY_STOPPED", reason=reason))
    assert told == "Trial 4 (ta) EARLY_STOPPED: the assessor judged the trial bad at report 4"


def test_a_paused_trial_does_not_run() -> None:
    progress = Progress.of(profile("abc"))
    progress.add_trial(trial("ta", 4, status="RUNNING"))
    progress.add_trial(trial("tb", 5, status="PAUSED"))
    assert "ta" in shown(progress) and "tb" not in shown(progress)
    reason = "a user paused it"
    assert (
        progress.apply(event("TrialPaused", trialId="ta", reason=reason))
        == f"Trial 4 (ta) is paused: {reason}"
    )
    progress.recent.clear()
    assert "Running" not in shown(progress)


def test_a_trial_that_waits_for_its_next_attempt_does_not_run() -> None:
    progress = Progress.of(profile("abc"))
    progress.add_trial(trial("ta", 4, status="RUNNING"))
    progress.apply(event("AttemptDue", trialId="ta", attempt=2, reason="its host was lost"))
    assert "Running" not in shown(progress)
    progress.apply(event("JobStarted", trialId="ta", attempt=2, startedAt="2026-01-01T00:00:00+00:00"))
    assert "Running" in shown(progress)


@pytest.mark.parametrize(
    ("most", "told"), [(10, "4 of 10"), (3, "4, above the limit of 3 trials"), (None, "4, no limit")]
)
def test_trials_against_their_limit(most: int | None, told: str) -> None:
    of = profile("abc", counts={"SUCCEEDED": 4})
    of["limits"] = {**of["limits"], "maxTrialNumber": most}
    assert told in shown(Progress.of(of))


def test_fewer_finished_trials_than_the_limit_which_is_below_the_number_of_trials() -> None:
    of = profile("abc", counts={"SUCCEEDED": 1, "RUNNING": 3})
    of["limits"] = {**of["limits"], "maxTrialNumber": 2}
    assert "1 of 4, above the limit of 2 trials" in shown(Progress.of(of))


def test_a_view_of_nothing_yet() -> None:
    progress = Progress.of(profile("abc", reason="", name=""))
    text = shown(progress)
    assert "Experiment abc  RUNNING" in text
    assert "Best" not in text


def test_the_screen_draws_at_the_console() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with LiveScreen(console) as screen:
        screen.draw(Progress.of(profile("abc", status="DRAINING", durationS=3600.0)))
        screen.tell("not shown")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 h, no limit" in text
    assert "not shown" not in text


def test_events_become_sentences() -> None:
    progress = Progress.of(profile("abc", optimizeMode="minimize"))
    progress.apply(event("Suggested", trialId="ta", sequence=0, parameters={}))
    sentences = [
        progress.apply(event("JobStarted", trialId="ta", attempt=2, startedAt="2026-01-01T00:00:00+00:00")),
        progress.apply(event("MetricReported", trialId="ta", type="PERIODICAL", value=None)),
        progress.apply(event("Verdict", trialId="ta")),
        progress.apply(event("Verdict", trialId="ta", reason="0.1 is too little")),
        progress.apply(event("JobLost", trialId="ta", reason="another boot")),
        progress.apply(event("AttemptDue", trialId="ta", attempt=3, reason="its host was lost")),
        progress.apply(event("JobNoted", trialId="ta", note="it is odd")),
        progress.apply(event("FrameSkipped", trialId="ta", reason="no JSON")),
        progress.apply(event("TrialEnded", trialId="ta", status="SUCCEEDED", reason="")),
        progress.apply(event("KeeperSilent", keeperId="local", reason="The host is silent.")),
        progress.apply(event("TunerExhausted")),
        progress.apply(event("ExperimentMoved", status="DRAINING", reason="the tuner has no more")),
        progress.apply(event("TunerExhausted")),
        progress.apply(event("ConfigChanged", changes={"trialConcurrency": 3})),
        progress.apply(event("JobEnded", trialId="tz")),
        progress.apply(event("SomethingNew", whatever=1)),
        progress.apply(event("closed", status="STOPPED", reason="")),
    ]
    assert sentences == [
        "Trial 0 (ta) started, attempt 2",
        None,
        "Trial 0 (ta) is stopped early by the assessor",
        "Trial 0 (ta) is stopped early by the assessor: 0.1 is too little",
        "Trial 0 (ta) was lost: another boot",
        "Trial 0 (ta) gets attempt 3: its host was lost",
        "Trial 0 (ta): it is odd",
        "Trial 0 (ta): no JSON",
        "Trial 0 (ta) SUCCEEDED without a result",
        "The host is silent.",
        "The tuner has no more parameter sets.",
        "Experiment DRAINING: no more trials are created (the tuner has no more)",
        None,
        "Changed: trialConcurrency",
        None,
        None,
        None,
    ]
    assert progress.ended(0)


def test_a_reused_result_is_the_trials() -> None:
    progress = Progress.of(profile("abc"))
    progress.apply(event("Suggested", trialId="ta", sequence=0, parameters={}))
    assert progress.apply(event("ResultReused", trialId="ta", sourceId="tb", value=0.5, text="0.5")) is None
    assert progress.apply(event("TrialEnded", trialId="ta", status="SUCCEEDED", reason="")) == (
        "Trial 0 (ta) SUCCEEDED: 0.5, the best so far"
    )


def test_the_best_so_far_follows_the_mode() -> None:
    progress = Progress.of(profile("abc", optimizeMode="minimize"))
    said = []
    for sequence, value in enumerate([0.5, 0.7, 0.2]):
        progress.apply(event("Suggested", trialId="t", sequence=sequence, parameters={}))
        progress.apply(event("MetricReported", trialId="t", type="FINAL", value=value, text=str(value)))
        said.append(progress.apply(event("TrialEnded", trialId="t", status="SUCCEEDED", reason="")))
    assert said == [
        "Trial 0 (t) SUCCEEDED: 0.5, the best so far",
        "Trial 1 (t) SUCCEEDED: 0.7",
        "Trial 2 (t) SUCCEEDED: 0.2, the best so far",
    ]


def test_the_first_final_result_counts_and_one_that_is_no_number_is_shown() -> None:
    progress = Progress.of(profile("abc"))
    said = []
    for finals in ([(0.5, "0.5"), (0.9, "0.9")], [(None, '"good"')], [(None, "NaN")]):
        progress.apply(event("Suggested", trialId="t", sequence=0, parameters={}))
        for value, text in finals:
            progress.apply(event("MetricReported", trialId="t", type="FINAL", value=value, text=text))
        reason = f"no usable result: {text} is not a number"
        said.append(progress.apply(event("TrialEnded", trialId="t", status="SUCCEEDED", reason=reason)))
    assert said == [
        "Trial 0 (t) SUCCEEDED: 0.5, the best so far",
        'Trial 0 (t) SUCCEEDED: no usable result: "good" is not a number',
        "Trial 0 (t) SUCCEEDED: no usable result: NaN is not a number",
    ]


def notice(seconds: int) -> dict[str, object]:
    stack = '  File "a.py", line 1, in <module>\n    main()\n  File "b.py", line 2, in wait\n    sleep(9)\n'
    subject = "the tuner's generate_parameters has been running"
    sentence = f"{subject} for {seconds} s"
    return {"about": "tuner", "sentence": sentence, "subject": subject, "seconds": seconds, "detail": stack}


def test_a_call_that_hangs_is_shown_with_its_place() -> None:
    text = shown(Progress.of(profile("abc", notices=[notice(4)])))
    assert "The tuner's generate_parameters has been running for 4 s" in text
    assert 'File "b.py", line 2, in wait: sleep(9)' in text


def test_a_notice_is_told_once_and_again_as_its_time_doubles() -> None:
    progress = Progress.of(profile("abc"))
    told = []
    for seconds in (2, 3, 4, 7, 8, 1):
        progress.refresh(profile("abc", notices=[notice(seconds)]))
        told.append(len(progress.fresh_notices()))
    assert told == [1, 0, 1, 0, 1, 1]


def test_small_texts() -> None:
    assert (number(None), number(1234567.0), number(0.1)) == ("--", "1.23457e+06", "0.1")
    nested = {"x": 0.123456, "model": {"_name": "forest", "depth": 3}, "other": {"_name": "none"}}
    assert parameters_text(nested) == "x=0.1235, model=forest(depth=3), other=none"
    assert parameters_text([1]) == "[1]"
    assert moved("DONE", "all") == "Experiment DONE: all"
    assert moved("RUNNING", "runs") == "Experiment RUNNING"


@pytest.mark.parametrize(
    ("origin", "end"),
    [
        (None, "SUCCEEDED without a result"),
        ({"trialId": "tb", "position": 9, "reports": 1}, "SUCCEEDED without a result"),
        ({"trialId": None, "position": 1, "reports": 1}, "SUCCEEDED without a result"),
        ({"trialId": None, "position": 2, "reports": 1}, "SUCCEEDED: 0.5, the best so far"),
    ],
)
def test_a_final_result_behind_the_origin_of_an_attempt_does_not_count(
    origin: dict[str, Any] | None, end: str
) -> None:
    progress = Progress.of(profile("abc"))
    progress.add_trial(trial("ta", 0, status="RUNNING"))
    final = {"type": "FINAL", "sequence": 0, "value": 0.5, "text": "0.5"}
    progress.apply(event("MetricReported", trialId="ta", position=1, **final))
    progress.apply(event("AttemptDue", trialId="ta", attempt=2, reason="its host was lost", origin=origin))
    ended = progress.apply(event("TrialEnded", trialId="ta", status="SUCCEEDED", reason=""))
    assert ended == f"Trial 0 (ta) {end}"
