"""Confirmed trials over REST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnimgr.rules import facts as f
from tests.api.lab import EXPERIMENT, Lab

RULE = {"top": 2, "runs": 2}


async def profile(lab: Lab) -> Any:
    await lab.runner.commit()
    return (await lab.client.get(EXPERIMENT)).json()


def run(lab: Lab, sequence: int, value: float) -> None:
    if lab.life.state.trials[lab.life.trial(sequence)].status is not f.TrialStatus.RUNNING:
        lab.life.start(sequence)
    lab.life.metric(sequence, 0, value, "FINAL")
    lab.life.end(sequence)


async def test_the_profile_has_the_confirmed_trials(lab: Lab) -> None:
    life = lab.life
    assert (await profile(lab))["confirmations"] is None
    rule = f.ConfirmBest(top=2, runs=2)
    limits = replace(life.state.limits, max_trial_number=2, trial_concurrency=1, confirm_best=rule)
    life.take(f.ConfigChanged(changes={"confirmBest": RULE}, limits=limits))
    assert (await profile(lab))["confirmations"] == {**RULE, "made": 0, "open": 0, "trials": []}
    run(lab, 0, 0.5)
    run(lab, 1, 0.4)
    run(lab, 2, 0.6)  # all trials have the same parameters, so only the best is confirmed
    found = (await profile(lab))["confirmations"]
    assert {**found, "trials": ()} == {**RULE, "made": 2, "open": 1, "trials": ()}
    (trial,) = found["trials"]
    assert trial == {
        "trialId": life.trial(1),
        "sequence": 1,
        "parameters": {"x": 1},
        "value": 0.4,
        "usable": 1,
        "unusable": 0,
        "open": 1,
        "mean": 0.6,
        "deviation": None,
        "low": None,
        "high": None,
    }
    life.start(3)
    life.end(3, 1)
    shown = await profile(lab)
    assert shown["status"] == "DONE" and shown["bestTrial"]["value"] == 0.4
    assert (shown["confirmations"]["trials"][0]["unusable"], shown["confirmations"]["open"]) == (1, 0)


async def test_a_confirmation_is_not_retried(lab: Lab) -> None:
    await test_the_profile_has_the_confirmed_trials(lab)
    run_id = lab.life.trial(3)
    answer = await lab.client.post(f"{EXPERIMENT}/rerun", json={"trialIds": [run_id]})
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == (
        f"Trial 3 ({run_id}) only confirms trial 1 ({lab.life.trial(1)}), and is not retried by hand."
    )
    feed = (await lab.client.get(f"{EXPERIMENT}/feed")).json()
    assert any("with seed 2, to confirm its result" in entry["sentence"] for entry in feed["entries"])
