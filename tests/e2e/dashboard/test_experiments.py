"""The list of all experiments: what it shows, narrows down, and does to one or to many."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.trials import CURVE, TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def pick(page: Page, name: str, action: str) -> None:
    """From the menu of an experiment's row."""
    page.get_by_role("button", name=f"Actions on {name}").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def test_the_list_tells_of_each(view: View) -> None:
    page = view.open("/")
    curves = row(page, "learning curves")
    expect(curves).to_contain_text("DONE")
    expect(curves).to_contain_text("12 / 12")
    expect(curves).to_contain_text("local")
    expect(
        curves.get_by_role("img", name="Best value of learning curves over its 12 results")
    ).to_be_visible()
    expect(row(page, "told")).to_contain_text("RUNNING")
    expect(row(page, "stopped")).to_contain_text("STOPPED")
    view.accessible()
    curves.get_by_role("link", name="learning curves").click()
    expect(page).to_have_url(f"{view.url}/experiments/curves")


def test_what_narrows_the_list_is_in_the_address(view: View) -> None:
    page = view.open("/?status=DONE&sort=name&order=desc")
    expect(row(page, "failures")).to_be_visible()
    expect(row(page, "told")).to_have_count(0)
    page.get_by_role("button", name="Clear the filters").click()
    expect(row(page, "told")).to_be_visible()
    page.get_by_role("searchbox", name="Search").fill("curv")
    expect(row(page, "told")).to_have_count(0)
    expect(page.get_by_text("1 of ")).to_be_visible()
    page.reload()
    expect(row(page, "learning curves")).to_be_visible()
    expect(row(page, "told")).to_have_count(0)
    page.get_by_role("searchbox", name="Search").fill("nothing is called so")
    expect(page.get_by_text("No experiment matches these filters.")).to_be_visible()


def test_tags_are_edited_in_place(view: View, furnished: Stage) -> None:
    page = view.open("/")
    page.get_by_role("button", name="Edit the tags of failures").click()
    page.get_by_label("Tags of failures").fill("first, second")
    page.keyboard.press("Enter")
    expect(row(page, "failures")).to_contain_text("second")
    eventually(
        lambda: (
            {"first", "second"} in [set(each["tags"]) for each in furnished.ask("GET", "")["experiments"]]
        ),
        "the tags on the server",
    )
    page.goto(f"{view.url}/?tag=second")
    expect(row(page, "failures")).to_be_visible()
    expect(row(page, "told")).to_have_count(0)


def test_many_are_stopped_archived_exported_and_deleted(view: View, furnished: Stage) -> None:
    for name in ("one", "two"):
        furnished.create(name, TOLD, trialConcurrency=1, experimentName=f"many {name}")
    page = view.open("/?search=many")
    page.get_by_role("checkbox", name="Select all that are shown").check()

    def act(action: str, said: str) -> None:
        bar = page.get_by_role("group", name="What to do with the selected experiments")
        bar.get_by_role("button", name=action, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=f"{action} 2 experiments").click()
        expect(page.get_by_text(said)).to_be_visible()

    act("Stop", "2 experiments stopped.")
    for name in ("one", "two"):
        assert furnished.profile(name)["status"] == "STOPPED"
    page.get_by_role("checkbox", name="Select all that are shown").check()
    with page.expect_download() as download:
        act("Export", "2 experiments exported.")
    assert "one" in Path(download.value.path()).read_text()
    page.get_by_role("checkbox", name="Select all that are shown").check()
    act("Archive", "2 experiments archived.")
    expect(row(page, "many one")).to_have_count(0)
    page.goto(f"{view.url}/?search=many&archived=only")
    page.get_by_role("checkbox", name="Select all that are shown").check()
    act("Delete", "2 experiments deleted.")
    expect(row(page, "many one")).to_have_count(0)
    ids = {each["id"] for each in furnished.ask("GET", "")["experiments"]}
    assert not ids & {"one", "two"}


def test_one_that_is_done_is_deleted_from_its_row(view: View, furnished: Stage) -> None:
    furnished.create("finished", CURVE, maxTrialNumber=1)
    page = view.open("/?search=finished")
    expect(row(page, "finished")).to_contain_text("DONE")
    pick(page, "finished", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete 1 experiment").click()
    expect(page.get_by_text("1 experiment deleted.")).to_be_visible()
    assert "finished" not in {each["id"] for each in furnished.ask("GET", "")["experiments"]}


def test_one_is_stopped_resumed_and_deleted_from_its_row(view: View, furnished: Stage) -> None:
    furnished.create("single", TOLD, trialConcurrency=1)
    page = view.open("/")
    pick(page, "single", "Stop")
    page.get_by_role("radio", name="Let running trials save their state first").check()
    page.get_by_role("button", name="Stop 1 experiment").click()
    expect(page.get_by_text("single: one trial had saved nothing and was canceled.")).to_be_visible()
    expect(row(page, "single")).to_contain_text("STOPPED")
    pick(page, "single", "Resume")
    expect(row(page, "single")).to_contain_text("RUNNING")
    furnished.ask("POST", "/single/stop")
    expect(row(page, "single")).to_contain_text("STOPPED")
    pick(page, "single", "Clone")
    expect(page).to_have_url(f"{view.url}/new?clone=single")
    page.go_back()
    pick(page, "single", "Delete")
    page.get_by_role("button", name="Delete 1 experiment").click()
    expect(row(page, "single")).to_have_count(0)


def test_experiments_appear_and_change_by_themselves(view: View, furnished: Stage) -> None:
    page = view.open("/")
    expect(row(page, "told")).to_be_visible()
    furnished.create("fresh", CURVE, maxTrialNumber=2)
    expect(row(page, "fresh")).to_be_visible()
    expect(row(page, "fresh")).to_contain_text("DONE")
    expect(row(page, "fresh")).to_contain_text("2 / 2")


def test_experiments_are_compared_by_their_best_results(view: View) -> None:
    page = view.open("/")
    for name in ("curves", "failures"):
        page.get_by_role("row").filter(has=page.get_by_text(name, exact=True)).get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/compare\?ids="))
    expect(page.get_by_role("heading", name="Best result so far")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("row", name="learning curves curves")).to_contain_text("12")
    page.get_by_role("combobox").select_option("time")
    expect(page).to_have_url(re.compile("over=time"))
    view.accessible()
