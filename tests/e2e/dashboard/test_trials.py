"""The table of trials: what it shows, its filter, its actions, and that the address says all of it."""

from __future__ import annotations

import asyncio
import csv
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from benchmarks import past
from nnimgr.home import Home
from tests.e2e.dashboard.stage import Stage, stage
from tests.e2e.dashboard.trials import FAILING, TOLD
from tests.e2e.dashboard.view import View, opened


def rows(page: Page) -> Locator:
    """Those of trials that are in view."""
    return page.locator("[role=row][aria-level='1']")


def row(page: Page, sequence: int) -> Locator:
    return rows(page).filter(
        has=page.get_by_role("checkbox", name=f"Select trial No. {sequence}", exact=True)
    )


def act(page: Page, sequence: int, action: str) -> None:
    """From the menu of a row."""
    page.get_by_role("button", name=f"Actions for trial No. {sequence}", exact=True).click()
    page.get_by_role("menuitem", name=action).click()


def test_all_trials_stand_in_the_table(view: View, furnished: Stage) -> None:
    trials = furnished.trials("curves")
    page = view.open("/experiments/curves/trials")
    expect(rows(page)).to_have_count(12)
    expect(row(page, 3)).to_contain_text("SUCCEEDED")
    expect(row(page, 3)).to_contain_text(trials[3]["parameters"]["optimizer"])
    expect(row(page, 3)).to_contain_text("exited with code 0")
    view.accessible()
    row(page, 3).get_by_role("button", name="Details of trial No. 3").click()
    expect(page.get_by_role("region", name="Parameters")).to_contain_text("optimizer")
    expect(page.get_by_text("5 values, from")).to_be_visible()
    view.accessible()
    row(page, 3).get_by_role("link").first.click()
    expect(page).to_have_url(f"{view.url}/experiments/curves/trials/{trials[3]['id']}")


def test_a_click_on_a_head_sorts(view: View, furnished: Stage) -> None:
    trials = sorted(furnished.trials("curves"), key=lambda trial: float(trial["finalValue"]))
    worst, best = (f"Select trial No. {trial['sequence']}" for trial in (trials[0], trials[-1]))
    page = view.open("/experiments/curves/trials")
    head = page.get_by_role("columnheader", name="Result")
    head.get_by_role("button").click()
    expect(rows(page).first.get_by_role("checkbox", name=worst, exact=True)).to_be_visible()
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(rows(page).first.get_by_role("checkbox", name=best, exact=True)).to_be_visible()
    page.reload()
    expect(rows(page).first.get_by_role("checkbox", name=best, exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("filter", "keep"),
    [
        ("optimizer:adam", lambda parameters, trial: parameters["optimizer"] == "adam"),
        ("lr<0.01", lambda parameters, trial: parameters["lr"] < 0.01),
        (
            "layers:[1,2]; parameters.lr>=0.001",
            lambda parameters, trial: parameters["layers"] in (1, 2) and parameters["lr"] >= 0.001,
        ),
        (
            "Trial No.:[2,5];optimizer≠sgd",
            lambda parameters, trial: 2 <= trial["sequence"] <= 5 and parameters["optimizer"] != "sgd",
        ),
        ("Status:[SUCCEEDED,FAILED]", lambda parameters, trial: True),
        ("metrics.seconds>15.5", lambda parameters, trial: trial["sequence"] > 5),
    ],
)
def test_the_filter_understands_its_grammar(view: View, furnished: Stage, filter: str, keep: object) -> None:
    assert callable(keep)
    kept = [trial for trial in furnished.trials("curves") if keep(trial["parameters"], trial)]
    page = view.open(f"/experiments/curves/trials?filter={quote(filter)}")
    if kept:
        expect(row(page, kept[0]["sequence"])).to_be_visible()
    else:
        expect(page.get_by_text("No trial matches.")).to_be_visible()
    expect(rows(page)).to_have_count(len(kept))


def test_a_filter_is_typed_built_refused_and_cleared(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves/trials")
    box = page.get_by_role("combobox", name="Filter")
    box.fill("optimizer:adam")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("filter="))
    adams = sum(trial["parameters"]["optimizer"] == "adam" for trial in furnished.trials("curves"))
    expect(rows(page)).to_have_count(adams)
    page.get_by_role("button", name="Build…").click()
    page.get_by_role("combobox", name="Column").select_option("sequence")
    page.get_by_role("combobox", name="Condition").select_option("is less than")
    page.get_by_role("textbox", name="Value").fill("100")
    view.accessible()
    page.get_by_role("dialog").get_by_role("button", name="Add to the filter").click()
    expect(box).to_have_value(re.compile("adam.*100"))
    expect(rows(page)).to_have_count(adams)
    box.fill("nosuchthing:1")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("nosuchthing")
    page.get_by_role("button", name="Clear the filter").click()
    expect(rows(page)).to_have_count(12)
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("nosuchthing")
    view.forgive("422")


def test_columns_are_chosen_and_kept_in_the_address(view: View) -> None:
    page = view.open("/experiments/curves/trials")
    page.get_by_role("button", name="Columns…").click()
    dialog = page.get_by_role("dialog", name="Columns")
    dialog.get_by_role("button", name="Parameters", exact=True).click()
    view.accessible()
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("columnheader", name="optimizer")).to_be_visible()
    page.reload()
    expect(page.get_by_role("columnheader", name="optimizer")).to_be_visible()


