"""A run in a notebook: it is live, has buttons, and is there again after a restart of the kernel."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from nnimgr.home import Home
from nnimgr.index import Index
from tests.e2e.dashboard.conftest import CHROMIUM
from tests.e2e.notebook.jupyter import NoJupyter, jupyter_python, lab
from tests.e2e.scene import eventually
from tests.server.harness import nothing_left

LIMIT_MS = 60_000
START = """
import time
from nnimgr import Experiment, Run, space, tune
SPACE = {"x": space.uniform(0, 1), "layers": space.randint(1, 5)}
TARGET = 0.75
def train(parameters, trial):
    state = trial.load(default={"score": 0.0})
    for step in trial.steps(5):
        time.sleep(0.05)
        state["score"] = 1 - abs(parameters["x"] - TARGET) / (step + 1)
        trial.report(state["score"], save=state)
run = Experiment(train, SPACE, maximize=True, trials=2000, at_once=2, name="search", ship="pickle").start()
run
"""
AGAIN = 'from nnimgr import Run\nrun = Run.attach("search")\nrun'
WITHOUT_WIDGETS = 'import sys\nsys.modules["anywidget"] = None\nrun = Run.attach("search")\nrun'
WAIT = "run.wait()"


@pytest.fixture
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: Debian's package 'chromium'")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture
def page(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The notebook in JupyterLab. Its experiment is stopped at the end."""
    try:
        jupyter_python()
    except NoJupyter as error:
        pytest.skip(str(error))
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    with nothing_left(tmp_path), lab(tmp_path, [START, AGAIN, WITHOUT_WIDGETS, WAIT]) as address:
        opened = browser.new_page(viewport={"width": 1200, "height": 900})
        opened.set_default_timeout(LIMIT_MS)
        # On a busy machine JupyterLab may say that its theme came too late, and then waits for the user.
        late_theme = opened.get_by_role("dialog", name="Error Loading Theme")
        opened.add_locator_handler(late_theme, lambda: late_theme.get_by_role("button", name="OK").click())
        opened.goto(address)
        expect(opened.locator(".jp-Notebook .jp-CodeCell")).to_have_count(4, timeout=LIMIT_MS)
        yield opened
        opened.close()
        for server in Home.find().servers():
            if server.pid is not None:
                os.kill(server.pid, signal.SIGTERM)


def run_cell(page: Page, place: int) -> None:
    """Run a cell when the kernel is idle."""
    expect(page.get_by_role("button", name="Python 3 (ipykernel) | Idle")).to_be_visible(timeout=LIMIT_MS)
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(place)
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def shows(page: Page, place: int, text: str) -> None:
    output = page.locator(".jp-Notebook .jp-CodeCell").nth(place).locator(".jp-OutputArea")
    expect(output).to_contain_text(text, timeout=LIMIT_MS)


def finished(page: Page, place: int) -> int:
    """Return the number of finished trials that the cell shows."""
    output = page.locator(".jp-Notebook .jp-CodeCell").nth(place).locator(".jp-OutputArea")
    found = re.search(r"(\d+) of 2000", output.inner_text())
    return int(found[1]) if found else 0


def status() -> str:
    return Index(Home.find()).entries()["search"].status


def picture(page: Page, name: str) -> None:
    """Take a picture, if a folder for pictures is named."""
    folder = os.environ.get("NNIMGR_TEST_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_run_is_live_is_paused_and_survives_the_kernel(page: Page) -> None:
    run_cell(page, 0)
    shows(page, 0, "RUNNING")
    first = eventually(lambda: finished(page, 0), "a finished trial")
    eventually(lambda: finished(page, 0) > first + 2, "further trials in the same output")
    shows(page, 0, "Best")
    picture(page, "running")
    page.get_by_role("button", name="Pause", exact=True).click()
    shows(page, 0, "STOPPED")
    eventually(lambda: status() == "STOPPED", "the status in the index, which is written a little later")
    picture(page, "paused")
    page.get_by_role("button", name="Resume", exact=True).click()
    shows(page, 0, "RUNNING")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.locator('.lm-Menu-item[data-command="kernelmenu:restart"]').click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    run_cell(page, 1)
    shows(page, 1, "RUNNING")
    before = finished(page, 1)
    eventually(lambda: finished(page, 1) > before, "a trial that has ended after the restart of the kernel")
    run_cell(page, 2)
    shows(page, 2, "RUNNING")
    shows(page, 2, "To pause: Run.attach('search').stop()")
    picture(page, "html")
    run_cell(page, 3)
    shows(page, 3, "RUNNING")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.locator('.lm-Menu-item[data-command="kernelmenu:interrupt"]').click()
    shows(page, 3, "Experiment search continues.")
    before = finished(page, 3)
    eventually(lambda: finished(page, 3) > before, "a trial that has ended after the interrupt")
    page.locator(".jp-CodeCell").nth(1).get_by_role("button", name="Finish", exact=True).click()
    for place in (1, 2, 3):
        shows(page, place, "DONE")
    assert status() == "DONE"
