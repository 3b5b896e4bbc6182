"""Forks of trials, and the lineage of an experiment, over REST."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from tests.api.lab import EXPERIMENT, Lab
from tests.rules.saving import Saving


@pytest.fixture
async def donor(lab: Lab) -> Saving:
    """Return a running trial with a checkpoint after its first result."""
    lab.life.take(f.ConfigChanged(changes={}, limits=replace(lab.life.state.limits, max_trial_number=10)))
    saving = Saving(life=lab.life)
    saving.report(0.5)
    saving.save(7)
    await lab.runner.commit()
    return saving


async def test_a_fork_of_a_running_trial(lab: Lab, donor: Saving) -> None:
    answer = await lab.client.post(f"{EXPERIMENT}/trials/{donor.id}/fork")
    assert answer.status_code == 201, answer.text
    fork = lab.life.state.trials[answer.json()["id"]]
    assert fork.origin is not None and fork.origin.origin.trial_id == donor.id
    assert (fork.source, fork.retry_of, fork.parameters) == ("fork", donor.id, donor.trial.parameters)
    await lab.runner.commit()
    lineage = (await lab.client.get(f"{EXPERIMENT}/lineage")).json()
    (made,) = lineage["forks"]
    assert {**made, "savedAt": None} == {
        "trialId": fork.id,
        "reports": 1,
        "originTrialId": donor.id,
        "originAttempt": 1,
        "originNumber": 1,
        "step": 7,
        "savedAt": None,
    }
    assert [trial["sequence"] for trial in lineage["trials"]] == [0, fork.sequence]
    assert lineage["legs"] == []


async def test_a_fork_of_an_ended_trial(lab: Lab, donor: Saving) -> None:
    donor.end(0)
    await lab.runner.commit()
    wanted = {"parameters": {"x": 5}, "checkpoint": {"attempt": 1, "number": 1}}
    path = f"{EXPERIMENT}/trials/{donor.id}/fork"
    keyed = {"Idempotency-Key": "k1"}
    answer = await lab.client.post(path, json=wanted, headers=keyed)
    assert answer.status_code == 201, answer.text
    fork = lab.life.state.trials[answer.json()["id"]]
    assert fork.origin is not None
    assert (fork.parameters, fork.intermediates, fork.origin.origin.step) == ('{"x": 5}', 1, 7)
    assert (await lab.client.post(path, json=wanted, headers=keyed)).json()["id"] == fork.id


async def test_a_failed_trial_that_was_forked_can_be_run_again(lab: Lab, donor: Saving) -> None:
    donor.end(1)
    await lab.runner.commit()
    assert (await lab.client.post(f"{EXPERIMENT}/trials/{donor.id}/fork")).status_code == 201
    await lab.runner.commit()
    (again,) = (await lab.client.post(f"{EXPERIMENT}/rerun")).json()["trials"]
    assert again["retryOf"] == donor.id


async def test_values_of_a_fork_outside_of_the_search_space(lab: Lab, donor: Saving) -> None:
    path = f"{EXPERIMENT}/trials/{donor.id}/fork"
    made = await lab.client.post(path, json={"parameters": {"x": 50}})
    assert made.status_code == 201, made.text
    assert made.json()["warnings"] == ["x is 50, outside uniform [0, 1]"]
    bare = await lab.client.post(path, json={"parameters": {}})
    assert bare.json()["warnings"] == ["x is missing"]
    refused = await lab.client.post(path, json={"parameters": {"x": "high"}})
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == (
        "parameter x must be a number, not 'high': the search space has uniform [0, 1]; "
        'see the search space: "nnictl config show exp"'
    )


async def test_forks_that_are_not_possible(lab: Lab, donor: Saving) -> None:
    path = f"{EXPERIMENT}/trials"
    other = lab.life.trial(1)
    answers = [
        await lab.client.post(f"{path}/{other}/fork"),
        await lab.client.post(f"{path}/{donor.id}/fork", json={"checkpoint": {"attempt": 1, "number": 9}}),
        await lab.client.post(f"{path}/{donor.id}/fork", json={"checkpoint": {"attempt": 0, "number": 1}}),
        await lab.client.post(f"{path}/zzzzz/fork"),
    ]
    assert [answer.status_code for answer in answers] == [409, 409, 422, 404]
    assert answers[0].json()["error"]["message"] == (
        f"trial 1 ({other}) has saved no checkpoint yet, so no fork can continue from it; a trial saves one "
        "by calling nni.save_checkpoint"
    )
    assert f"trial 0 ({donor.id}) has no checkpoint 9 of attempt 1" in answers[1].text


async def test_legs(lab: Lab, donor: Saving) -> None:
    heir = Saving(life=lab.life, sequence=1)
    state = lab.life.state
    decision = f.Decided(
        trial_id=heir.id,
        kind=f.DecisionKind.EXPLOIT,
        cause=state.number,
        reason="rank 2 of 2",
        parameters='{"x": 0.5}',
        donor=donor.id,
        checkpoint=(1, 1),
    )
    lab.life.take(*recorded_as(state, decision))
    heir.end(None, f.EndReason.STOPPED)
    await lab.runner.commit()
    shown = (await lab.client.get(f"{EXPERIMENT}/trials/{heir.id}")).json()
    (leg,) = shown["legs"]
    assert shown["parameters"] == {"x": 0.5}
    saved = (await lab.client.get(f"{EXPERIMENT}/trials/{donor.id}")).json()["checkpoints"]
    assert leg["savedAt"] == saved[0]["at"]
    assert {**leg, "at": None, "savedAt": None} == {
        "trialId": heir.id,
        "leg": 1,
        "attempt": 2,
        "at": None,
        "parameters": {"x": 0.5},
        "reports": 1,
        "originTrialId": donor.id,
        "originAttempt": 1,
        "originNumber": 1,
        "step": 7,
        "savedAt": None,
        "reason": f"rank 2 of 2; the trial will continue from step 7 of trial {donor.id}",
    }
    lineage = (await lab.client.get(f"{EXPERIMENT}/lineage")).json()
    assert (lineage["legs"], lineage["forks"]) == ([leg], [])
    assert [trial["trialId"] for trial in lineage["trials"]] == [donor.id, heir.id]
    assert shown["firstParameters"] == lineage["trials"][1]["parameters"] != shown["parameters"]


async def test_a_checkpoint_is_pinned_and_listed_as_pinned(lab: Lab, donor: Saving) -> None:
    path = f"{EXPERIMENT}/trials/{donor.id}/checkpoints/1-1/pin"
    for method, pinned in (("POST", True), ("DELETE", False), ("POST", True)):
        answer = await lab.client.request(method, path)
        assert answer.status_code == 202, answer.text
        await lab.runner.commit()
        detail = (await lab.client.get(f"{EXPERIMENT}/trials/{donor.id}")).json()
        assert [each["pinned"] for each in detail["checkpoints"]] == [pinned]
    donor.end(0)
    await lab.runner.commit()
    assert (await lab.client.delete(path)).status_code == 202
    assert (await lab.client.post(path)).status_code == 202
    assert list(lab.life.state.pins) == [donor.id]


@pytest.mark.parametrize(
    ("name", "status", "sentence"),
    [("1-9", 409, "has no checkpoint 9 of attempt 1 any more"), ("0-1", 422, ""), ("x-1", 422, "")],
)
async def test_pins_that_are_not_possible(
    lab: Lab, donor: Saving, name: str, status: int, sentence: str
) -> None:
    answer = await lab.client.post(f"{EXPERIMENT}/trials/{donor.id}/checkpoints/{name}/pin")
    assert answer.status_code == status
    assert sentence in answer.text
    assert (await lab.client.post(f"{EXPERIMENT}/trials/zzzzz/checkpoints/1-1/pin")).status_code == 404


async def test_a_running_trial_is_asked_to_save(lab: Lab, donor: Saving) -> None:
    path = f"{EXPERIMENT}/trials/{donor.id}/save"
    assert (await lab.client.post(path)).status_code == 202
    assert lab.life.state.jobs[donor.job_id].save is not None
    donor.end(0)
    await lab.runner.commit()
    answer = await lab.client.post(path)
    assert answer.status_code == 409 and "has ended already: it is SUCCEEDED" in answer.text
    assert (await lab.client.post(f"{EXPERIMENT}/trials/zzzzz/save")).status_code == 404
