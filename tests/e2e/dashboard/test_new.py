"""A new experiment, written or cloned in the browser."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.trials import CURVE
from tests.e2e.dashboard.view import View

CONFIG = f"""\
experimentName: written here
searchSpace:
  lr: {{_type: loguniform, _value: [0.0001, 0.1]}}
  layers: {{_type: choice, _value: [1, 2]}}
trialCommand: {sys.executable} trial.py
trialCodeDirectory: .
trialConcurency: 2
maxTrialNumber: 2
tuner: {{name: Random}}
trainingService: {{platform: local}}
"""


def test_a_configuration_is_checked_while_it_is_written_and_starts(
    view: View, furnished: Stage, tmp_path: Path
) -> None:
    (tmp_path / "trial.py").write_text(CURVE)
    page = view.open("/new")
    editor = page.get_by_role("textbox", name="Configuration, YAML")
    start = page.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_disabled()
    page.get_by_role("textbox", name="Working directory").fill(str(tmp_path))
    editor.fill(CONFIG)
    expect(page.get_by_text("trialConcurency").last).to_be_visible()
    expect(page.get_by_text("Line 7").first).to_be_visible()
    expect(start).to_be_disabled()
    view.accessible()
    page.reload()
    expect(page.get_by_text("Line 7").first).to_be_visible()
    editor.fill(CONFIG.replace("Concurency", "Concurrency"))
    expect(page.get_by_text("No problems.")).to_be_visible()
    expect(page.get_by_text("2 at a time")).to_be_visible()
    view.accessible()
    start.click()
    expect(view.heading("written here")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("DONE").first).to_be_visible()


def test_a_clone_begins_with_the_configuration_of_another(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves")
    page.get_by_role("link", name="Clone").click()
    expect(page).to_have_url(f"{view.url}/new?clone=curves")
    editor = page.get_by_role("textbox", name="Configuration, YAML")
    text = "maxTrialNumber: 12"
    expect(editor).to_have_value(re.compile(text))
    editor.fill(editor.input_value().replace(text, "maxTrialNumber: 1").replace("learning curves", "a clone"))
    expect(page.get_by_text("at most 1, 4 at a time")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(view.heading("a clone")).to_be_visible()
    names = [each["name"] for each in furnished.ask("GET", "")["experiments"]]
    assert "a clone" in names


def test_templates_take_each_others_place(view: View) -> None:
    page = view.open("/new")
    page.get_by_role("button", name="TPE and Medianstop").click()
    expect(page.get_by_role("textbox", name="Configuration, YAML")).to_have_value(re.compile("Medianstop"))
    page.get_by_role("button", name="Minimal, on this machine").click()
    expect(page.get_by_role("textbox", name="Configuration, YAML")).not_to_have_value(
        re.compile("Medianstop")
    )
