"""The charts of certain searches: by several objectives, and by successive halving."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.test_analysis import tabs
from tests.e2e.dashboard.trials import HALVING, SEVERAL, TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually

BUDGETS = [(0.1, 1), (0.2, 1), (0.3, 1), (0.4, 1), (0.3, 3), (0.4, 3), (0.4, 9)]


def rows(table: Locator) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]


NEXT_FRAMES = "() => new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(shown)))"


def pick(page: Page, plot: Locator, text: str, *across: float) -> None:
    """Click a mark whose tooltip says this; it is about so far across the plot, 0 to 1, at one of the places.

    Look for it twice: a busy browser may show a tooltip late, or still move the plot.
    """
    tip = page.locator(".plot-tip:not([hidden])")
    for place in across * 2:
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        middle = box["x"] + 50 + place * (box["width"] - 64)  # between the axis and the edge
        for x in (middle + offset for offset in range(-24, 25, 12)):
            for y in range(int(box["y"]) + 8, int(box["y"] + box["height"]) - 44, 12):
                page.mouse.move(x, y)
                page.evaluate(NEXT_FRAMES)
                if tip.count() and text in tip.inner_text():
                    page.mouse.click(x, y)
                    return
    raise AssertionError(f"no mark says {text}")


def test_the_pareto_front_of_several_objectives(view: View, furnished: Stage) -> None:
    furnished.create(
        "several",
        SEVERAL,
        space={"width": {"_type": "choice", "_value": [1, 2, 3, 4]}},
        tuner={"name": "GridSearch"},
        objectives={"accuracy": "maximize", "latency": "minimize"},
    )
    furnished.wait("several", "DONE")
    page = view.open("/experiments/several/analysis?tab=pareto")
    expect(page.get_by_text("3 of 4 results are not beaten in all objectives by any other")).to_be_visible()
    found = page.get_by_role("region", name="The Pareto set").locator("table")
    expect(found.locator("tbody tr")).to_have_count(3)
    assert [row[1:] for row in rows(found)] == [["0.75", "40", "4"], ["0.5", "20", "2"], ["0", "10", "1"]]
    view.accessible()
    pick(page, page.get_by_role("img", name=re.compile("^Pareto front")), "latency\n20", 0.66)
    expect(page).to_have_url(re.compile("/trials/"))
    page.go_back()
    page.get_by_label("Metric").select_option("latency (lowest)")
    expect(page.get_by_label("Best is")).to_have_value("minimize")
    page.get_by_label("Across").select_option("latency")
    page.get_by_label("Up").select_option("accuracy")
    address = page.url
    page.reload()
    expect(page.get_by_role("tab", name="Pareto front")).to_have_attribute("aria-selected", "true")
    assert page.url == address
    found.get_by_role("link", name="Trial 3").click()
    expect(page).to_have_url(re.compile("/trials/"))


def test_the_rungs_of_budgets(view: View, furnished: Stage) -> None:
    sets = [{"lr": lr, "TRIAL_BUDGET": budget} for lr, budget in BUDGETS]
    furnished.create(
        "halving",
        HALVING,
        space={"combine_params": {"_type": "choice", "_value": sets}},
        tuner={"name": "BatchTuner"},
        trialConcurrency=1,
        maxTrialNumber=len(sets),
    )
    furnished.wait("halving", "DONE")
    page = view.open("/experiments/halving/analysis?tab=rungs")
    expect(page.get_by_text("4 configurations at 3 budgets; 3 times one went on.")).to_be_visible()
    table = page.get_by_role("region", name="How many came to each rung").locator("table")
    assert rows(table) == [
        ["1", "4", "2", "0", "0", "2", "0.3 Trial 2"],
        ["3", "2", "1", "0", "0", "1", "1.2 Trial 5"],
        ["9", "1", "0", "0", "0", "1", "–"],
    ]
    view.accessible()
    chart = page.get_by_role("img", name=re.compile("^Rungs"))
    pick(page, chart, "The worst that was promoted is trial 2, with 0.3.", 1 / 6)
    expect(page).to_have_url(re.compile("/trials/"))
    page.go_back()
    page.get_by_role("button", name="Trial 5").click()
    expect(page.get_by_role("heading", name="Trial #5")).to_be_visible()


def test_the_rungs_of_an_assessor(view: View, furnished: Stage) -> None:
    furnished.create(
        "judged",
        TOLD,
        tuner={"name": "Random", "classArgs": {"seed": 1}},
        assessor={"name": "Medianstop"},
        trialConcurrency=1,
        maxTrialNumber=3,
    )
    furnished.tell("judged", 0, "report 0.8", "report 0.9", "final 0.9")
    furnished.tell("judged", 1, "report 0.9", "report 1", "final 1")
    furnished.tell("judged", 2, "report 0.1")
    eventually(lambda: furnished.trials("judged")[2]["status"] == "EARLY_STOPPED", "the verdict")
    page = view.open("/experiments/judged/analysis?tab=rungs")
    expect(page.get_by_text("3 trials at 1 rung, 1 trial stopped; 2 times one went on.")).to_be_visible()
    table = page.get_by_role("region", name="How many came to each rung").locator("table")
    assert rows(table) == [["1", "3", "2", "1", "0", "0", "0.8 Trial 0"]]
    reason = furnished.trials("judged")[2]["reason"]
    pick(page, page.get_by_role("img", name=re.compile("^Rungs")), "Stopped. ", 1 / 2)
    expect(page.get_by_text(reason).first).to_be_visible()  # on the trial's page


def test_other_experiments_have_neither(view: View) -> None:
    found = tabs(view.open("/experiments/curves/analysis?tab=rungs"))
    assert "History" in found
    assert not {"Rungs", "Pareto front"} & set(found)
