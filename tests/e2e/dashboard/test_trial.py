"""One trial: what it was given, reports and writes, what can be done to it; and several side by side."""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.e2e.dashboard.stage import Stage
from tests.e2e.dashboard.trials import TOLD
from tests.e2e.dashboard.view import View
from tests.e2e.scene import eventually


def test_a_trial_stands_beside_the_best(view: View, furnished: Stage) -> None:
    best = furnished.profile("curves")["bestTrial"]["sequence"]
    other = next(trial for trial in furnished.trials("curves") if trial["sequence"] != best)
    page = view.open(f"/experiments/curves/trials/{other['id']}")
    expect(page.get_by_role("heading", name=f"Trial #{other['sequence']}")).to_be_visible()
    expect(page.get_by_text(f"Best (#{best})")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^lr"))).to_be_visible()
    expect(page.get_by_text(re.compile("^5 results between"))).to_be_visible()
    expect(page.get_by_role("region", name="Attempts").get_by_text("exit code 0")).to_be_visible()
    view.accessible()


def test_its_curve_and_its_log_follow_it(view: View, furnished: Stage) -> None:
    furnished.create("spoken", TOLD, trialConcurrency=1, maxTrialNumber=1)
    furnished.tell("spoken", 0, "report 0.5", "say first words")
    trial = furnished.trials("spoken")[0]["id"]
    page = view.open(f"/experiments/spoken/trials/{trial}")
    log = page.get_by_role("tabpanel", name="Logs")
    expect(log).to_contain_text("first words")
    furnished.tell("spoken", 0, "report 0.75", "say \x1b[31mred words\x1b[0m")
    expect(log).to_contain_text("red words")
    assert "\x1b" not in log.inner_text() and "[31m" not in log.inner_text()
    expect(page.get_by_text("2 results between 0.5 and 0.75, the last 0.75.")).to_be_visible()
    log.get_by_role("searchbox", name="Search in this log").fill("red")
    page.keyboard.press("Enter")
    expect(log.get_by_text(re.compile("of 1 lines"))).to_be_visible()
    furnished.tell("spoken", 0, "final 0.875")
    expect(page.get_by_role("main").get_by_text("SUCCEEDED").first).to_be_visible()
    expect(page.get_by_role("region", name="Result")).to_contain_text("0.875")
    view.accessible()


def test_a_failure_is_told_with_its_traceback(view: View, furnished: Stage) -> None:
    failed = next(trial for trial in furnished.trials("failures") if trial["status"] == "FAILED")
    page = view.open(f"/experiments/failures/trials/{failed['id']}")
    panel = page.get_by_role("tabpanel", name="Logs")
    panel.get_by_role("button", name="stderr").click()
    expect(panel).to_contain_text("ValueError: the learning rate is too high")
    view.accessible()
    page.reload()
    expect(panel).to_contain_text("ValueError: the learning rate is too high")
    with page.expect_download() as download:
        panel.get_by_text("Download").first.click()
    assert "ValueError" in Path(download.value.path()).read_text()
    page.get_by_role("tab", name="Files").click()
    expect(page.get_by_role("tabpanel", name="Files").get_by_text("stderr").first).to_be_visible()
    page.get_by_role("tab", name="What has happened").click()
    expect(
        page.get_by_role("tabpanel", name="What has happened").get_by_role("listitem").first
    ).to_be_visible()


FILES = """\
import base64, nni, os
nni.get_next_parameter()
os.chdir(os.environ["NNI_OUTPUT_DIR"])
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
open("plot.png", "wb").write(base64.b64decode(pixel))
open("broken.png", "w").write("no picture")
open("history.csv", "w").write("epoch,loss\\n1,0.5\\n2,0.25\\n")
open("notes.txt", "w").write("first line <script>\\nsecond line")
open("odd.txt", "wb").write(bytes(range(256)))
open("model.pt", "wb").write(b"weights")
nni.report_final_result(1.0)
"""


def test_files_are_previewed(view: View, furnished: Stage) -> None:
    furnished.create("files", FILES, maxTrialNumber=1)
    furnished.wait("files", "DONE")
    page = view.open(f"/experiments/files/trials/{furnished.trials('files')[0]['id']}?tab=files")

    def preview(name: str) -> Locator:
        page.get_by_role("button", name=f"Preview {name}").click()
        return page.get_by_role("dialog", name=name)

    shown = preview("notes.txt")
    expect(shown).to_contain_text("first line <script>")
    view.accessible()
    page.keyboard.press("Escape")
    shown = preview("history.csv")
    expect(shown.get_by_role("columnheader")).to_have_text(["epoch", "loss"])
    expect(shown.get_by_role("row").nth(2).get_by_role("cell")).to_have_text(["2", "0.25"])
    view.accessible()
    page.keyboard.press("Escape")
    image = preview("plot.png").get_by_role("img", name="plot.png")
    eventually(lambda: image.evaluate("image => image.naturalWidth") == 1, "the picture")
    page.keyboard.press("Escape")
    expect(preview("broken.png")).to_contain_text("The browser cannot show this image.")
    page.keyboard.press("Escape")
    expect(preview("odd.txt")).to_contain_text("The file is not text.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Preview model.pt")).to_have_count(0)


