"""What stands around every page: signing in, the themes, addresses that lead nowhere, a lost server."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.e2e.dashboard.stage import Stage, stage
from tests.e2e.dashboard.trials import TOLD
from tests.e2e.dashboard.view import View, opened
from tests.e2e.scene import eventually


def test_the_address_that_is_printed_signs_in_once(furnished: Stage, browser: Browser) -> None:
    address = furnished.sign_in()
    with opened(browser, furnished.url) as view:
        view.page.goto(address)
        expect(view.heading("Experiments")).to_be_visible()
        expect(view.page).to_have_url(f"{furnished.url}/")
    with opened(browser, furnished.url) as view:
        view.page.goto(address)
        expect(view.page.get_by_text("was used already or has expired")).to_be_visible()
        view.forgive("401")


def test_the_token_signs_in_to_the_page_that_was_asked_for(furnished: Stage, browser: Browser) -> None:
    with opened(browser, furnished.url) as view:
        page = view.open("/experiments/curves?top=20")
        expect(view.heading("Sign in to nnimgr")).to_be_visible()
        token = page.get_by_label("Token of this server")
        token.fill("not the token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("token")
        view.accessible(themes=False)
        token.fill(furnished.server.home.token())
        page.get_by_role("button", name="Sign in").click()
        expect(view.heading("learning curves")).to_be_visible()
        expect(page).to_have_url(f"{furnished.url}/experiments/curves?top=20")
        view.forgive("401")


def test_nothing_is_shown_to_strangers(furnished: Stage, browser: Browser) -> None:
    with opened(browser, furnished.url) as view:
        for path in ("/", "/new", "/experiments/curves/trials"):
            view.open(path)
            expect(view.heading("Sign in to nnimgr")).to_be_visible()
        for path in ("/assets/index.js", "/api/v1/experiments", "/api/v1/events", "/theme.js"):
            assert view.page.request.get(furnished.url + path).status == 401
        view.forgive("401")


def test_the_bar_leads_to_the_pages(view: View) -> None:
    page = view.open("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Resources").click()
    expect(page).to_have_url(f"{view.url}/resources")
    page.get_by_role("link", name="New experiment").click()
    expect(page).to_have_url(f"{view.url}/new")
    page.go_back()
    page.get_by_role("link", name="nnimgr").click()
    expect(page).to_have_url(f"{view.url}/")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    view.accessible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_themes(view: View) -> None:
    page = view.open("/")
    shown = page.locator("html")

    def choose(name: str) -> None:
        page.get_by_role("button", name=re.compile("^Theme")).click()
        page.get_by_role("menuitemcheckbox", name=f"Theme: {name}").click()
        page.keyboard.press("Escape")

    page.emulate_media(color_scheme="dark")
    expect(shown).to_have_attribute("data-theme", "dark")
    choose("Light")
    expect(shown).to_have_attribute("data-theme", "light")
    page.reload()
    expect(shown).to_have_attribute("data-theme", "light")
    choose("Dark")
    page.emulate_media(color_scheme="light")
    expect(shown).to_have_attribute("data-theme", "dark")
    choose("System")
    expect(shown).to_have_attribute("data-theme", "light")


def test_addresses_that_lead_nowhere_say_so(view: View) -> None:
    view.open("/experiments/curves/nowhere")
    expect(view.heading("This page does not exist")).to_be_visible()
    view.accessible()
    view.open("/experiments/nobody")
    expect(view.page.get_by_role("alert")).to_contain_text("nobody")
    view.forgive("404")


def test_an_address_signs_in_and_opens_an_experiment(furnished: Stage, browser: Browser) -> None:
    with opened(browser, furnished.url) as view:
        view.page.goto(furnished.sign_in("/experiments/nobody"))
        expect(view.page).to_have_url(f"{furnished.url}/experiments/nobody")
        view.forgive("404")


def test_signing_out(furnished: Stage, browser: Browser) -> None:
    with opened(browser, furnished.url) as view:
        view.page.goto(furnished.sign_in())
        view.page.get_by_role("button", name=re.compile("^Theme")).click()
        view.page.get_by_role("menuitem", name="Sign out").click()
        expect(view.page).to_have_url(f"{furnished.url}/login")
        view.open("/")
        expect(view.heading("Sign in to nnimgr")).to_be_visible()
        view.forgive("401|404")


def test_a_lost_server_is_told_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    with stage(tmp_path) as made, opened(browser, made.url) as view:
        made.create("told", TOLD, trialConcurrency=1)
        made.tell("told", 0, "report 0.25")
        view.page.goto(made.sign_in())
        expect(view.heading("Experiments")).to_be_visible()  # before that it is not signed in
        page = view.open("/experiments/told")
        banner = page.get_by_text("The server has not answered since")
        expect(page.get_by_role("list", name="Trials per status")).to_be_visible()  # its script is here
        expect(page.get_by_role("banner").get_by_text(re.compile("Live$"))).to_be_visible()
        made.kill()
        expect(banner).to_be_visible()
        expect(banner).to_contain_text(f"nnictl resume told --port {made.url.rpartition(':')[2]}")
        made.tell("told", 0, "final 0.75")
        made.restart()
        expect(page.get_by_text("You are signed out.")).to_be_visible()  # sessions end with their server
        expect(banner).to_be_hidden()
        page.goto(made.sign_in())
        expect(view.heading("Experiments")).to_be_visible()
        page = view.open("/experiments/told")
        expect(page.get_by_role("banner").get_by_text(re.compile("Live$"))).to_be_visible()
        view.forgive("ERR_|net::|401|EventSource|Unable to preload")  # some page that is read ahead


def test_the_palette_finds_pages_experiments_trials_and_commands(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves")
    expect(page.get_by_role("region", name="Best trial")).to_be_visible()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Find a page, an experiment, a trial or a command")
    expect(field).to_be_focused()
    view.accessible()
    field.fill("failures")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{view.url}/experiments/failures")
    page.keyboard.press("Control+k")
    field.fill("analysis")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{view.url}/experiments/failures/analysis")
    trial = next(each for each in furnished.trials("failures") if each["sequence"] == 2)
    page.keyboard.press("Control+k")
    field.fill("trial 2")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{view.url}/experiments/failures/trials/{trial['id']}")
    page.keyboard.press("Control+k")
    field.fill("no such thing")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_the_last_action_can_be_undone(view: View, furnished: Stage) -> None:
    page = view.open("/experiments/curves")
    expect(page.get_by_role("region", name="Best trial")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="Archive").click()
    toast = page.get_by_role("status").filter(has_text="The experiment is in the archive.")
    toast.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone.")).to_be_visible()
    listed = {each["id"]: each["archived"] for each in furnished.ask("GET", "")["experiments"]}
    assert listed["curves"] is False


def test_a_phone_shows_filters_folded_and_results_in_sight(view: View) -> None:
    view.page.set_viewport_size({"width": 390, "height": 844})
    page = view.open("/experiments/curves/trials")
    expect(page.get_by_role("searchbox")).to_be_hidden()
    page.get_by_text("Filters").click()
    expect(page.get_by_role("searchbox")).to_be_visible()
    box = page.get_by_role("columnheader", name="Result").bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390
    view.accessible()


NOTIFICATIONS = """
window.shown = [];
window.Notification = class {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, { body }) { window.shown.push(`${title}: ${body}`); }
};
"""


def test_the_browser_notifies_of_better_results_and_ends(view: View, furnished: Stage) -> None:
    furnished.create("news", TOLD, trialConcurrency=1, maxTrialNumber=3)
    view.page.add_init_script(NOTIFICATIONS)
    page = view.open("/experiments/news")
    page.get_by_role("button", name="Theme, shortcuts, API and signing out").click()
    page.get_by_role("menuitemcheckbox", name="Notify me in this browser").click()
    expect(page.get_by_role("menuitemcheckbox", name="Notify me in this browser")).to_be_checked()
    page.keyboard.press("Escape")
    furnished.tell("news", 0, "final 0.25")
    expect(page.get_by_text("0.25", exact=True).first).to_be_visible()  # the page follows the experiment
    furnished.tell("news", 1, "final 0.5")
    eventually(lambda: "news: New best result: 0.5." in page.evaluate("window.shown"), "a better result")
    furnished.tell("news", 2, "final 0.125")
    eventually(
        lambda: [each for each in page.evaluate("window.shown") if each.startswith("news is DONE: ")],
        "the end",
    )
