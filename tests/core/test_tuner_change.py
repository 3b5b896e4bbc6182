"""Another tuner while an experiment runs: which tuner is asked and heard, and what stays the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nnimgr.config import AlgorithmConfig, ConfigError, ExperimentConfig, Problem
from nnimgr.core.managing.tuner_change import check_tuner
from nnimgr.core.running.requests import read_config
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, trial_id_of
from tests.core.lab import Crash, Lab, ScriptedChild, until, until_status
from tests.dispatcher.hosting import eventually
from training_services.fake import ended, hold, metric, started

E = f.ExperimentStatus
S = f.TrialStatus
TPE = {"tuner": {"name": "TPE", "classArgs": {"seed": 3}}}


def swap_number(lab: Lab) -> int:
    """Return the fact number of the last change of the configuration."""
    return [r.number for r in lab.reader().facts(limit=1000) if isinstance(r.fact, f.ConfigChanged)][-1]


def tuners(lab: Lab) -> list[ScriptedChild]:
    return [child for child in lab.children if child.start_message.role == "tuner"]


async def test_the_new_tuner_is_built_from_all_there_is_and_asked(lab: Lab) -> None:
    """The old tuner leaves. Its trials continue, and their results reach the new tuner."""
    lab.service.script(trial_id_of("exp", 0), [started(), hold(), metric(0.5, final=True), ended(0)])
    async with lab.runner(trial_concurrency=1, max_trial_number=3) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        await runner.change_config(TPE)
        await eventually(lambda: len(tuners(lab)) == 2)
        old, new = tuners(lab)
        lab.service.resume(f"exp-{trial_id_of('exp', 0)}-1")
        await until_status(runner, E.DONE)
        told = {"name": "TPE", "classArgs": {"seed": 3, "optimize_mode": "maximize"}}
        assert runner.state.config["tuner"] == told
    since = swap_number(lab)
    assert (new.start_message.since, new.start_message.rebuild_to >= since) == (since, True)
    first = next(message for message in new.sent if isinstance(message, m.TrialFinished))
    assert first.trial_id == trial_id_of("exp", 0)
    assert [i for message in new.sent if isinstance(message, m.Ask) for i in message.parameter_ids] == [1, 2]
    assert old.closed and not any(isinstance(message, m.TrialFinished) for message in old.sent)


async def test_what_the_old_one_says_after_the_swap_is_not_heard(lab: Lab) -> None:
    lab.mute = lab.mute_at_all = True
    async with lab.runner(trial_concurrency=2, max_trial_number=2) as runner:
        await until(runner, lambda: bool(lab.unanswered))
        old, ask = lab.unanswered.pop()
        lab.mute = False
        swapping = asyncio.create_task(runner.change_config(TPE))
        await asyncio.sleep(0)
        for _ in range(2):  # in the turn that takes the change, and after it
            old.answer(ask)
            old.on_message(m.Failed(call="x", sentence="it raised", traceback="", hopeless=True))
            await swapping
        old.on_exit("it died")
        await until_status(runner, E.DONE)
    facts = lab.reader().facts(limit=1000)
    since = swap_number(lab)
    later = [r.fact for r in facts if r.number > since]
    given = [fact.fed_to for fact in later if isinstance(fact, f.Suggested)]
    assert all(fed_to is not None and fed_to >= since for fed_to in given)
    assert not any(isinstance(fact, f.AlgorithmFailed) for fact in later)


async def test_an_exhausted_experiment_goes_on_with_another_tuner(lab: Lab) -> None:
    lab.suggestions = 1
    lab.service.script(trial_id_of("exp", 0), [started(), hold(), ended(0)])
    async with lab.runner(trial_concurrency=1) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        lab.suggestions = 0
        lab.service.resume(f"exp-{trial_id_of('exp', 0)}-1")
        await until_status(runner, E.DONE)
        lab.suggestions = 2
        await runner.change_config(TPE)
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 3)
        await until_status(runner, E.DONE)
    assert lab.reader().experiment().reason == "the tuner has no more parameter sets"


async def test_a_draining_experiment_goes_on_with_another_tuner(lab: Lab) -> None:
    lab.suggestions = 1
    lab.service.default = [started(), hold(), ended(0)]
    async with lab.runner(trial_concurrency=2, max_trial_number=2) as runner:
        await until_status(runner, E.DRAINING)
        lab.suggestions = 1
        await runner.change_config(TPE)
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 2)
        raise Crash


async def test_a_stopped_experiment_goes_on_with_the_new_tuner(lab: Lab) -> None:
    async with lab.runner(trial_concurrency=1, max_trial_number=9) as runner:
        await runner.stop(detach=False)
        before = len(tuners(lab))
        await runner.change_config(TPE)
        assert len(tuners(lab)) == before
    async with lab.runner(resumed=True) as runner:
        await until_status(runner, E.DONE)
    assert tuners(lab)[-1].start_message.since == swap_number(lab)


async def test_a_tuner_that_always_dies_is_replaced(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old tuner's crashes do not count for the next tuner, and do not restart the next tuner."""
    monkeypatch.setattr("nnimgr.core.running.algorithm_process.RESTART_DELAYS_S", (0.001, 0.001))
    lab.dies = 3
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.crashes.get(f.Role.TUNER) == 3)
        await runner.change_config(TPE)
        assert runner.state.crashes == {}
        await until_status(runner, E.DONE)