def test_what_matches_is_exported(view: View) -> None:
    page = view.open("/experiments/curves/trials?filter=sequence<4")
    expect(rows(page)).to_have_count(4)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="4 trials that match, as CSV").click()
    lines = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert len(lines) == 4


def test_selected_trials_are_compared(view: View, furnished: Stage) -> None:
    trials = furnished.trials("curves")
    page = view.open("/experiments/curves/trials")
    for sequence in (1, 4):
        row(page, sequence).get_by_role("checkbox").check()
    page.reload()
    expect(page.get_by_text("2 trials selected")).to_be_visible()
    page.get_by_role("region", name="Selection").get_by_text("Compare").click()
    expect(page).to_have_url(re.compile(rf"/compare\?trials={trials[1]['id']}(,|%2C){trials[4]['id']}$"))


def test_trials_are_killed_cloned_and_followed(view: View, furnished: Stage) -> None:
    furnished.create("chores", TOLD, trialConcurrency=2, maxTrialNumber=9)
    page = view.open("/experiments/chores/trials")
    expect(row(page, 0)).to_contain_text("RUNNING")
    furnished.tell("chores", 0, "report 0.125")
    expect(row(page, 0)).to_contain_text("0.125")
    act(page, 1, "Stop…")
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(row(page, 1)).to_contain_text("USER_CANCELED")
    act(page, 0, "Add a trial like this…")
    dialog = page.get_by_role("dialog", name="Add a trial like No. 0")
    dialog.get_by_label("lr").first.fill("0.0625")
    view.accessible()
    dialog.get_by_role("button", name="Add the trial").click()
    expect(page.get_by_text(re.compile(r"Trial No\. \d was added")).first).to_be_visible()
    assert 0.0625 in [(trial["parameters"] or {}).get("lr") for trial in furnished.trials("chores")]


def test_a_failed_trial_is_retried(view: View, furnished: Stage) -> None:
    furnished.create("again", FAILING, maxTrialNumber=9, trialConcurrency=1)
    page = view.open("/experiments/again/trials?status=FAILED")
    expect(row(page, 0)).to_contain_text("FAILED")
    act(page, 0, "Retry…")
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(page.get_by_text(re.compile(r"Trial No\. \d+ was added"))).to_be_visible()
    assert any(trial["retryOf"] for trial in furnished.trials("again"))


def test_the_table_is_used_by_keyboard(view: View) -> None:
    page = view.open("/experiments/curves/trials")
    expect(rows(page)).to_have_count(12)
    rows(page).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(rows(page).nth(1).get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("region", name="Parameters")).to_be_visible()


def test_rows_come_into_view_by_themselves(browser: Browser, tmp_path: Path) -> None:
    """Those above the first one in sight, too, which is the first of what is read at once."""
    with ThreadPoolExecutor() as aside:  # this thread has the browser's loop
        wanted = past.write(Home(tmp_path / "home"), "past", trials=400, metrics=10, seed=1)
        aside.submit(asyncio.run, wanted).result()
    with stage(tmp_path) as made, opened(browser, made.url) as view:
        view.page.goto(made.sign_in())
        expect(view.heading("Experiments")).to_be_visible()  # before that it is not signed in
        page = view.open("/experiments/past/trials?sort=sequence")
        expect(row(page, 0)).to_be_visible()
        held: list[Route] = []
        page.route(re.compile(r"/trials\?.*offset=(150|250)&"), lambda route: held.append(route))
        row_height = page.locator(".trial-row").first.evaluate("(one) => one.offsetHeight")
        page.get_by_role("treegrid").evaluate("(one, to) => { one.scrollTop = to; }", 200 * row_height)
        expect(row(page, 200)).to_be_visible()
        expect(page.locator(".trial-row.missing")).not_to_have_count(0)
        while len(held) < 2:
            page.wait_for_event("request", lambda request: "offset=" in request.url)
        for route in held:
            route.continue_()
        expect(page.locator(".trial-row.missing")).to_have_count(0)
