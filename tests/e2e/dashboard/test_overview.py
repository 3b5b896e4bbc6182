"""The overview of an experiment, as it runs and when it has ended."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.trials import CURVE, TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually


def test_what_came_of_it(view: View, furnished: Stage) -> None:
    best = furnished.profile("curves")["bestTrial"]
    page = view.open("/experiments/curves")
    card = page.get_by_role("region", name="Best trial")
    expect(card).to_contain_text(best["trialId"])
    expect(card.get_by_role("row", name="optimizer")).to_contain_text(best["parameters"]["optimizer"])
    expect(page.get_by_role("region", name="Best so far")).to_contain_text("12 results")
    expect(page.get_by_role("region", name="Top trials").get_by_role("row")).to_have_count(11)
    expect(page.get_by_role("list", name="Trials per status")).to_contain_text("SUCCEEDED")
    view.accessible()
    page.get_by_role("link", name="Show the 12 trials that are SUCCEEDED").click()
    expect(page).to_have_url(f"{view.url}/experiments/curves/trials?status=SUCCEEDED")


def test_the_best_parameters_are_copied_in_every_form(view: View, furnished: Stage) -> None:
    parameters = furnished.profile("curves")["bestTrial"]["parameters"]
    page = view.open("/experiments/curves")
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = {}
    for form in ("YAML", "Python", "Command line", "JSON"):
        group = page.get_by_role("group", name="Copy as")
        group.get_by_role("button", name=form, exact=True).click()
        expect(group.get_by_role("button", name="Copied")).to_be_visible()
        copied[form] = page.evaluate("navigator.clipboard.readText()")
        expect(group.get_by_role("button", name="Copied")).to_have_count(0)
    assert json.loads(copied["JSON"]) == parameters
    assert f"optimizer: {parameters['optimizer']}" in copied["YAML"].replace('"', "")
    assert f"--optimizer {parameters['optimizer']}" in copied["Command line"].replace("=", " ")
    assert eval(copied["Python"]) == parameters  # a literal that is ours


def test_limits_are_changed_where_they_stand(view: View, furnished: Stage) -> None:
    furnished.create("limits", TOLD, trialConcurrency=1, maxTrialNumber=5)
    page = view.open("/experiments/limits")
    page.get_by_role("button", name="Change: Slots").click()
    field = page.get_by_role("textbox", name="Slots")
    field.fill("none")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("A whole number above 0 is needed.")
    field.fill("2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Slots is 2 now.").first).to_be_visible()
    page.get_by_role("button", name="Change: Max trial number").click()
    page.get_by_role("textbox", name="Max trial number").fill("7")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Max trial number is 7 now.").first).to_be_visible()
    page.get_by_role("button", name="Change: Max duration").click()
    page.get_by_role("textbox", name="Max duration").fill("90")
    page.get_by_role("combobox", name="Unit").select_option("minutes")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Max duration is 90 minutes now.").first).to_be_visible()
    limits = furnished.profile("limits")["limits"]
    assert (limits["trialConcurrency"], limits["maxTrialNumber"], limits["maxExperimentDurationS"]) == (
        2,
        7,
        5400,
    )
    page.get_by_role("button", name="Change: Max duration").click()
    page.get_by_role("button", name="No limit").click()
    eventually(
        lambda: furnished.profile("limits")["limits"]["maxExperimentDurationS"] is None, "no limit of time"
    )


def test_it_is_stopped_resumed_archived_and_deleted(view: View, furnished: Stage) -> None:
    furnished.create("brief", TOLD, trialConcurrency=1)
    page = view.open("/experiments/brief")
    page.get_by_role("button", name="Stop…").click()
    view.accessible()
    page.get_by_role("radio", name="Let its trials save their state first").check()
    page.get_by_role("dialog").get_by_role("button", name="Stop the experiment").click()
    expect(page.get_by_text("One trial had saved nothing and was canceled.")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The experiment continues.")).to_be_visible()
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop the experiment").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(page.get_by_text("The experiment is in the archive.")).to_be_visible()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page).to_have_url(f"{view.url}/")
    assert "brief" not in [each["id"] for each in furnished.ask("GET", "")["experiments"]]
    view.forgive("404")


def test_a_page_says_that_its_experiment_was_deleted(view: View, furnished: Stage) -> None:
    furnished.create("leaving", CURVE, maxTrialNumber=1)
    page = view.open("/experiments/leaving")
    expect(page.get_by_text("DONE", exact=True).first).to_be_visible(timeout=30_000)
    furnished.ask("POST", "/leaving/stop", {})
    furnished.ask("DELETE", "/leaving")
    expect(page.get_by_text("there is no experiment leaving")).to_be_visible()
    expect(page.get_by_role("link", name="All experiments")).to_be_visible()
    view.forgive("404")


def test_failures_are_told(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/failures")
    feed = page.get_by_role("region", name="What has happened")
    feed.get_by_role("combobox", name="Show").select_option("errors")
    expect(feed.get_by_role("listitem")).to_have_count(2)
    feed.get_by_role("link").first.click()
    failed = [trial["id"] for trial in furnished.trials("failures") if trial["status"] == "FAILED"]
    expect(page).to_have_url(re.compile(f"/experiments/failures/trials/({'|'.join(failed)})$"))


def test_results_configuration_and_logs_are_read_and_taken_away(view: View) -> None:
    page = view.open("/experiments/curves")
    page.get_by_role("button", name="More actions").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Results as CSV").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 13
    files = page.get_by_role("region", name="Configuration and logs")
    expect(files).to_contain_text("maxTrialNumber: 12")
    files.get_by_role("tab", name="Search space").click()
    expect(files).to_contain_text("loguniform")
    files.get_by_role("tab", name="Logs").click()
    expect(files.get_by_role("combobox", name="Log")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/experiments/curves/?\?show=logs$"))
    view.accessible()


def test_it_follows_what_happens(view: View, furnished: Stage) -> None:
    furnished.create("moving", TOLD, trialConcurrency=1, maxTrialNumber=2)
    page = view.open("/experiments/moving")
    expect(page.get_by_role("region", name="Best trial")).to_contain_text("No trial has succeeded")
    furnished.tell("moving", 0, "report 0.5", "final 0.75")
    expect(page.get_by_role("region", name="Best trial")).to_contain_text("0.75")
    furnished.tell("moving", 1, "final 0.875")
    expect(page.get_by_role("region", name="Best trial")).to_contain_text("0.875")
    expect(page.get_by_role("main").get_by_text("DONE").first).to_be_visible()


def test_the_last_failure_is_named_with_its_cause(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/failures")
    card = page.get_by_role("region", name="Needs attention")
    last = max(
        (trial for trial in furnished.trials("failures") if trial["status"] == "FAILED"),
        key=lambda trial: trial["sequence"],
    )
    sentence = f"Trial #{last['sequence']} failed: {last['reason']}"
    card.get_by_role("link", name=sentence).click()
    expect(page).to_have_url(f"{view.url}/experiments/failures/trials/{last['id']}")


def test_the_feed_has_one_line_per_trial(view: View) -> None:
    page = view.open("/experiments/curves")
    feed = page.get_by_role("region", name="What has happened")
    first = feed.get_by_role("listitem").filter(has_text="Trial #0 (")
    expect(first).to_have_count(1)
    first.get_by_role("button", name=re.compile("earlier event")).click()
    expect(feed.get_by_role("listitem").filter(has_text="Trial #0 (").nth(1)).to_be_visible()
    assert first.count() > 1


def test_an_unfinished_experiment_shows_its_pace(view: View, furnished: Stage) -> None:
    furnished.create("paced", TOLD, trialConcurrency=1, maxTrialNumber=20)
    page = view.open("/experiments/paced")
    progress = page.get_by_role("region", name="Progress")
    expect(progress).to_contain_text("too few trials")
    for number in range(5):
        furnished.tell("paced", number, f"final 0.{number}")
    expect(progress).to_contain_text("trials a minute now; all trials will have finished in about")
    expect(progress).to_contain_text("5 of 20 trials finished")
