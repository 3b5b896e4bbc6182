"""Trials that continue from checkpoints of others: by a scheduler, as the next leg, or as a user's fork."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.stage import Stage, population
from tests.e2e.dashboard.test_searches import pick
from tests.e2e.dashboard.trials import TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually


def legs_of_one(furnished: Stage) -> list[dict[str, Any]]:
    """The legs of a trial of the population that has some."""
    legs = furnished.ask("GET", "/population/lineage")["legs"]
    return [leg for leg in legs if leg["trialId"] == legs[0]["trialId"]]


def test_the_legs_of_a_trial_are_listed_and_in_its_curve(view: View, furnished: Stage) -> None:
    leg, *more = legs_of_one(furnished)
    page = view.open(f"/experiments/population/trials/{leg['trialId']}")
    table = page.get_by_role("region", name="Legs of the trial, the newest first")
    expect(table.locator("tbody tr")).to_have_count(1 + len(more))
    row = table.locator("tbody tr").last
    expect(row).to_contain_text(f"step {leg['step']} of trial {leg['originTrialId']}")
    expect(row).to_contain_text(re.compile("lr .+ → .+"))
    expect(row).to_contain_text(leg["reason"])
    curve = page.get_by_role("img", name=re.compile("^Intermediate results"))
    expect(curve).to_have_accessible_name(re.compile("Legs: leg \\d from step \\d"))
    view.accessible()
    row.get_by_role("link", name=leg["originTrialId"]).click()
    expect(page).to_have_url(re.compile(f"/trials/{leg['originTrialId']}$"))


def test_a_leg_is_named_below_the_pointer(view: View, furnished: Stage) -> None:
    leg = legs_of_one(furnished)[-1]
    page = view.open(f"/experiments/population/trials/{leg['trialId']}")
    curve = page.get_by_role("img", name=re.compile("^Intermediate results"))
    expect(curve.locator("canvas")).to_be_visible()
    box = curve.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.94 * box["width"], box["y"] + box["height"] / 2)
    expect(page.locator(".tip:visible")).to_contain_text(re.compile(f"Leg {leg['leg']}.*lr", re.DOTALL))


def test_the_lineage_of_a_population(view: View, furnished: Stage) -> None:
    leg = legs_of_one(furnished)[0]
    page = view.open("/experiments/population/analysis?tab=lineage")
    expect(page.get_by_text(re.compile("trials; \\d times? one continued from a checkpoint"))).to_be_visible()
    expect(page.get_by_label("Colour")).to_have_value("lr")
    view.accessible()
    page.get_by_role("button", name="Data of Lineage").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    (found,) = [row for row in rows if row["why"] == leg["reason"]]
    assert found["continues from"].startswith(f"step {leg['step']} of trial ")
    lineage = page.get_by_role("img", name=re.compile("^Lineage"))
    # The axis is time: the second legs are on the right, but not always at one place.
    pick(page, lineage, "Continues from\nstep", 0.85, 0.9, 0.8, 0.7, 0.95, 0.6)
    expect(page).to_have_url(re.compile("/trials/"))


def test_an_experiment_without_a_lineage_says_so(view: View) -> None:
    page = view.open("/experiments/curves/analysis?tab=lineage")
    expect(page.get_by_text("No trial has continued from a checkpoint of another trial")).to_be_visible()


def fork(page: Page, button: str, where: str) -> None:
    """Fork the trial of the page, with another lr."""
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog", name="Fork trial No. 0")
    expect(dialog).to_contain_text(f"It continues from {where}.")
    dialog.get_by_label("lr").fill("0.0125")
    dialog.get_by_role("button", name=re.compile("^Add the trial")).click()
    expect(dialog.get_by_text(re.compile("was added"))).to_be_visible()


def test_a_trial_is_forked_from_a_checkpoint(view: View, furnished: Stage) -> None:
    one = {"combine_params": {"_type": "choice", "_value": [{"lr": 0.1}]}}
    furnished.create("forked", TOLD, space=one, tuner={"name": "BatchTuner"}, trialConcurrency=3)
    furnished.tell("forked", 0, "save 0.5", "save 0.75")
    trial = furnished.trials("forked")[0]["id"]
    page = view.open(f"/experiments/forked/trials/{trial}")
    fork(page, "Fork…", "the newest checkpoint, which is step 2 at present")
    view.accessible()
    page.keyboard.press("Escape")
    fork(page, "Fork the trial from step 1", "step 1")
    page.get_by_role("link", name="Show it").click()
    expect(page.get_by_text(f"from a checkpoint of trial {trial}")).to_be_visible()
    forks = furnished.ask("GET", "/forked/lineage")["forks"]
    assert [each["step"] for each in forks] == [2, 1]
    assert {each["parameters"]["lr"] for each in furnished.trials("forked")[1:]} == {0.0125}
    for sequence in (1, 2):
        furnished.tell("forked", sequence, "say started")
    page = view.open("/experiments/forked/analysis?tab=lineage")
    expect(page.get_by_text("3 trials; 2 forks.")).to_be_visible()


def test_a_pause_by_the_scheduler_says_why(view: View, furnished: Stage) -> None:
    furnished.create("awaited", TOLD, **population(2, interval=1))
    furnished.tell("awaited", 1, "say waiting")
    furnished.tell("awaited", 0, "save 0.5")
    eventually(lambda: furnished.trials("awaited")[0]["status"] == "PAUSED", "the pause")
    reason = furnished.trials("awaited")[0]["reason"]
    assert "the scheduler paused it: report 1: 1 of 2 trials" in reason
    page = view.open("/experiments/awaited")
    expect(page.get_by_text("1 trial is paused by the scheduler")).to_be_visible()
    page = view.open("/experiments/awaited/trials?statuses=PAUSED")
    expect(page.get_by_role("row", name=re.compile("PAUSED")).get_by_title(reason).first).to_be_visible()
    page = view.open(f"/experiments/awaited/trials/{furnished.trials('awaited')[0]['id']}")
    expect(page.get_by_text(reason)).to_be_visible()
    view.accessible()
