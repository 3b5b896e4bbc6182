"""Changes of a running experiment: its search space, its tuner, results of others, and lost trials."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.trials import TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually


def chosen(page: Page, item: str) -> Locator:
    """Choose an item of the experiment's menu. Return the dialog that opens."""
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=item).click()
    return page.get_by_role("dialog")


def test_search_space_and_constraints_are_edited(view: View, furnished: Stage) -> None:
    furnished.create("edited", TOLD, trialConcurrency=1, maxTrialNumber=5)
    page = view.open("/experiments/edited")
    dialog = chosen(page, "Edit search space")
    space = dialog.get_by_role("textbox", name="Search space", exact=True)
    rules = dialog.get_by_role("textbox", name="Constraints")
    expect(space).to_have_value(
        '{\n  "lr": {"_type": "loguniform", "_value": [0.0001, 0.1]},\n'
        '  "layers": {"_type": "choice", "_value": [1, 2, 4]},\n'
        '  "optimizer": {"_type": "choice", "_value": ["adam", "sgd"]}\n}\n'
    )
    apply = dialog.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()
    expect(apply).to_have_attribute("title", "Nothing was changed yet.")
    space.fill("a: {_type: randint, _value: [0, 9]}\nb:\n  _type: choice\n  _value: []\n")
    apply.click()
    found = dialog.get_by_role("region", name="Search space").get_by_role("alert")
    expect(found).to_contain_text("Line 4")
    view.accessible()
    found.get_by_role("button", name="Go to line 4").click()
    expect(space).to_be_focused()
    space.fill("a: {_type: randint, _value: [0, 9]}\nb: {_type: randint, _value: [0, 9]}\n")
    expect(found).to_have_count(0)
    rules.fill("- a < b\n- a < c\n")
    rules.press("Control+Enter")
    found = dialog.get_by_role("region", name="Constraints").get_by_role("alert")
    expect(found).to_contain_text("Line 2")
    assert list(furnished.profile("edited")["searchSpace"]) == ["lr", "layers", "optimizer"]
    rules.fill("- a < b\n")
    page.keyboard.press("Escape")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(rules).to_have_value("- a < b\n")
    apply.click()
    expect(page.get_by_text("The search space was changed.").first).to_be_visible()
    expect(dialog).to_have_count(0)
    profile = furnished.profile("edited")
    assert profile["searchSpace"]["b"] == {"_type": "randint", "_value": [0, 9]}
    assert profile["config"]["searchSpaceConstraints"] == ["a < b"]


def test_the_tuner_is_replaced(view: View, furnished: Stage) -> None:
    furnished.create("retuned", TOLD, trialConcurrency=1, maxTrialNumber=5)
    page = view.open("/experiments/retuned")
    dialog = chosen(page, "Replace tuner")
    text = dialog.get_by_role("textbox", name="Tuner")
    assert json.loads(text.input_value())["name"] == "Random"
    text.fill("tuner:\n  name: TPE\n  classArgs:\n    seed: never\n")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Line 4")
    text.fill("name: Nobody\n")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("there is no built-in tuner 'Nobody'")
    text.fill("name: TPE\n")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("The tuner was replaced.").first).to_be_visible()
    expect(page.get_by_role("region", name="About")).to_contain_text("TPE")
    assert furnished.profile("retuned")["config"]["tuner"]["name"] == "TPE"


def test_results_are_imported_from_a_file_or_a_text(view: View, furnished: Stage, tmp_path: Path) -> None:
    furnished.create("importing", TOLD, trialConcurrency=1, maxTrialNumber=5)
    page = view.open("/experiments/importing")
    dialog = chosen(page, "Import results")
    expect(dialog.get_by_text("The tuner Random learns nothing from results")).to_be_visible()
    button = dialog.get_by_role("button", name="Import")
    expect(button).to_have_attribute("title", "Choose a file, or paste the results.")
    dialog.get_by_role("textbox", name="Results").fill('[{"parameter": {"lr": 0.01}}]')
    expect(dialog.get_by_text("Result 1 has no “value”.")).to_be_visible()
    expect(button).to_be_disabled()
    view.accessible()
    result = {"parameter": {"lr": 0.01, "layers": 1, "optimizer": "adam"}, "value": 0.5}
    file = tmp_path / "results.json"
    file.write_text(json.dumps([result, result]))
    dialog.get_by_label("From a file").set_input_files(file)
    expect(dialog.get_by_text("2 results can be imported.")).to_be_visible()
    button.click()
    expect(page.get_by_text("2 results were given to the tuner.").first).to_be_visible()


def test_what_cannot_be_changed_says_why(view: View) -> None:
    page = view.open("/experiments/stopped")
    page.get_by_role("button", name="More actions").click()
    for item in ("Edit search space", "Replace tuner", "Import results"):
        entry = page.get_by_role("menuitem", name=item)
        expect(entry).to_be_disabled()
        expect(entry).to_contain_text("This server does not run the experiment; resume it to change this.")


def test_a_trial_of_a_silent_machine_is_marked_as_lost(view: View, furnished: Stage) -> None:
    furnished.create("silent", TOLD, trialConcurrency=1, maxTrialNumber=5)
    eventually(lambda: [each["status"] for each in furnished.trials("silent")][:1] == ["RUNNING"], "a trial")
    trial = furnished.trials("silent")[0]["id"]
    page = view.open("/experiments/silent/trials")
    page.get_by_role("button", name="Actions for trial No. 0").click()
    entry = page.get_by_role("menuitem", name="Mark as lost")
    expect(entry).to_be_disabled()
    expect(entry).to_contain_text("Only an UNKNOWN trial, whose machine is silent, can be marked as lost.")
    page.route(re.compile(r"/experiments/silent/trials\?"), _silenced)
    page.reload()
    expect(page.get_by_role("row", name="UNKNOWN").first).to_be_visible()
    page.get_by_role("button", name="Actions for trial No. 0").click()
    entry.click()
    dialog = page.get_by_role("dialog", name="Is the machine of trial #0 gone for good?")
    expect(dialog).to_contain_text("the trial gets another attempt elsewhere")
    view.accessible()
    view.forgive("409")
    with page.expect_response(re.compile(f"/trials/{trial}/lost$")) as answered:
        dialog.get_by_role("button", name="It will not come back").click()
    assert answered.value.status == 409  # its machine is not silent in truth
    expect(page.get_by_text(answered.value.json()["error"]["message"]).first).to_be_visible()
    expect(dialog).to_have_count(0)


def _silenced(route: Route) -> None:
    """Show the page's trials as if their machine were silent."""
    answer = route.fetch()
    body = answer.json()
    for trial in body["trials"]:
        trial["status"] = "UNKNOWN"
    route.fulfill(response=answer, json=body)
