"""Notes and tags of trials, saved views, and what the table says when the pointer rests on a trial."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.test_trials import act, row, rows
from tests.e2e.dashboard.trials import TOLD
from tests.e2e.dashboard.view import View, opened

NARROW = {"width": 390, "height": 844}


def annotate(furnished: Stage, id: str, sequence: int, **changes: object) -> str:
    """Change the annotation of a trial over REST. Return the trial's id."""
    trial = str(furnished.trials(id)[sequence]["id"])
    furnished.ask("PATCH", f"/{id}/trials/{trial}/annotation", changes)
    return trial


def does_not_scroll_sideways(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_note_and_tags_are_written_on_the_page_of_a_trial(view: View, furnished: Stage) -> None:
    trial = furnished.trials("stopped")[0]["id"]
    page = view.open(f"/experiments/stopped/trials/{trial}")
    card = page.get_by_role("region", name="Note and tags")
    expect(card).to_contain_text("No note yet.")
    card.get_by_role("button", name="Edit").click()
    card.get_by_role("textbox", name="Note").fill("the first line\n<b>the second</b>")
    tags = card.get_by_role("combobox", name="Add a tag")
    tags.fill("baseline")
    tags.press("Enter")
    tags.type("slow run,wrong,")
    card.get_by_role("button", name="Remove the tag wrong").click()
    view.accessible()
    tags.fill("x" * 41)
    expect(card.get_by_role("alert")).to_contain_text("at most 40 characters")
    tags.fill("")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_text("the first line\n<b>the second</b>")).to_be_visible()
    expect(card.get_by_role("group", name="Tags")).to_have_text("baselineslow run")
    view.accessible()
    page.reload()
    expect(card.get_by_role("group", name="Tags")).to_have_text("baselineslow run")
    stored = furnished.ask("GET", f"/stopped/trials/{trial}")
    assert (stored["userNote"], stored["tags"]) == (
        "the first line\n<b>the second</b>",
        ["baseline", "slow run"],
    )
    card.get_by_role("button", name="Edit").click()
    card.get_by_role("textbox", name="Note").fill("")
    card.get_by_role("button", name="Cancel").click()
    expect(card).to_contain_text("the first line")


def test_an_open_page_follows_what_others_write(view: View, furnished: Stage) -> None:
    furnished.create("annotated", TOLD, trialConcurrency=1, maxTrialNumber=1)
    furnished.tell("annotated", 0, "report 0.5")
    trial = furnished.trials("annotated")[0]["id"]
    page = view.open(f"/experiments/annotated/trials/{trial}")
    card = page.get_by_role("region", name="Note and tags")
    expect(card).to_contain_text("No tags yet.")
    annotate(furnished, "annotated", 0, note="from elsewhere", tags=["seen"])
    expect(card).to_contain_text("from elsewhere")
    expect(card).to_contain_text("seen")


def test_the_table_shows_filters_and_searches_notes_and_tags(view: View, furnished: Stage) -> None:
    annotate(furnished, "failures", 0, note="a very odd loss", tags=["odd", "baseline"])
    annotate(furnished, "failures", 2, tags=["baseline"])
    page = view.open("/experiments/failures/trials")
    expect(page.get_by_role("columnheader", name="Tags")).to_be_visible()
    expect(row(page, 0)).to_contain_text("oddbaseline")
    page.get_by_role("searchbox", name="Search by").fill("odd loss")
    expect(rows(page)).to_have_count(1)
    expect(row(page, 0)).to_be_visible()
    page.get_by_role("searchbox", name="Search by").fill("")
    box = page.get_by_role("combobox", name="Filter")
    box.fill("tags:")
    page.get_by_role("option", name="baseline").click()
    page.get_by_role("button", name="Apply").click()
    expect(rows(page)).to_have_count(2)
    annotate(furnished, "failures", 3, tags=["baseline"])
    expect(rows(page)).to_have_count(3)
    view.open("/experiments/failures/trials?columns=sequence,userNote,tags")
    expect(row(page, 0)).to_contain_text("a very odd loss")
    view.accessible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
        page.get_by_role("menuitem", name="as CSV").click()
    assert 'a very odd loss,"odd,baseline"' in download.value.path().read_text()