async def test_two_swaps_in_a_row_leave_one_tuner(lab: Lab) -> None:
    lab.slow_to_leave = True
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        for seed in (1, 2, 3):
            await runner.change_config({"tuner": {"name": "TPE", "classArgs": {"seed": seed}}})
        await until_status(runner, E.DONE)
        living = [child for child in tuners(lab) if not child.closed]
        assert [child.start_message.since for child in living] in ([], [swap_number(lab)])
    assert all(child.closed for child in tuners(lab))


async def test_the_direction_stays(lab: Lab) -> None:
    minimised = {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
        with pytest.raises(ConfigError, match="already has results with optimize_mode: maximize"):
            await runner.change_config({"tuner": minimised})


async def test_without_results_the_direction_may_change(lab: Lab) -> None:
    minimised = {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}}
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await runner.change_config({"tuner": minimised})
        assert runner.state.minimises
        raise Crash


async def refusal(runner: ExperimentRunner, tuner: object) -> str:
    with pytest.raises(ConfigError) as caught:
        await runner.change_config({"tuner": tuner})
    return str(caught.value)


async def test_a_tuner_that_cannot_be_is_refused_before(lab: Lab, tmp_path: Path) -> None:
    from nnimgr.core.managing.folder import Surroundings

    around = Surroundings(environ={"NNI_CONFIG_DIR": str(tmp_path)}, cwd=tmp_path, python="/usr/bin/python3")
    around.write(tmp_path)
    lab.check_tuner = lambda tuner: check_tuner(tuner, tmp_path)
    async with lab.runner(trial_concurrency=1) as runner:
        told = await refusal(runner, {"name": "Tpee"})
        assert told.startswith("tuner.name: there is no built-in tuner 'Tpee'") and "did you mean TPE" in told
        assert "takes no argument 'gamma'" in await refusal(
            runner, {"name": "TPE", "classArgs": {"gamma": 1}}
        )
        told = await refusal(runner, {"name": "Batch"})
        assert "tuner: Batch cannot search the experiment's search space: Batch needs a search space" in told
        missing = {"className": "mine.Mine", "codeDirectory": str(tmp_path / "none")}
        assert "tuner.codeDirectory: the directory" in await refusal(runner, missing)
        relative = {"className": "mine.Mine", "codeDirectory": "code"}
        assert "tuner.codeDirectory: must be an absolute path" in await refusal(runner, relative)
        secret = {"className": "mine.Mine", "classArgs": {"key": "${env:NOBODY_HAS_THIS}"}}
        assert "NOBODY_HAS_THIS is not set in the environment that" in await refusal(runner, secret)
        assert "PPO searches architectures" in await refusal(runner, {"name": "ppo"})
        assert "must be a mapping" in await refusal(runner, [])
        assert "cannot be empty" in await refusal(runner, None)
        both = {"tuner": {"name": "Batch"}, "searchSpace": {"p": {"_type": "choice", "_value": [{"x": 1}]}}}
        await runner.change_config(both)
        assert runner.state.search_space == both["searchSpace"]
        raise Crash


async def test_only_another_tuner_is_checked(lab: Lab) -> None:
    """The tuner is checked once per change, before anything is recorded."""
    checked: list[str] = []

    def check(tuner: AlgorithmConfig) -> None:
        checked.append(tuner.title)
        if tuner.name == "GridSearch":
            raise ConfigError([Problem(message="it is not installed", field="tuner")])

    lab.check_tuner = check
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await runner.change_config({"maxTrialNumber": 3})
        assert checked == [] and runner.config.max_trial_number == 3
        await runner.change_config(TPE)
        assert checked == ["TPE"]
        with pytest.raises(ConfigError, match="it is not installed"):
            await runner.change_config({"tuner": {"name": "GridSearch"}})
        assert runner.config.tuner.name == runner.state.config["tuner"]["name"] == "TPE"
        raise Crash


async def test_changes_at_once_are_made_one_after_the_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change is lost, and the configuration is parsed once for all of them."""
    parsed: list[f.ExperimentStatus] = []

    def read(state: ExperimentState) -> ExperimentConfig:
        parsed.append(state.status)
        return read_config(state)

    monkeypatch.setattr("nnimgr.core.running.requests.read_config", read)
    lab.check_tuner = lambda tuner: None  # runs in a thread, so that other changes come meanwhile
    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await asyncio.gather(
            runner.change_config(TPE),
            runner.change_config({"maxTrialNumber": 5}),
            runner.change_config({"trialConcurrency": 2}),
        )
        told = read_config(runner.state)
        assert (told.tuner.name, told.max_trial_number, told.trial_concurrency) == ("TPE", 5, 2)
        assert runner.config.canonical() == told.canonical() and len(parsed) == 1
        raise Crash
