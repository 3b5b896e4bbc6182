"""The charts over all trials: one filter and one selection for all of them, their data to take away."""

from __future__ import annotations

import csv
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.view import View


def tabs(page: Page) -> list[str]:
    found = page.get_by_role("tablist", name="Charts").get_by_role("tab")
    expect(found.first).to_be_visible()
    return found.all_inner_texts()


def test_every_chart_is_drawn_and_accessible(view: View) -> None:
    page = view.open("/experiments/curves/analysis")
    for name in tabs(page):
        page.get_by_role("tab", name=name, exact=True).click()
        panel = page.get_by_role("tabpanel", name=name, exact=True)
        expect(panel.get_by_role("heading").first).to_be_visible()
        expect(panel.get_by_text("Loading…")).to_have_count(0)
        expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
        view.accessible()
        address = page.url
        page.reload()
        assert page.url == address
        expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")


def test_the_chosen_tab_is_in_sight_on_a_narrow_page(view: View) -> None:
    view.page.set_viewport_size({"width": 600, "height": 800})
    page = view.open("/experiments/curves/analysis")
    *_, last = tabs(page)
    chosen = page.get_by_role("tab", name=last, exact=True)
    expect(chosen).not_to_be_in_viewport(ratio=0.9)
    chosen.click()
    expect(chosen).to_be_in_viewport(ratio=0.9)
    page.reload()
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(chosen).to_be_in_viewport(ratio=0.9)


def test_a_selection_is_shared_by_the_charts_and_leads_to_the_table(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves/analysis?tab=slices")
    page.get_by_role("button", name="Select by…").click()
    dialog = page.get_by_role("dialog", name="Select trials")
    dialog.get_by_label("Column").select_option("sequence")
    dialog.get_by_label("From").fill("2")
    dialog.get_by_label("To").fill("6")
    view.accessible()
    dialog.get_by_role("button", name="Select", exact=True).click()
    said = page.get_by_text("5 of 12 trials selected")
    expect(said).to_be_visible()
    page.get_by_role("tab", name="History", exact=True).click()
    expect(said).to_be_visible()
    page.reload()
    expect(said).to_be_visible()
    page.get_by_role("link", name="Open in the table").click()
    expect(page.locator("[role=row][aria-level='1']")).to_have_count(5)


def test_the_filter_narrows_the_charts(view: View, furnished: Stage) -> None:
    adams = sum(trial["parameters"]["optimizer"] == "adam" for trial in furnished.trials("curves"))
    page = view.open(f"/experiments/curves/analysis?filter={quote('optimizer:adam')}")
    expect(page.get_by_text(f"{adams} of 12 trials match.")).to_be_visible()


@pytest.mark.parametrize(("experiment", "trials"), [("curves", 12), ("failures", 2)])
def test_a_charts_data_are_taken_away(view: View, experiment: str, trials: int) -> None:
    page = view.open(f"/experiments/{experiment}/analysis")
    page.get_by_role("button", name="Data of Metric history").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="CSV").click()
    lines = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert len(lines) >= 1 + trials


def test_charts_follow_what_happens(view: View, furnished: Stage) -> None:
    before = len(furnished.trials("told"))
    page = view.open("/experiments/told/analysis")
    expect(page.get_by_text(f"{before} trials.")).to_be_visible()
    furnished.ask("POST", "/told/trials", {"parameters": {"lr": 0.001, "layers": 1, "optimizer": "adam"}})
    expect(page.get_by_text(f"{before + 1} trials.")).to_be_visible()


def test_the_grid_shows_several_charts_with_one_selection(view: View) -> None:
    page = view.open("/experiments/curves/analysis")
    cells = page.get_by_role("tabpanel", name="Grid").get_by_role("region")
    expect(cells).to_have_count(6)
    expect(page.get_by_role("heading", name="Metric history")).to_be_visible()
    page.get_by_role("button", name="Charts", exact=False).first.click()
    page.get_by_role("menuitemcheckbox", name="Timeline").click()
    expect(cells).to_have_count(5)
    page.keyboard.press("Escape")
    view.accessible()
    page.get_by_role("button", name="Show only: Share of results").click()
    expect(page.get_by_role("tab", name="Share of results")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(cells).to_have_count(5)


@pytest.mark.parametrize(
    ("tab", "title"),
    [
        ("history", "Metric history"),
        ("duration", "Duration of each trial"),
        ("parallel", "Parallel coordinates"),
    ],
)
def test_charts_are_saved_as_svg(view: View, tab: str, title: str) -> None:
    page = view.open(f"/experiments/curves/analysis?tab={tab}")
    chart = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))
    expect(chart.locator("canvas").first).to_be_visible()
    page.get_by_role("button", name=f"Data of {title}", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Download SVG").click()
    drawn = Path(download.value.path()).read_text()
    assert drawn.startswith("<svg") and drawn.count("<path") + drawn.count("<rect") > 12


def test_the_tip_of_a_trial_has_its_parameters(view: View) -> None:
    page = view.open("/experiments/curves/analysis?tab=timeline")
    plot = page.get_by_role("tabpanel", name="Timeline").locator("canvas").last
    box = plot.bounding_box()
    assert box is not None
    tip = page.locator(".tip:visible")
    across = [(0.3 + 0.05 * step, 0.15 + 0.1 * row) for row in range(8) for step in range(10)]
    for x, y in across:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if tip.count() > 0:
            break
    expect(tip).to_contain_text("optimizer")


@pytest.mark.parametrize("look", ["rank", "heat", "contour"])
def test_two_parameters_are_shown_in_several_ways(view: View, look: str) -> None:
    page = view.open(f"/experiments/curves/analysis?tab=scatter&as={look}")
    expect(page.get_by_role("combobox", name="Show")).to_have_value(look)
    expect(page.get_by_role("heading", name="Two parameters")).to_be_visible()
    view.accessible()


def test_the_scatter_matrix_shows_each_pair_of_parameters(view: View) -> None:
    page = view.open("/experiments/curves/analysis?tab=matrix")
    matrix = page.get_by_role("region", name="Scatter matrix")
    expect(matrix.get_by_role("heading")).to_have_count(3)
    view.accessible()