def test_the_selected_trials_are_tagged_at_once(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves/trials?filter=sequence<4")
    for sequence in (1, 3):
        row(page, sequence).get_by_role("checkbox").check()
    bar = page.get_by_role("region", name="Selection")
    bar.get_by_role("button", name="Tag…").click()
    dialog = page.get_by_role("dialog", name="Tags of 2 trials")
    dialog.get_by_role("combobox", name="Add a tag").fill("kept")
    page.keyboard.press("Enter")
    view.accessible()
    dialog.get_by_role("button", name="Change the tags").click()
    expect(page.get_by_text("The tags of 2 trials were changed.")).to_be_visible()
    expect(row(page, 1)).to_contain_text("kept")
    expect(row(page, 2)).not_to_contain_text("kept")
    page.get_by_role("checkbox", name="Select all that match").check()
    bar.get_by_role("button", name="Tag…").click()
    dialog = page.get_by_role("dialog", name="Tags of 4 trials")
    dialog.get_by_role("combobox", name="Add a tag").fill("first four")
    page.keyboard.press("Enter")
    dialog.get_by_role("group", name="Remove").get_by_role("button", name="kept").click()
    dialog.get_by_role("button", name="Change the tags").click()
    for sequence in range(4):
        expect(row(page, sequence)).to_contain_text("first four")
    expect(row(page, 1)).not_to_contain_text("kept")
    assert [trial["tags"] for trial in furnished.trials("curves")] == [["first four"]] * 4 + [[]] * 8
    act(page, 2, "Tags…")
    expect(page.get_by_role("dialog", name="Tags of 1 trial")).to_be_visible()


def test_views_are_saved_picked_renamed_and_deleted(
    view: View, furnished: Stage, browser: Browser, signed_in: StorageState
) -> None:
    page = view.open("/experiments/curves/trials?columns=sequence,value&filter=layers:2&sort=-value")
    two = [trial for trial in furnished.trials("curves") if trial["parameters"]["layers"] == 2]
    expect(rows(page)).to_have_count(len(two))
    views = page.get_by_role("button", name="Views", exact=True)
    views.click()
    page.get_by_role("menuitem", name="Save this view…").click()
    dialog = page.get_by_role("dialog", name="Save this view")
    dialog.get_by_role("textbox", name="Name").fill("two layers")
    view.accessible()
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text('The view "two layers" was saved.')).to_be_visible()
    with opened(browser, furnished.url, storage_state=signed_in) as other:
        elsewhere = other.open("/experiments/curves/trials")
        elsewhere.get_by_role("button", name="Views", exact=True).click()
        elsewhere.get_by_role("menuitem", name="two layers").click()
        expect(elsewhere).to_have_url(re.compile(r"filter=layers%3A2&sort=-value&columns=sequence%2Cvalue"))
        expect(rows(elsewhere)).to_have_count(len(two))
        elsewhere.go_back()
        expect(elsewhere).to_have_url(re.compile(r"/trials$"))
    views.click()
    page.get_by_role("menuitem", name="Manage views…").click()
    manage = page.get_by_role("dialog", name="Saved views")
    expect(manage).to_contain_text("layers:2, by value, largest first")
    view.accessible()
    manage.get_by_role("textbox", name="Name of the view two layers").fill("deep")
    manage.get_by_role("button", name="Rename").click()
    expect(manage.get_by_role("button", name="Delete the view deep")).to_be_visible()
    manage.get_by_role("button", name="Delete the view deep").click()
    expect(manage).to_contain_text("No view has been saved yet.")
    assert furnished.ask("GET", "/curves/views") == {"views": []}


def test_the_pointer_shows_number_result_and_parameters(view: View, furnished: Stage) -> None:
    trial = furnished.trials("curves")[5]
    page = view.open("/experiments/curves/trials")
    title = row(page, 5).get_by_role("link").first.get_attribute("title")
    assert title is not None
    number, result, *parameters = title.split("\n")
    assert number == "Trial No. 5, SUCCEEDED"
    assert result.startswith("Result: ")
    assert sorted(line.split(" = ")[0] for line in parameters) == sorted(trial["parameters"])
    assert f"optimizer = {trial['parameters']['optimizer']}" in parameters
    row(page, 5).get_by_role("button", name="Details of trial No. 5").click()
    expect(page.locator(".curve-line > title")).to_have_text(title)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_has_room_for_all_of_it(view: View, furnished: Stage, scheme: str) -> None:
    trial = annotate(furnished, "stopped", 0, note="word" * 40, tags=["x" * 40, "a tag", "y" * 40])
    page = view.page
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    view.open(f"/experiments/stopped/trials/{trial}")
    card = page.get_by_role("region", name="Note and tags")
    expect(card).to_contain_text("a tag")
    does_not_scroll_sideways(page)
    card.get_by_role("button", name="Edit").click()
    expect(card.get_by_role("combobox", name="Add a tag")).to_be_visible()
    does_not_scroll_sideways(page)
    view.open("/experiments/stopped/trials?selected=all&dialog=tag")
    expect(page.get_by_role("dialog", name=re.compile("^Tags of"))).to_be_visible()
    does_not_scroll_sideways(page)
    view.open("/experiments/stopped/trials?dialog=save-view")
    expect(page.get_by_role("dialog", name="Save this view")).to_be_visible()
    does_not_scroll_sideways(page)
