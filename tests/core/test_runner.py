"""The runner: what it commits, when it acts, and its state after a crash."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import timedelta

import pytest

from nnimgr.config import ConfigError
from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from tests.core.lab import LIMIT_S, Crash, Lab, until, until_status
from training_services.base import KnownKeepers
from training_services.fake import (
    FakeService,
    ended,
    given,
    hold,
    lost,
    metric,
    rejected,
    started,
    wants_parameters,
)

E = f.ExperimentStatus
S = f.TrialStatus


def trial(sequence: int) -> str:
    return trial_id_of("exp", sequence)


async def test_an_experiment_runs_to_its_end(lab: Lab) -> None:
    async with lab.runner(max_trial_number=5) as runner:
        await until_status(runner, E.DONE)
    reader = lab.reader()
    total, rows = reader.trials()
    assert total == 5
    assert {row.status for row in rows} == {S.SUCCEEDED}
    assert [row.final_value for row in rows] == [1.0] * 5
    assert lab.asked() == [0, 1, 2, 3, 4]
    finished = [message for _, message in lab.sent if isinstance(message, m.TrialFinished)]
    assert [message.text for message in finished] == ["1.0"] * 5
    assert lab.service.closed is False and lab.closed == 1


async def test_a_start_leaves_only_after_its_commit(lab: Lab) -> None:
    async with lab.runner(max_trial_number=3) as runner:
        await until_status(runner, E.DONE)
    facts = [recorded.fact for recorded in lab.reader().facts(limit=1000)]
    for order, job_id in lab.service.orders:
        if order == "start":
            assert any(isinstance(fact, f.JobPlaced) and fact.job_id == job_id for fact in facts)


@pytest.mark.parametrize("crashes", [1, 4])
async def test_after_a_crash_running_trials_are_adopted(lab: Lab, crashes: int) -> None:
    lab.service.script(trial(0), [started(), metric(0.1), hold(), metric(0.2, final=True), ended(0)])
    lab.service.script(trial(1), [started(), hold(), ended(0)])
    for _ in range(crashes):
        async with lab.runner(max_trial_number=3) as runner:
            await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 2)
            raise Crash
    async with lab.runner() as runner:
        await until(runner, lambda: runner.session.service is not None)
        lab.service.resume(f"exp-{trial(0)}-1")
        lab.service.resume(f"exp-{trial(1)}-1")
        await until_status(runner, E.DONE)
    reader = lab.reader()
    assert [row.attempt for row in reader.trials()[1]] == [1, 1, 1]
    assert [row.text for row in reader.metrics(trial_id=trial(0))] == ["0.1", "0.2"]
    assert sorted(lab.service.orders) == sorted(("start", f"exp-{trial(n)}-1") for n in range(3))


async def test_a_bad_metric_and_the_stop_it_causes_are_one_transaction(lab: Lab) -> None:
    lab.assessor = True
    lab.service.script(trial(0), [started(), metric(1.0), metric(-1.0), hold()])
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    (row,) = lab.reader().trials()[1]
    assert row.status is S.EARLY_STOPPED
    log = lab.reader().facts(limit=1000)
    verdict = next(r for r in log if isinstance(r.fact, f.Verdict))
    order = next(r for r in log if isinstance(r.fact, f.StopOrdered))
    assert verdict.at == order.at
    assert isinstance(verdict.fact, f.Verdict) and verdict.fact.position == 1


async def test_a_lost_attempt_runs_again(lab: Lab) -> None:
    lab.service.script(trial(0), [started(), lost("the host burnt")], [started(), ended(0)])
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    assert [job.message for job in lab.reader().jobs(trial(0))] == ["the host burnt", None]


async def test_a_rejected_job_fails_its_trial_with_the_reason(lab: Lab) -> None:
    lab.service.script(trial(0), [rejected("it wants 8 GPUs, this machine has 2")])
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    (row,) = lab.reader().trials()[1]
    assert (row.status, row.reason) == (S.FAILED, "it wants 8 GPUs, this machine has 2")


async def test_a_service_that_cannot_be_opened_says_why_and_is_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.core.running.service_session.RETRY_S", (0.01, 0.01))
    lab.service.unavailable = ["the cluster does not answer"]
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, E.DONE)


async def test_the_end_of_the_service_is_reported(lab: Lab) -> None:
    leaves = asyncio.Event()

    class Slow(FakeService):
        async def close(self, *, detach: bool) -> Sequence[str]:
            await leaves.wait()
            return await super().close(detach=detach)

    lab.service = Slow()
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
        while runner.session.closing is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert runner.now() == "1 of 1 trials; the experiment is ending: its keepers leave the machines"
        leaves.set()
    assert lab.service.closed is False


async def test_keepers_of_the_last_server_are_dismissed_beside_the_first_turn(lab: Lab) -> None:
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    leaves, opened = asyncio.Event(), asyncio.Event()

    class Slow(FakeService):
        async def open(self, known: KnownKeepers) -> None:
            opened.set()
            await leaves.wait()
            await super().open(known)

    lab.service = Slow()
    async with lab.runner() as runner:
        await asyncio.wait_for(runner.opened(), LIMIT_S)
        await asyncio.wait_for(opened.wait(), LIMIT_S)
        assert runner.now() == "1 of 1 trials; the experiment is ending: its keepers leave the machines"
        stopping = asyncio.create_task(runner.stop(detach=False))
        await until_status(runner, E.STOPPED)
        assert not stopping.done()
        leaves.set()
        assert await asyncio.wait_for(stopping, LIMIT_S) == []
    assert lab.service.closed is False  # without its keepers


async def test_a_resumed_experiment_waits_until_the_keepers_of_the_last_server_have_left(lab: Lab) -> None:
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    leaves, closing = asyncio.Event(), asyncio.Event()

    class Slow(FakeService):
        async def close(self, *, detach: bool) -> Sequence[str]:
            closing.set()
            await leaves.wait()
            return await super().close(detach=detach)

    lab.service = Slow()
    async with lab.runner() as runner:
        await asyncio.wait_for(closing.wait(), LIMIT_S)
        await runner.change_config({"maxTrialNumber": 2})
        await until(runner, lambda: runner.state.status is E.RUNNING)
        assert runner.session.service is None
        leaves.set()
        await until_status(runner, E.DONE)
    assert lab.reader().trials()[0] == 2


async def test_a_tuner_that_dies_is_made_anew_and_asked_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.core.running.algorithm_process.RESTART_DELAYS_S", (0.001, 0.001))
    lab.dies = 2
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until_status(runner, E.DONE)
    assert lab.asked() == [0, 0, 0, 1]
    sentences = [failure.fact.sentence for failure in lab.reader().failures()]
    assert sentences == ["the tuner's process was killed by signal 9"] * 2


async def test_a_tuner_that_always_dies_is_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.core.running.algorithm_process.RESTART_DELAYS_S", (0.001, 0.001))
    lab.dies = 1000
    async with lab.runner() as runner:
        await until_status(runner, E.ERROR)
    assert lab.reader().experiment().reason == "the tuner's process was killed by signal 9"


async def test_a_tuner_that_does_not_answer_is_told_of(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.core.running.tuner_process.SILENT_AFTER_S", 0.0)
    lab.hangs = True
    async with lab.runner() as runner:
        await until(runner, lambda: runner.outstanding > 0)
        notice = runner.notices["tuner"]
        assert notice.subject == "the tuner has not answered a request for parameter sets"
        assert notice.sentence == f"{notice.subject} for {notice.seconds:.0f} s"
        lab.hangs = False


async def test_a_tuner_that_had_no_more_before_the_space_changed_is_asked_again(lab: Lab) -> None:
    lab.suggestions, lab.mute, lab.mute_at_all = 0, True, True
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until(runner, lambda: bool(lab.unanswered))
        limits = runner.state.limits
        await runner.request(
            lambda state: (f.ConfigChanged(changes={}, limits=limits, search_space={"x": {}}),)
        )
        lab.mute = False
        tuner, ask = lab.unanswered.pop()
        tuner.answer(ask)
        lab.suggestions = 1
        await until_status(runner, E.DONE)
    assert [row.status for row in lab.reader().trials()[1]] == [S.SUCCEEDED]


async def test_an_exhausted_tuner_ends_the_experiment(lab: Lab) -> None:
    lab.suggestions = 3
    async with lab.runner() as runner:
        await until_status(runner, E.DONE)
    assert lab.reader().trials()[0] == 3


async def test_trial_after_trial_without_a_result_is_told(lab: Lab) -> None:
    """The notice about trials without a result disappears when a trial has a result."""
    lab.service.default = [started(), metric("nothing", final=True), ended(0)]
    lab.service.script(trial_id_of("exp", 8), [started(), metric(0.5, final=True), ended(0)])
    async with lab.runner(trial_concurrency=1, max_trial_number=8) as runner:
        await until_status(runner, E.DONE)
        sentence = runner.notices["results"].sentence
        await runner.change_config({"maxTrialNumber": 9})
        await until(runner, lambda: runner.state.best is not None)
        assert "results" not in runner.notices
    assert sentence == (
        "all 8 trials that ended have no result that the tuner can use; for example "
        f'trial 0 ({trial_id_of("exp", 0)}): no usable result: "nothing" is not a number; pass a float to '
        "nni.report_final_result()"
    )


async def test_a_tuner_that_does_not_learn_is_asked_ahead(lab: Lab) -> None:
    lab.learns = False
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=2) as runner:
        await until(runner, lambda: len(runner.state.trials) == 4)
        assert len(runner.state.queued) == 2
        raise Crash


async def test_requests(lab: Lab) -> None:
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        added = await runner.add_trial({"x": 0.5})
        waiting = runner.state.trials[added.trial_id]
        assert (waiting.source, waiting.parameters) == (f.SuggestionSource.CUSTOMIZED, '{"x": 0.5}')
        with pytest.raises(RequestRefused, match="limit of maxTrialNumber, 2, is reached; to raise it to 3"):
            await runner.add_trial({"x": 0.5})
        raised = await runner.add_trial({"x": 0.7}, raise_limit=True)
        assert runner.state.trials[raised.trial_id].parameters == '{"x": 0.7}'
        assert runner.state.limits.max_trial_number == runner.config.max_trial_number == 3
        with pytest.raises(UnknownTrial, match="trial nope has ended, or does not exist"):
            await runner.stop_trial("nope")
        with pytest.raises(ConfigError, match="trialConcurrency"):
            await runner.change_config({"trialConcurrency": -1})
        await runner.change_config({"trialConcurrency": 2})
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 2)
        await runner.stop_trial(trial(0))
        await until(runner, lambda: runner.state.counts.get(S.USER_CANCELED) == 1)
        assert await runner.stop(detach=False) == []
    assert lab.reader().experiment().config["trialConcurrency"] == 2
    with pytest.raises(RunnerClosed):
        await runner.stop_trial(trial(1))


async def test_a_done_experiment_goes_on_when_its_limit_is_raised(lab: Lab) -> None:
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
        await runner.change_config({"maxTrialNumber": 3})
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 3)
        await until_status(runner, E.DONE)


async def test_a_rule_that_holds_ends_an_experiment_until_the_rule_is_changed(lab: Lab) -> None:
    rules = f.StopWhen(plateau=f.Plateau(trials=2))
    async with lab.runner(trial_concurrency=1, stop_when=rules) as runner:
        await until_status(runner, E.DONE)
        assert runner.state.counts == {S.SUCCEEDED: 3}
        with pytest.raises(RequestRefused, match="no more trials are created: the best result has not"):
            await runner.add_trial({"x": 0.5})
        with pytest.raises(RequestRefused, match="nnictl update stopwhen"):
            await runner.rerun(list)
        await runner.change_config({"stopWhen": {"plateau": {"trials": 4}}})
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 5)
        await until_status(runner, E.DONE)
        await runner.change_config({"stopWhen": None, "maxTrialNumber": 6})
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 6)
        await until_status(runner, E.DONE)


async def test_no_trial_is_added_after_the_longest_duration(lab: Lab) -> None:
    async with lab.runner(trial_concurrency=1, max_experiment_duration=timedelta(0)) as runner:
        await until_status(runner, E.DONE)
        for refused in (runner.add_trial({"x": 0.5}), runner.rerun(list)):
            with pytest.raises(RequestRefused, match=r"maxExperimentDuration \(.*\) is reached; raise it"):
                await refused
        await runner.change_config({"maxExperimentDuration": "1h"})
        await runner.add_trial({"x": 0.5})


async def test_detach_lets_trials_run_on_and_resume_adopts_them(lab: Lab) -> None:
    lab.service.script(trial(0), [started(), hold(), metric(0.5, final=True), ended(0)])
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        assert await runner.stop(detach=True) == [trial(0)]
    assert lab.service.closed is True
    lab.service.resume(f"exp-{trial(0)}-1")
    async with lab.runner(resumed=True) as runner:
        await until_status(runner, E.DONE)
    assert [row.text for row in lab.reader().metrics()] == ["0.5"]


@pytest.mark.parametrize("save", [True, False])
async def test_a_stop_says_which_trials_had_saved_nothing(lab: Lab, save: bool) -> None:
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=2, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 2)
        saved = f.CheckpointReported(
            job_id=f"exp-{trial(1)}-1", position=0, number=1, step=1, size=1, files=1
        )
        await runner.request(lambda state: (saved,))
        assert await runner.stop(detach=False, save=save) == []
        assert runner.unsaved == ([trial(0)] if save else [])
        assert runner.state.trials[trial(1)].parked


async def test_a_failed_commit_ends_the_runner_with_a_sentence(lab: Lab) -> None:
    refused = 0
    with pytest.raises(ExceptionGroup) as caught:
        async with lab.runner(trial_concurrency=1) as runner:
            await until(runner, lambda: runner.session.service is not None)
            with sqlite3.connect(database_path(lab.directory)) as other:
                other.execute("DROP TABLE facts")
            other.close()
            for _ in range(2):  # the second request comes while the runner closes
                with pytest.raises(RunnerClosed):
                    await asyncio.wait_for(runner.add_trial({"x": 1}), LIMIT_S)
                refused += 1
    assert caught.value.subgroup(StoreError) is not None
    assert refused == 2


async def test_a_stop_ends_when_the_experiment_is_resumed(lab: Lab) -> None:
    """The request to stop must not wait until the resumed experiment ends."""
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        stopping = asyncio.create_task(runner.stop(detach=False))
        await asyncio.sleep(0)  # the request to stop is made; the resume follows in the same turn
        opened = f.ExperimentOpened(m_epoch=runner.state.m_epoch, resumed=True)
        await runner.request(lambda state: (opened,))
        with pytest.raises(RequestRefused, match="was resumed while it was being stopped"):
            await asyncio.wait_for(stopping, LIMIT_S)


async def test_a_repeated_request_adds_one_trial(lab: Lab) -> None:
    """A repeated key adds no trial, even at the same time, after a restart, or after the trial's end."""
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1, max_trial_number=4) as runner:
        both = await asyncio.gather(*(runner.add_trial({"x": 0.5}, key="k1") for _ in range(2)))
        assert both[0] == both[1]
        first = both[0]
        other = await runner.add_trial({"x": 0.5}, key="k2")
        assert other.trial_id != first.trial_id
        with pytest.raises(RequestRefused, match=f"Idempotency-Key k1 has added trial {first.trial_id} with"):
            await runner.add_trial({"x": 0.25}, key="k1")
        await runner.stop_trial(first.trial_id)
        assert await runner.add_trial({"x": 0.5}, key="k1") == first
        state = runner.state
    async with lab.runner(trial_concurrency=1, max_trial_number=4) as again:
        assert again.state is not state
        assert await again.add_trial({"x": 0.5}, key="k1") == first
    folded = lab.reader().state()
    assert folded.added.keys() == {"k1", "k2"}
    customised = [row for row in lab.reader().trials()[1] if row.source is f.SuggestionSource.CUSTOMIZED]
    assert len(customised) == 2


