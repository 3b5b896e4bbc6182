"""The feed of an experiment: its facts as sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nnimgr.api.feed import LEFT_OUT, TOLD, Names, mentioned, tell
from nnimgr.rules import facts as f
from nnimgr.store.reader import TrialRow
from tests.api.lab import EXPERIMENT, Lab
from tests.rules.driver import PLACE, T0
from training_services.base import Place

FEED = f"{EXPERIMENT}/feed"


def row(trial_id: str, sequence: int, final_value: float | None) -> TrialRow:
    return TrialRow(
        trial_id=trial_id,
        sequence=sequence,
        status=f.TrialStatus.SUCCEEDED,
        detail=None,
        source=f.SuggestionSource.ALGORITHM,
        parameter_id=0,
        parameters="{}",
        retry_of=None,
        attempt=1,
        created_at=T0,
        started_at=None,
        ended_at=None,
        reason=None,
        note=None,
        final_value=final_value,
        final_text=None,
        latest_value=None,
        latest_text=None,
        intermediates=0,
    )


NAMES = Names({"abcde": row("abcde", 3, 0.123456789), "fghij": row("fghij", 7, None)})
JOB = "exp-abcde-1"


def test_every_kind_of_fact_is_told_or_left_out_on_purpose() -> None:
    kinds = set(f.Fact.__args__)
    assert TOLD.keys() | LEFT_OUT == kinds
    assert not TOLD.keys() & LEFT_OUT


def test_a_failure_is_told_with_what_the_attempt_said_last() -> None:
    names = Names({"abcde": replace(row("abcde", 3, None), note="the last line of its stderr: boom")})
    failed = f.TrialEnded(trial_id="abcde", status=f.TrialStatus.FAILED, reason="exited with code 1")
    sentence = "Trial #3 (abcde) failed: exited with code 1; the last line of its stderr: boom."
    assert tell(failed, names) == ("error", sentence)


LIMITS = f.Limits(trial_concurrency=2)
FACTS: list[tuple[f.Fact, str, str]] = [
    (
        f.ExperimentCreated(
            experiment_id="exp", config={}, search_space={}, limits=LIMITS, traits=f.TunerTraits()
        ),
        "info",
        "The experiment was created.",
    ),
    (f.ExperimentOpened(m_epoch=1), "info", "A server has opened the experiment."),
    (f.ExperimentOpened(m_epoch=2, resumed=True), "info", "A user resumed the experiment."),
    (
        f.ConfigChanged(
            changes={"trialConcurrency": 4, "maxTrialNumber": None, "tuner": {"name": "TPE"}},
            limits=LIMITS,
            search_space={},
        ),
        "info",
        "A user changed the configuration: trialConcurrency is now 4; maxTrialNumber was removed; "
        "the tuner is now TPE, which got all earlier results; the search space was replaced.",
    ),
    (f.ExperimentStopRequested(), "info", "A user stops the experiment."),
    (f.ExperimentStopRequested(detach=True), "info", "A user stops the experiment; its trials continue."),
    (
        f.ExperimentMoved(status=f.ExperimentStatus.RUNNING, reason="runs"),
        "info",
        "The experiment runs.",
    ),
    (
        f.ExperimentMoved(status=f.ExperimentStatus.DONE, reason="all 10 trials were created"),
        "good",
        "The experiment is done: all 10 trials were created.",
    ),
    (
        f.ExperimentMoved(status=f.ExperimentStatus.ERROR, reason="boom."),
        "error",
        "The experiment ended with an error: boom.",
    ),
    (
        f.ExperimentMoved(
            status=f.ExperimentStatus.DRAINING, drain=f.DrainReason.USER, reason="a user stops it"
        ),
        "info",
        "The experiment is DRAINING: a user stops it.",
    ),
    (
        f.Decided(trial_id="abcde", kind=f.DecisionKind.PAUSE, cause=5, reason="rank 4 of 9"),
        "info",
        "The scheduler pauses trial #3 (abcde): rank 4 of 9.",
    ),
    (
        f.Decided(
            trial_id="abcde",
            kind=f.DecisionKind.EXPLOIT,
            cause=5,
            reason="rank 9 of 9",
            donor="xyzab",
            checkpoint=(1, 4),
            parameters="{}",
        ),
        "info",
        "The scheduler gives trial #3 (abcde) other parameters, from trial xyzab's checkpoint 4: "
        "rank 9 of 9.",
    ),
    (
        f.DecisionRefused(
            trial_id="abcde", kind=f.DecisionKind.PAUSE, cause=5, reason="a user has paused the trial"
        ),
        "info",
        "The scheduler wanted to pause trial #3 (abcde), which is not possible: a user has paused the trial.",
    ),
    (f.TunerExhausted(), "info", "The tuner has no more parameter sets."),
    (f.DataImported(records="[{}]"), "info", "A user gave the tuner 1 result from another source."),
    (f.DataImported(records="[{},{}]"), "info", "A user gave the tuner 2 results from another source."),
    (
        f.AlgorithmFailed(
            role=f.Role.TUNER, call="receive_trial_result", sentence="x is 0", trial_id="abcde"
        ),
        "warning",
        "The tuner failed in receive_trial_result for trial #3 (abcde): x is 0.",
    ),
    (
        f.AlgorithmFailed(role=f.Role.ASSESSOR, call="start", sentence="no such module", hopeless=True),
        "error",
        "The assessor failed in start: no such module.",
    ),
    (f.AlgorithmRecovered(role=f.Role.TUNER), "good", "The tuner works again."),
    (
        f.Suggested(
            trial_id="abcde",
            sequence=3,
            source=f.SuggestionSource.RERUN,
            parameter_id=1,
            parameters="{}",
            retry_of="fghij",
        ),
        "info",
        "Trial #3 (abcde) was created: it repeats trial #7 (fghij), which had failed.",
    ),
    (
        f.FurtherSuggested(trial_id="abcde", index=1, parameter_id=4, parameters="{}"),
        "info",
        "Trial #3 (abcde) gets its parameter set 2.",
    ),
    (
        f.FurtherSuggested(trial_id="abcde", index=1, parameter_id=None, parameters=None),
        "info",
        "Trial #3 (abcde) gets no further parameter set: the tuner has no more.",
    ),
    (
        f.ResultTaken(trial_id="abcde", index=1, parameter_id=4, parameters="{}", text="0.5"),
        "info",
        "Parameter set 2 of trial #3 (abcde) has a result: 0.5.",
    ),
    (
        f.Verdict(trial_id="abcde", attempt=1, position=4),
        "info",
        "The assessor judges trial #3 (abcde) bad at report 5.",
    ),
    (
        f.Verdict(trial_id="abcde", attempt=1, position=4, reason="0.1 is too little"),
        "info",
        "The assessor judges trial #3 (abcde) bad at report 5: 0.1 is too little.",
    ),
    (f.StopRequested(trial_id="abcde"), "info", "A user stops trial #3 (abcde)."),
    (
        f.TargetMoved(trial_id="abcde", kind=f.StopKind.DURATION, reason="exceeded maxTrialDuration (5 s)"),
        "info",
        "Trial #3 (abcde) will be stopped: exceeded maxTrialDuration (5 s).",
    ),
    (
        f.AttemptDue(trial_id="abcde", attempt=2, due_at=T0, reason="its machine was rebooted"),
        "warning",
        "Trial #3 (abcde) gets attempt 2: its machine was rebooted.",
    ),
    (
        f.TrialPaused(trial_id="abcde", reason="a user paused it"),
        "info",
        "Trial #3 (abcde) is paused: a user paused it.",
    ),
    (f.ResumeRequested(trial_id="abcde"), "info", "A user resumes trial #3 (abcde)."),
    (f.LossDeclared(trial_id="abcde"), "warning", "A user declared trial #3 (abcde) lost."),
    (
        f.SlotLent(trial_id="abcde"),
        "warning",
        "Another trial uses the slot of trial #3 (abcde) until the machine of trial #3 (abcde) is connected "
        "again.",
    ),
    (f.TrialNoted(trial_id="abcde", note="odd."), "warning", "Trial #3 (abcde): odd."),
    (
        f.TrialEnded(trial_id="abcde", status=f.TrialStatus.SUCCEEDED, reason="exited with code 0"),
        "good",
        "Trial #3 (abcde) succeeded with 0.123457: exited with code 0.",
    ),
    (
        f.TrialEnded(trial_id="fghij", status=f.TrialStatus.SUCCEEDED, reason="exited with code 0"),
        "good",
        "Trial #7 (fghij) succeeded: exited with code 0.",
    ),
    (
        f.TrialEnded(trial_id="abcde", status=f.TrialStatus.FAILED, reason="exited with code 1"),
        "error",
        "Trial #3 (abcde) failed: exited with code 1.",
    ),
    (
        f.TrialEnded(trial_id="xxxxx", status=f.TrialStatus.EARLY_STOPPED, reason="the assessor judged it"),
        "info",
        "Trial xxxxx was stopped early: the assessor judged it.",
    ),
    (
        f.JobPlaced(job_id=JOB, place=PLACE, cmd_seq=1),
        "info",
        "Trial #3 (abcde) was placed on the server's machine.",
    ),
    (
        f.JobPlaced(
            job_id="exp-abcde-2",
            place=Place(keeper_id="me_gpu1_22", instance="i", boot_id="b", gpus=(0, 3)),
            cmd_seq=1,
        ),
        "info",
        "Attempt 2 of trial #3 (abcde) was placed on the machine gpu1 with GPU 0, 3.",
    ),
    (
        f.JobWaiting(job_id=JOB, reason="no GPU is free"),
        "info",
        "Trial #3 (abcde) has no place yet: no GPU is free.",
    ),
    (
        f.JobWaiting(job_id=JOB, reason="waits for a GPU"),
        "info",
        "Trial #3 (abcde) has no place yet: waits for a GPU.",
    ),
    (f.JobStarted(job_id=JOB, started_at=T0), "info", "Trial #3 (abcde) has started."),
    (
        f.FrameSkipped(job_id=JOB, position=1, reason="Frame 1 is not a metric: no JSON."),
        "warning",
        "Trial #3 (abcde): Frame 1 is not a metric: no JSON.",
    ),
    (f.JobNoted(job_id=JOB, note="its log is capped"), "warning", "Trial #3 (abcde): its log is capped."),
    (
        f.MemberLost(job_id=JOB, member=1, reason="its host was restarted"),
        "warning",
        "Trial #3 (abcde): member 1 is lost: its host was restarted.",
    ),
    (
        f.PreemptionWanted(job_id=JOB, by="other"),
        "info",
        "Trial #3 (abcde) will be stopped, and continues later: trials of experiment other, which has a "
        "higher priority, need its resources.",
    ),
    (
        f.FewerMembersWanted(job_id=JOB, leaving=(2, 3), by="other"),
        "info",
        "Trial #3 (abcde) will be stopped, and continues with fewer members: a trial of experiment other "
        "waits for places of members 2 and 3.",
    ),
    (
        f.GrowthBegun(job_id=JOB, members=4),
        "info",
        "Trial #3 (abcde) is asked to save its state, to continue with 4 members.",
    ),
    (
        f.GrowthEnded(job_id=JOB, reason="the room for more members is taken again"),
        "info",
        "Trial #3 (abcde) continues with the members that it has: the room for more members is taken again.",
    ),
    (
        f.CheckpointLost(job_id=JOB, number=2, reason="its hash is wrong"),
        "warning",
        "Trial #3 (abcde): the server's copy of checkpoint 2 is lost: its hash is wrong.",
    ),
    (
        f.SaveRequested(trial_id="abcde"),
        "info",
        "A user asks trial #3 (abcde) to save its state.",
    ),
    (
        f.CheckpointPinned(job_id=JOB, number=2),
        "info",
        "Trial #3 (abcde): a user has pinned checkpoint 2.",
    ),
    (
        f.CheckpointPinned(job_id=JOB, number=2, pinned=False),
        "info",
        "Trial #3 (abcde): a user has taken back the pin of checkpoint 2.",
    ),
    (
        f.KeeperBound(keeper_id="local", instance="i", boot_id="b"),
        "info",
        "The keeper on the server's machine has called the server for the first time since it started.",
    ),
    (
        f.KeeperSilent(keeper_id="me_gpu1_22", reason="no word for 30 s"),
        "warning",
        "The machine gpu1 is silent: no word for 30 s.",
    ),
    (f.KeeperHeard(keeper_id="local"), "good", "The server's machine is connected again."),
    (f.MachineAdded(keeper_id="me_gpu1_22"), "info", "The machine gpu1 was added."),
    (
        f.MachineDrained(keeper_id="me_gpu1_22"),
        "info",
        "The machine gpu1 is being drained: it gets no more trials.",
    ),
    (
        f.MachineRemoved(keeper_id="me_gpu1_22", force=True),
        "info",
        "The machine gpu1 is being removed: its trials are requeued.",
    ),
    (
        f.MachineGone(keeper_id="me_gpu1_22", note="its folder is left"),
        "warning",
        "The machine gpu1 is no longer used, but its folder is left.",
    ),
    (
        f.MachineGone(keeper_id="me_gpu1_22", returns=True),
        "info",
        "The machine gpu1 was removed, and is used again.",
    ),
]


@pytest.mark.parametrize(("fact", "severity", "sentence"), FACTS, ids=lambda each: type(each).__name__)
def test_a_sentence_for_each_kind(fact: f.Fact, severity: str, sentence: str) -> None:
    assert tell(fact, NAMES) == (severity, sentence)


def test_all_kinds_that_are_told_are_tried() -> None:
    assert {type(fact) for fact, _, _ in FACTS} == set(TOLD)


def test_which_trials_a_sentence_names() -> None:
    again = next(fact for fact, _, _ in FACTS if isinstance(fact, f.Suggested))
    assert mentioned(again) == ("abcde", "fghij")
    assert mentioned(f.JobStarted(job_id=JOB, started_at=T0)) == ("abcde",)
    assert mentioned(f.TunerExhausted()) == ()


async def read(lab: Lab, **query: Any) -> dict[str, Any]:
    answer = await lab.client.get(FEED, params=query)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def live(lab: Lab) -> None:
    lab.life.start(0)
    lab.life.metric(0, 0, 0.25)
    lab.life.metric(0, 1, 0.75, "FINAL")
    lab.life.end(0)
    lab.life.start(1)
    lab.life.end(1, 1)
    await lab.runner.commit()


async def test_the_feed_of_an_experiment(lab: Lab) -> None:
    await live(lab)
    feed = await read(lab)
    numbers = [entry["number"] for entry in feed["entries"]]
    assert numbers == sorted(numbers, reverse=True)
    told = [entry["sentence"] for entry in feed["entries"]]
    first, second = lab.life.trial(0), lab.life.trial(1)
    assert f"Trial #0 ({first}) succeeded with 0.75: exited with code 0." in told
    assert f"Trial #1 ({second}) failed: exited with code 1." in told
    assert told[-1] == "The experiment was created."
    assert feed["nextBefore"] is None and feed["nextAfter"] == lab.life.state.number
    ended = next(entry for entry in feed["entries"] if "failed" in entry["sentence"])
    assert (ended["trialId"], ended["sequence"], ended["severity"]) == (second, 1, "error")


async def test_pages_both_ways_have_everything_once(lab: Lab) -> None:
    await live(lab)
    every = (await read(lab))["entries"]
    back: list[Any] = []
    page = await read(lab, limit=3)
    back += page["entries"]
    while page["nextBefore"] is not None:
        page = await read(lab, limit=3, before=page["nextBefore"])
        back += page["entries"]
    assert back == every
    forward: list[Any] = []
    after = 0
    while (page := await read(lab, limit=3, after=after))["entries"]:
        forward = page["entries"] + forward
        after = page["nextAfter"]
    assert forward == every
    assert after == lab.life.state.number
    between = await read(lab, after=every[-2]["number"], before=every[1]["number"])
    assert between["entries"] == every[2:-2]


async def test_what_is_new_since_the_last_page(lab: Lab) -> None:
    await live(lab)
    after = (await read(lab))["nextAfter"]
    assert (await read(lab, after=after))["entries"] == []
    lab.life.start(2)
    await lab.runner.commit()
    page = await read(lab, after=after)
    assert [entry["trialId"] for entry in page["entries"]] == [lab.life.trial(2)]


async def test_the_feed_of_a_trial(lab: Lab) -> None:
    await live(lab)
    feed = await read(lab, trialId=lab.life.trial(1))
    assert {entry["trialId"] for entry in feed["entries"]} == {lab.life.trial(1)}
    assert len(feed["entries"]) == 4
    assert (await read(lab, trialId="nobody"))["entries"] == []


@pytest.mark.parametrize("query", [{"before": -1}, {"after": -1}, {"limit": 501}, {"after": 2**63}])
async def test_bad_pages_are_refused(lab: Lab, query: dict[str, int]) -> None:
    assert (await lab.client.get(FEED, params=query)).status_code == 422
