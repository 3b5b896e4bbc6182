"""Programs that ask for trials and run them: nothing that was asked or told is lost or doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nnimgr.core.running.exchange import Exchanged, Held, Report, Tell, Wanted, exchange
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from tests.core.lab import LIMIT_S, Crash, Lab, until
from training_services.ask import AskConfig, AskService
from training_services.base import ExperimentContext, TrialJobSpec
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.tools import ServiceTools

S = f.TrialStatus


def opened(lab: Lab, **config: Any) -> AskService:
    """Return a new service of the lab, as each start of a server makes one."""
    context = ExperimentContext(
        experiment_id="exp",
        directory=Path("/"),
        trial_command="(none)",
        trial_code_directory=Path("/"),
        trial_gpu_number=None,
        python="python3",
        environ={},
    )
    tools = ServiceTools(hub=KeeperHub(), ledger=HostLedger())
    service = AskService(context, AskConfig(**config), tools)
    lab.service = service  # type: ignore[assignment]
    return service


@pytest.fixture
def asked(lab: Lab) -> Lab:
    lab.config = {"trainingService": {"platform": "ask"}}
    opened(lab)
    return lab


async def ask(runner: ExperimentRunner, key: str, count: int = 1, **more: Any) -> list[TrialJobSpec]:
    found = await asyncio.wait_for(exchange(runner, wanted=Wanted(key, count), **more), LIMIT_S)
    return list(found.jobs)


async def tell(runner: ExperimentRunner, job: TrialJobSpec, value: Any = None, **end: Any) -> Exchanged:
    told = Tell(Held(job.trial_id, job.attempt), value, **end)
    return await asyncio.wait_for(exchange(runner, tells=[told]), LIMIT_S)


def ends(lab: Lab) -> list[tuple[S, str | None]]:
    _, rows = lab.reader().trials(offset=0, limit=100, sort="sequence")
    return [(row.status, row.final_text) for row in rows]


async def test_no_trial_is_created_before_a_program_asks(asked: Lab) -> None:
    async with asked.runner(trial_concurrency=8) as runner:
        (first,) = await ask(runner, "a")
        assert asked.asked() == [0] and list(runner.state.trials) == [first.trial_id]
        assert runner.state.trials[first.trial_id].status is S.RUNNING
        assert runner.now().endswith("1 trial is running; no program asks for a trial")
        second, third = await ask(runner, "b", 2)
        assert asked.asked() == [0, 1, 2] and second.parameter_text != third.parameter_text
        assert "3 trials are running" in runner.now()
        await ask(runner, "c", 5)
        assert "8 of 8 slots busy" in runner.now()


async def test_a_result_is_recorded_once(asked: Lab) -> None:
    async with asked.runner() as runner:
        (job,) = await ask(runner, "a")
        assert (await tell(runner, job, 0.5)).gone == []
        again = await tell(runner, job, 0.5)
        assert again.gone == [Held(job.trial_id, 1)]
        assert ends(asked) == [(S.SUCCEEDED, "0.5")]


async def test_a_tell_with_the_next_ask_needs_no_other_request(asked: Lab) -> None:
    async with asked.runner(trial_concurrency=1) as runner:
        (first,) = await ask(runner, "a")
        (second,) = await ask(runner, "b", tells=[Tell(Held(first.trial_id, 1), 1.5)])
        assert second.trial_id != first.trial_id
        assert ends(asked) == [(S.SUCCEEDED, "1.5"), (S.RUNNING, None)]


async def test_the_same_key_gets_the_same_trials(asked: Lab) -> None:
    async with asked.runner() as runner:
        (first,) = await ask(runner, "a")
        assert await ask(runner, "a") == [first]
        both = await asyncio.gather(ask(runner, "b"), ask(runner, "b"))
        assert both[0] == both[1] and len(runner.state.trials) == 2


async def test_a_restart_loses_and_doubles_nothing(asked: Lab) -> None:
    async with asked.runner(trial_concurrency=4) as runner:
        first, second = await ask(runner, "a", 2)
        held = Held(first.trial_id, 1)
        await exchange(runner, reports=[Report(held, 0, 3.0)])
        await tell(runner, second, 1.0)
        raise Crash
    opened(asked)
    async with asked.runner() as runner:
        (again,) = await ask(runner, "a", 1)
        assert again.trial_id == first.trial_id and again.parameter_text == first.parameter_text
        assert (await tell(runner, second, 1.0)).gone == [Held(second.trial_id, 1)]
        found = await exchange(runner, reports=[Report(held, 0, 3.0), Report(held, 1, 2.0)])
        assert found.gone == []
        assert runner.state.trials[first.trial_id].intermediates == 2
        await tell(runner, first, 2.5)
        assert ends(asked) == [(S.SUCCEEDED, "2.5"), (S.SUCCEEDED, "1.0")]


async def test_an_error_and_a_cancellation_are_recorded(asked: Lab) -> None:
    async with asked.runner() as runner:
        failed, canceled = await ask(runner, "a", 2)
        await tell(runner, failed, error="ValueError: no good")
        await tell(runner, canceled, canceled=True)
        _, rows = asked.reader().trials(offset=0, limit=9, sort="sequence")
        assert [(row.status, row.reason) for row in rows] == [
            (S.FAILED, "ValueError: no good"),
            (S.USER_CANCELED, "a user stopped it"),
        ]


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


async def test_a_silent_program_loses_its_trial(asked: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked.runner(max_lost_attempts=0) as runner:
        (job,) = await ask(runner, "a")
        later(monkeypatch, 59)
        await exchange(runner, alive=[Held(job.trial_id, 1)])
        later(monkeypatch, 59)
        assert (await exchange(runner, alive=[Held(job.trial_id, 1)])).gone == []
        later(monkeypatch, 61)
        await until(runner, lambda: not runner.state.trials)
        assert (await tell(runner, job, 0.5)).gone == [Held(job.trial_id, 1)]
        (row,) = asked.reader().trials(offset=0, limit=9)[1]
        assert row.status is S.FAILED and row.reason == (
            "it was lost once: the program that had asked for it did not answer for 60 s (the lease)"
        )
        await until(runner, lambda: not runner.state.jobs)  # else the experiment would never end


async def test_lost_parameters_are_given_again(asked: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked.runner(max_lost_attempts=1) as runner:
        (job,) = await ask(runner, "a")
        later(monkeypatch, 61)
        await until(runner, lambda: bool(runner.state.queued))
        (again,) = await ask(runner, "b")
        assert (again.trial_id, again.attempt) == (job.trial_id, 2) and asked.asked() == [0]
        assert (await tell(runner, job, 1.0)).gone == [Held(job.trial_id, 1)]
        assert (await tell(runner, again, 2.0)).gone == []
        assert ends(asked) == [(S.SUCCEEDED, "2.0")]


async def test_a_stop_is_told_with_the_next_call(asked: Lab) -> None:
    async with asked.runner() as runner:
        (job,) = await ask(runner, "a")
        held = Held(job.trial_id, 1)
        await runner.stop_trial(job.trial_id)
        assert (await exchange(runner, alive=[held])).gone == [held]
        assert (await exchange(runner, reports=[Report(held, 0, 1.0)])).gone == [held]
        assert ends(asked) == [(S.USER_CANCELED, None)]


async def test_an_assessor_judges_reports(asked: Lab) -> None:
    asked.assessor = True
    async with asked.runner() as runner:
        (job,) = await ask(runner, "a")
        held = Held(job.trial_id, 1)
        assert (await exchange(runner, reports=[Report(held, 0, 1.0)])).gone == []
        await exchange(runner, reports=[Report(held, 1, -1.0)])
        await until(runner, lambda: not runner.state.trials)
        assert (await exchange(runner, alive=[held])).gone == [held]
        await runner.committed_after(runner.state.number - 1)
        assert [status for status, _ in ends(asked)] == [S.EARLY_STOPPED]


async def test_a_report_with_a_gap_is_refused(asked: Lab) -> None:
    async with asked.runner() as runner:
        (job,) = await ask(runner, "a")
        held = Held(job.trial_id, 1)
        with pytest.raises(RequestRefused, match=r"has 0 reports, so the next one has the number 0, not 2"):
            await exchange(runner, reports=[Report(held, 2, 1.0)])


async def test_the_limit_of_trials_ends_the_asking(asked: Lab) -> None:
    async with asked.runner(trial_concurrency=9, max_trial_number=2) as runner:
        jobs = await ask(runner, "a", 3)
        assert len(jobs) == 2
        over = await exchange(runner, wanted=Wanted("b", 1))
        assert over.jobs == [] and over.ended == "experiment exp is DRAINING: maxTrialNumber (2) is reached"
        for job in jobs:
            await tell(runner, job, 1.0)
        over = await exchange(runner, wanted=Wanted("c", 1))
        assert over.ended == "experiment exp is DONE: 2 of 2 trials"


async def test_the_last_trial_is_given_before_the_asking_ends(asked: Lab) -> None:
    """The experiment is DRAINING in the turn that creates its last trial, before the trial is committed."""
    async with asked.runner(trial_concurrency=20, max_trial_number=20) as runner:
        for number in range(20):
            assert len(await ask(runner, f"key{number}")) == 1
        assert (await exchange(runner, wanted=Wanted("more", 1))).ended is not None


async def test_full_slots_give_what_there_is_and_then_wait(asked: Lab) -> None:
    async with asked.runner(trial_concurrency=2) as runner:
        first, second = await ask(runner, "a", 5)
        nothing = await exchange(runner, wanted=Wanted("b", 1), hold_s=0)
        assert nothing.jobs == [] and nothing.ended is None
        assert nothing.waiting == "2 of 2 slots busy"
        waiting = asyncio.create_task(ask(runner, "b"))
        await tell(runner, first, 1.0)
        (third,) = await waiting
        assert third.trial_id not in (first.trial_id, second.trial_id)


async def test_a_program_waits_for_a_trial_of_another_one_after_which_the_tuner_has_more(asked: Lab) -> None:
    asked.suggestions = 2
    async with asked.runner(trial_concurrency=8) as runner:
        first, second = await ask(runner, "a", 2)
        own = Tell(Held(second.trial_id, 1), 1.0)
        waiting = asyncio.create_task(exchange(runner, tells=[own], wanted=Wanted("b", 1, holds=0)))
        await until(runner, lambda: runner.state.status is f.ExperimentStatus.DRAINING)
        asked.suggestions = 2
        other = Tell(Held(first.trial_id, 1), 2.0)
        found = await asyncio.wait_for(
            exchange(runner, tells=[other], wanted=Wanted("c", 1, holds=0)), LIMIT_S
        )
        jobs = [*found.jobs, *(await asyncio.wait_for(waiting, LIMIT_S)).jobs]
        assert len({job.trial_id for job in jobs}) == 2
        assert (await exchange(runner, wanted=Wanted("d", 1))).ended is not None  # says not what it has


async def test_a_program_waits_for_the_last_trial_of_another_one_that_may_be_repeated(
    asked: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked.runner(max_trial_number=1, max_lost_attempts=1) as runner:
        (job,) = await ask(runner, "a")
        waiting = asyncio.create_task(exchange(runner, wanted=Wanted("b", 1, holds=0), hold_s=1000))
        await until(runner, lambda: bool(runner.session.wanted))
        later(monkeypatch, 61)
        (again,) = (await asyncio.wait_for(waiting, LIMIT_S)).jobs
        assert (again.trial_id, again.attempt) == (job.trial_id, 2)
        await tell(runner, again, 1.0)
        assert (await exchange(runner, wanted=Wanted("c", 1, holds=0))).ended is not None


async def test_programs_that_have_trials_do_not_wait_for_each_other(asked: Lab) -> None:
    asked.suggestions = 2
    async with asked.runner(trial_concurrency=8) as runner:
        _, second = await ask(runner, "a", 2)
        waiting = asyncio.create_task(exchange(runner, wanted=Wanted("b", 1, holds=1)))
        await until(runner, lambda: runner.state.status is f.ExperimentStatus.DRAINING)
        assert (await exchange(runner, wanted=Wanted("c", 1, holds=1))).ended is not None
        await tell(runner, second, 1.0)
        assert (await asyncio.wait_for(waiting, LIMIT_S)).ended is not None


async def test_a_stop_of_the_experiment_ends_all_trials(asked: Lab) -> None:
    async with asked.runner() as runner:
        (job,) = await ask(runner, "a")
        assert await asyncio.wait_for(runner.stop(detach=False), LIMIT_S) == []
        found = await exchange(runner, alive=[Held(job.trial_id, 1)], wanted=Wanted("b", 1))
        assert found.gone == [Held(job.trial_id, 1)]
        assert found.ended == "experiment exp is STOPPED: a user stopped it"


async def test_an_experiment_that_runs_its_trials_itself_gives_none(lab: Lab) -> None:
    async with lab.runner() as runner:
        with pytest.raises(RequestRefused, match="runs its trials itself"):
            await exchange(runner, wanted=Wanted("a", 1))


def test_a_lease_is_a_duration() -> None:
    assert AskConfig(lease=30).lease == 30
    with pytest.raises(ValueError, match="is not longer than zero"):
        AskConfig(lease=0)