async def test_imported_data_reach_the_tuner(lab: Lab) -> None:
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        with pytest.raises(RequestRefused, match="record 1 is not an object with 'parameter' and 'value'"):
            await runner.import_data([{"parameter": {"x": 1}, "value": 2}, {"x": 1}])
        await runner.import_data([{"parameter": {"x": 1}, "value": 2}])
        await until(runner, lambda: any(isinstance(msg, m.Imported) for _, msg in lab.sent))
        raise Crash


PHASES = [
    started(),
    metric(0.5, final=True),
    wants_parameters(1),
    given(),
    metric(0.25),
    metric(0.75, final=True),
    wants_parameters(2),
    given(),
    ended(0),
]


def told(lab: Lab) -> list[tuple[int | None, str]]:
    return [(line.parameter_id, line.text) for _, line in lab.sent if isinstance(line, m.ResultReported)]


async def test_a_multi_phase_trial_gets_further_sets_and_the_tuner_each_result(lab: Lab) -> None:
    lab.service.script(trial(0), PHASES)
    async with lab.runner(trial_concurrency=1, max_trial_number=1, multi_phase=True) as runner:
        await until_status(runner, E.DONE)
    reader = lab.reader()
    found = [(row.parameter_id, row.text) for row in reader.metrics(kind="FINAL")]
    assert found == [("0", "0.5"), ("1", "0.75")] == [(str(key), text) for key, text in told(lab)]
    lines = [line for _, line in lab.sent if isinstance(line, m.Ask | m.ResultReported | m.TrialFinished)]
    asked = [line.trial_id for line in lines if isinstance(line, m.Ask)]
    assert asked == [None, trial(0), trial(0)] and lab.asked() == [0, 1, 2]
    kinds = [type(line) for line in lines]
    assert kinds == [m.Ask, m.ResultReported, m.Ask, m.ResultReported, m.Ask, m.TrialFinished]
    (row,) = reader.trials()[1]
    assert (row.status, row.final_value) == (S.SUCCEEDED, 0.75)
    further = reader.further_sets([trial(0), trial(1)])[trial(0)]
    assert [(each.index, each.parameter_id) for each in further] == [(1, 1), (2, 2)]
    assert [job for order, job in lab.service.orders if order == "update"] == [f"exp-{trial(0)}-1"] * 2


