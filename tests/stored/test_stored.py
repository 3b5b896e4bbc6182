"""Experiments that earlier versions have stored open in this one: with equal answers, sentences apart."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from nnimgr.core.managing.assembly import Assembly
from nnimgr.rules.fold import apply
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.validate import validate
from nnimgr.store.reader import ExperimentReader
from tests.core.test_manager import FakeAssembly
from tests.e2e.scene import eventually
from tests.server.harness import free_port, nothing_left, serving
from tests.stored.answers import differences
from tests.stored.making import PORT
from tests.stored.opening import FIXTURES, Stored, unpack, viewing
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.tools import ServiceTools

ENDED = {"SUCCEEDED", "FAILED", "USER_CANCELED", "EARLY_STOPPED", "SYS_CANCELED"}


def title(fixture: Path) -> str:
    return f"{fixture.parent.name}-{fixture.name.removesuffix('.tar.xz')}"


@pytest.fixture(params=FIXTURES, ids=title)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    return unpack(request.param, tmp_path)


def fixtures_of(*scenarios: str) -> list[Path]:
    """Return the fixtures of these scenarios, of all versions."""
    return [path for path in FIXTURES if path.name.removesuffix(".tar.xz") in scenarios]


async def test_every_route_answers_as_it_did(stored: Stored) -> None:
    assembly = Assembly(ServiceTools(hub=KeeperHub(), ledger=HostLedger()))
    async with viewing(stored, assembly) as viewer:
        assert viewer.manager.find(stored.id) is None
        answers = await asyncio.gather(*map(viewer.get, stored.recorded))
    await assembly.close()
    assert list(differences(stored.recorded, dict(zip(stored.recorded, answers, strict=True)))) == []


def test_the_log_folds_to_what_was_stored(stored: Stored) -> None:
    reader = ExperimentReader(stored.folder)
    log = reader.facts(limit=100_000)
    reader.close()
    state = ExperimentState()
    for _, turn in itertools.groupby(log, key=lambda recorded: recorded.at):
        for recorded in turn:
            apply(state, recorded)
            state.take_touched()
        validate(state)
    profile = stored.profile
    assert (state.number, state.status, state.drain) == tuple(
        profile[key] for key in ("lastNumber", "status", "drain")
    )
    assert state.counts == profile["counts"]
    assert state.next_sequence == len(stored.trials)
    assert {trial.id: trial.status for trial in state.trials.values()} == {
        trial["id"]: trial["status"] for trial in stored.trials if trial["status"] not in ENDED
    }
    best = profile["bestTrial"]
    assert (state.best and (state.best.trial_id, state.best.value)) == (
        best and (best["trialId"], best["value"])
    )
    assert (state.config, state.search_space) == (profile["config"], profile["searchSpace"])


async def test_what_had_ended_stays_as_it_was_once_the_experiment_goes_on(stored: Stored) -> None:
    url = stored.url
    found: list[str] = []
    async with viewing(stored, FakeAssembly(), port=PORT) as viewer:
        if viewer.manager.find(stored.id) is None:
            await viewer.manager.resume(stored.id)
        runner = viewer.manager.get(stored.id)
        assert runner.last_number > stored.profile["lastNumber"]
        validate(runner.state)
        for trial in stored.trials:
            if trial["status"] in ENDED:
                for path in (f"{url}/trials/{trial['id']}", f"{url}/trials/{trial['id']}/metrics"):
                    found += differences(stored.recorded[path], await viewer.get(path), path)
    assert found == []


@pytest.mark.parametrize("fixture", fixtures_of("silent"), ids=title)
def test_what_ran_before_the_machine_was_restarted_is_lost(fixture: Path, tmp_path: Path) -> None:
    port = free_port()
    stored = unpack(fixture, tmp_path, port=port)
    ran = [trial["id"] for trial in stored.trials if trial["status"] == "UNKNOWN"]
    assert ran
    with nothing_left(tmp_path), serving(tmp_path, port=port) as server:

        def first_attempts() -> list[dict[str, Any]]:
            trials = [server.call("GET", f"{stored.url}/trials/{trial_id}").body for trial_id in ran]
            attempts = [trial["jobs"][0] for trial in trials]
            return attempts if all(attempt["endReason"] is not None for attempt in attempts) else []

        for attempt in eventually(first_attempts, "the ends of attempts on a machine that was restarted"):
            assert (attempt["attempt"], attempt["endReason"]) == (1, "lost")
            assert "the host was restarted" in attempt["message"]
        assert server.call("POST", f"{stored.url}/stop").status == 200


@pytest.mark.parametrize("fixture", fixtures_of("draining"), ids=title)
def test_an_experiment_ends_whose_last_trials_are_lost(fixture: Path, tmp_path: Path) -> None:
    port = free_port()
    stored = unpack(fixture, tmp_path, port=port)
    with nothing_left(tmp_path), serving(tmp_path, port=port) as server:

        def over() -> dict[str, Any]:
            profile = dict(server.call("GET", stored.url).body)
            return profile if profile["status"] == "DONE" else {}

        assert eventually(over, "the end")["counts"] == {"SUCCEEDED": 1, "FAILED": 2}
        trials = server.call("GET", f"{stored.url}/trials?status=FAILED").body["trials"]
        assert all("the host was restarted" in trial["reason"] for trial in trials)


@pytest.mark.parametrize("fixture", fixtures_of("gangs"), ids=title)
def test_the_members_of_a_gang_are_lost_with_their_machine(fixture: Path, tmp_path: Path) -> None:
    port = free_port()
    stored = unpack(fixture, tmp_path, port=port)
    (ran,) = [trial for trial in stored.trials if trial["status"] == "RUNNING"]
    with nothing_left(tmp_path), serving(tmp_path, port=port) as server:

        def ended() -> dict[str, Any]:
            trial = dict(server.call("GET", f"{stored.url}/trials/{ran['id']}").body)
            return trial if trial["status"] == "FAILED" else {}

        trial = eventually(ended, "the end of a gang on a machine that was restarted")
        assert "the host was restarted" in trial["reason"]
        (job,) = trial["jobs"]
        assert [member["endReason"] for member in job["members"]] == ["lost", "lost"]
        eventually(lambda: server.call("GET", stored.url).body["status"] == "DONE", "the experiment's end")