def test_what_it_uses_is_shown_over_time(view: View, furnished: Stage) -> None:
    trial = furnished.trials("told")[0]["id"]
    page = view.open(f"/experiments/told/trials/{trial}?tab=usage")
    for title in ("CPUs in use", "Memory in use"):
        expect(
            page.get_by_role("img", name=re.compile(rf"^{title}. Now or last .*, at most"))
        ).to_be_visible()
    view.accessible()


def test_a_trial_is_killed_from_its_page(view: View, furnished: Stage) -> None:
    furnished.create("victim", TOLD, trialConcurrency=1, maxTrialNumber=1)
    furnished.tell("victim", 0, "report 0.5")
    page = view.open(f"/experiments/victim/trials/{furnished.trials('victim')[0]['id']}")
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("button", name="Stop the trial").click()
    expect(page.get_by_role("main").get_by_text("USER_CANCELED").first).to_be_visible()


def test_a_trial_is_paused_and_resumed_on_its_page(view: View, furnished: Stage) -> None:
    furnished.create("sleeper", TOLD, trialConcurrency=1, maxTrialNumber=1)
    furnished.tell("sleeper", 0, "report 0.5")
    page = view.open(f"/experiments/sleeper/trials/{furnished.trials('sleeper')[0]['id']}")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("main").get_by_text("PAUSED").first).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(
        "a user paused it; the trial has saved no checkpoint, and will start from the beginning"
    )
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("main").get_by_text("RUNNING").first).to_be_visible()


def test_a_trial_that_waits_for_a_place_shows_what_it_has_written(view: View, furnished: Stage) -> None:
    furnished.create("crowd", TOLD, trialConcurrency=2, maxTrialNumber=2, trialCpuNumber=os.cpu_count())
    furnished.tell("crowd", 0, "report 0.5")
    first, _ = (trial["id"] for trial in furnished.trials("crowd"))
    furnished.ask("POST", f"/crowd/trials/{first}/pause")
    furnished.tell("crowd", 1, "report 0.5")
    furnished.ask("POST", f"/crowd/trials/{first}/resume")
    eventually(lambda: len(furnished.ask("GET", f"/crowd/trials/{first}")["jobs"]) == 2, "another attempt")
    page = view.open(f"/experiments/crowd/trials/{first}")
    expect(page.get_by_role("combobox", name="Attempt")).to_have_value("1")


def test_a_trial_is_asked_to_save_and_its_checkpoint_is_pinned(view: View, furnished: Stage) -> None:
    furnished.create("keeper", TOLD, trialConcurrency=1, maxTrialNumber=1)
    furnished.tell("keeper", 0, "save 0.5")
    page = view.open(f"/experiments/keeper/trials/{furnished.trials('keeper')[0]['id']}")
    checkpoints = page.get_by_role("region", name="Checkpoints")
    checkpoints.get_by_role("button", name="Pin checkpoint 1 of attempt 1").click()
    pinned = checkpoints.get_by_role("button", name="Take back the pin of checkpoint 1 of attempt 1")
    expect(pinned).to_be_visible()
    view.accessible()
    pinned.click()
    expect(checkpoints.get_by_role("button", name="Pin checkpoint 1 of attempt 1")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("so it saves only when its code does so anyway")
    furnished.tell("keeper", 0, "final 0.5")
    expect(page.get_by_role("main").get_by_text("SUCCEEDED").first).to_be_visible()


def test_trials_are_compared_side_by_side(view: View, furnished: Stage) -> None:
    first, second = furnished.trials("curves")[1:3]
    page = view.open(f"/experiments/curves/compare?trials={first['id']},{second['id']}")
    table = page.get_by_role("group", name="Parameters and results").get_by_role("table")
    expect(table).to_contain_text("No. 1")
    expect(table).to_contain_text("No. 2")
    expect(table).to_contain_text("optimizer")
    expect(page.get_by_text("2 trials, 10 values of their latest attempts.")).to_be_visible()
    view.accessible()
    page.get_by_role("button", name="Take trial No. 2 out").click()
    expect(table).not_to_contain_text("No. 2")
    view.open("/experiments/curves/compare?trials=nobody,noone")
    expect(page.get_by_text(re.compile("There is no trial"))).to_be_visible()
    view.forgive("404")