async def test_after_a_crash_a_trial_still_gets_what_it_asked_for(lab: Lab) -> None:
    lab.service.script(trial(0), PHASES)
    lab.mute = True
    async with lab.runner(trial_concurrency=1, max_trial_number=1, multi_phase=True) as runner:
        await until(runner, lambda: bool(runner.state.wanting))
        raise Crash
    lab.mute = False
    async with lab.runner() as runner:
        await until(runner, lambda: bool(runner.state.jobs) and len(lab.service.orders) > 1)
        raise Crash
    async with lab.runner() as runner:
        await until_status(runner, E.DONE)
    assert [(row.parameter_id, row.text) for row in lab.reader().metrics(kind="FINAL")] == [
        ("0", "0.5"),
        ("1", "0.75"),
    ]
    assert [order for order, _ in lab.service.orders] == ["start", "update", "update"]


async def test_a_tuner_that_has_no_more_ends_a_multi_phase_trial(lab: Lab) -> None:
    lab.suggestions = 2
    lab.service.script(trial(0), PHASES)
    async with lab.runner(trial_concurrency=1, multi_phase=True) as runner:
        await until_status(runner, E.DONE)
    (row,) = lab.reader().trials()[1]
    assert row.note == "the trial asked for parameter set 3, but the tuner has no more: the trial gets None"


async def test_a_set_that_comes_after_its_trial_has_ended_is_recorded_and_discarded(lab: Lab) -> None:
    lab.service.script(trial(0), [started(), wants_parameters(1), hold(), ended(0)])
    lab.service.script(trial(1), [started(), hold(), ended(0)])
    lab.mute = True
    async with lab.runner(trial_concurrency=1, max_trial_number=2, multi_phase=True) as runner:
        await until(runner, lambda: bool(runner.state.wanting))
        lab.service.resume(f"exp-{trial(0)}-1")
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 1)
        lab.unmute()
        await until(runner, lambda: any(isinstance(line, m.SetDiscarded) for _, line in lab.sent))
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        lab.service.resume(f"exp-{trial(1)}-1")
        await until_status(runner, E.DONE)
        assert runner.state.next_parameter_id == 3
    late = [r.fact for r in lab.reader().facts(limit=1000) if isinstance(r.fact, f.FurtherSuggested)]
    assert [(fact.trial_id, fact.parameter_id, fact.late) for fact in late] == [(trial(0), 1, True)]
