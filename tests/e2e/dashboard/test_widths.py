"""Every page on a phone, a tablet and a desktop screen; and in both themes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.view import Theme, View

CHARTS = (
    *("grid", "history", "parallel", "curves", "duration", "importance", "edf", "slices", "scatter"),
    *("matrix", "timeline", "stopped", "lineage"),
)


def pages(view: View, furnished: Stage) -> dict[str, Locator]:
    """Return the path of each page, with an element that is visible when the page has its content."""
    page = view.page
    trial, other = (each["id"] for each in furnished.trials("curves")[:2])
    failed = next(each["id"] for each in furnished.trials("failures") if each["status"] == "FAILED")
    heir = furnished.ask("GET", "/population/lineage")["legs"][0]["trialId"]
    row, table = page.locator(".trial-row:not(.missing)").first, page.get_by_role("table").first
    found = {
        "/": page.get_by_role("row").nth(2),
        "/compare?ids=curves,told": page.locator("canvas").first,
        "/new": page.get_by_role("textbox").first,
        "/resources": page.get_by_text(re.compile("local", re.IGNORECASE)).first,
        "/nowhere": view.heading(re.compile(".+")).first,
        "/experiments/curves": page.get_by_text("learning curves").first,
        "/experiments/failures": page.get_by_text("FAILED").first,
        "/experiments/curves/trials": row,
        f"/experiments/curves/trials/{trial}": view.heading(re.compile("Trial")).first,
        f"/experiments/failures/trials/{failed}": view.heading(re.compile("Trial")).first,
        f"/experiments/curves/compare?trials={trial},{other}": table,
        "/experiments/population/analysis?tab=lineage": page.locator("[role=tabpanel] canvas").first,
        f"/experiments/population/trials/{heir}": view.heading("Legs"),
        "/experiments/curves/resources": page.locator("canvas, .soft").first,
    }
    shown = page.locator("[role=tabpanel] canvas, [role=tabpanel] .soft").first
    return found | {f"/experiments/curves/analysis?tab={name}": shown for name in CHARTS}


@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (800, None), (1440, "dark")])
def test_every_page_is_accessible_and_fits(
    view: View, furnished: Stage, width: int, theme: Theme | None
) -> None:
    """Colours do not depend on the width: each page is checked in both themes, but not at each width."""
    view.page.set_viewport_size({"width": width, "height": 900})
    for path, content in pages(view, furnished).items():
        view.open(path)
        expect(content).to_be_visible()
        if theme is not None:
            view.accessible(only=theme)
        widest = view.page.evaluate("document.documentElement.scrollWidth")
        assert widest <= width, f"{path} is {widest} px wide"
    view.forgive("404|409")  # of the address that leads nowhere, and of machines of a closed experiment
