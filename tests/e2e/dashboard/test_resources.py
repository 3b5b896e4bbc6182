"""The machines that experiments run on."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.view import View


def test_the_servers_machine_shows_who_holds_it(view: View, furnished: Stage) -> None:
    page = view.open("/resources")
    expect(view.heading("Resources")).to_be_visible()
    expect(page.get_by_role("link", name="told").first).to_be_visible()
    view.accessible()


def test_the_machine_is_shown_over_time(view: View, furnished: Stage) -> None:
    page = view.open("/resources")
    page.get_by_text("CPU, memory and GPUs over time").first.click()
    for title in ("CPUs in use", "Memory in use"):
        expect(
            page.get_by_role("img", name=re.compile(rf"^{title}. Now or last .*, at most"))
        ).to_be_visible()
    view.accessible()


def test_an_ended_experiment_shows_what_its_machine_has_used(view: View, furnished: Stage) -> None:
    view.forgive("409")  # its machines are not in use, so there is no list of them
    page = view.open("/experiments/stopped/resources")
    page.get_by_text("The server's machine").click()
    expect(
        page.get_by_role("img", name=re.compile(r"^Memory in use. Now or last .*, at most"))
    ).to_be_visible()
    view.accessible()


def test_an_experiments_machine_shows_its_trials(view: View, furnished: Stage) -> None:
    running = [trial for trial in furnished.trials("told") if trial["status"] == "RUNNING"]
    page = view.open("/experiments/told/resources")
    for trial in running:
        expect(
            page.get_by_role("link", name=trial["id"]).or_(page.get_by_text(trial["id"])).first
        ).to_be_visible()
    view.accessible()
