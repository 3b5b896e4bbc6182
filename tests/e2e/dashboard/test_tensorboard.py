"""The dialog that starts, lists and stops TensorBoards."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.view import View


def _start(page: Page, button: str) -> Page:
    """Press the button of the dialog. Return the tab that it opens."""
    with page.context.expect_page() as opened:
        page.get_by_role("dialog").get_by_role("button", name=button).click()
    opened.value.wait_for_load_state()
    return opened.value


def test_a_tensorboard_is_started_opened_and_stopped(view: View, furnished: Stage) -> None:
    trial = furnished.trials("stopped")[0]["id"]
    page = view.open(f"/experiments/stopped/trials?selected={trial}")
    bar = page.get_by_role("region", name="Selection")
    bar.get_by_role("button", name="TensorBoard…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No TensorBoard of this experiment runs.")
    view.accessible()
    board = _start(page, "Start with 1 trial")
    expect(board).to_have_title("A board")
    board.close()
    (task,) = furnished.ask("GET", "/stopped/tensorboards")["tensorboards"]
    assert task["trialIds"] == [trial]
    expect(dialog.get_by_role("link", name=f"Open TensorBoard {task['id']}")).to_have_attribute(
        "href", task["path"]
    )
    expect(dialog).to_contain_text(f"{task['id']}: 1 trial, started")
    view.accessible()
    dialog.get_by_role("button", name=f"Stop TensorBoard {task['id']}").click()
    expect(dialog).to_contain_text("No TensorBoard of this experiment runs.")
    assert furnished.ask("GET", f"/stopped/tensorboards/{task['id']}")["status"] == "STOPPED"


def test_it_is_started_over_all_trials_and_from_the_page_of_one(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/stopped/trials")
    page.get_by_role("button", name="TensorBoard…").click()
    _start(page, "Start with all trials").close()
    trial = furnished.trials("stopped")[0]["id"]
    page = view.open(f"/experiments/stopped/trials/{trial}")
    page.get_by_role("button", name="TensorBoard…").click()
    stop = page.get_by_role("dialog").get_by_role("button", name="Stop TensorBoard")
    expect(stop).to_have_count(1)
    _start(page, "Start with 1 trial").close()
    expect(stop).to_have_count(2)
    for left in (1, 0):
        stop.first.click()
        expect(stop).to_have_count(left)
