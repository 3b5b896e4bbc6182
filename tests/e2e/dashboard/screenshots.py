"""Takes the pictures of the dashboard that the documentation shows, of an invented experiment.

python -m tests.e2e.dashboard.screenshots [docs/screenshots]
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Route, sync_playwright

from benchmarks import past
from nnimgr.home import Home
from tests.e2e.dashboard.stage import furnish, stage
from tests.e2e.dashboard.view import opened

TRIALS = 2000
SETTLE_MS = 2500  # until charts are drawn and nothing moves
MOST_BYTES = 180_000
PAGES = {
    "experiments": ("/", "light"),
    "overview": ("/experiments/past", "light"),
    "overview-dark": ("/experiments/past", "dark"),
    "trials": ("/experiments/past/trials?filter=lr<0.01&sort=-value", "light"),
    "trial": ("/experiments/past/trials/{best}", "light"),
    "compare": ("/experiments/past/compare?trials={best},{other}", "light"),
    "history": ("/experiments/past/analysis?tab=history&filter=sequence<300", "dark"),
    "importance": ("/experiments/past/analysis?tab=importance", "light"),
    "resources": ("/resources", "light"),
}


def main(folder: Path) -> None:
    """Write one picture for each page. Raises ValueError for a picture that is too large."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("There is no Chromium: install Debian's package 'chromium'.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as place:
        written = past.write(Home(Path(place) / "home"), "past", trials=TRIALS, metrics=10, seed=1)
        asyncio.run(written)
        with sync_playwright() as playwright, stage(Path(place)) as made:
            furnish(made)
            best = made.ask("GET", "/past/trials?sort=value&order=desc&limit=2")["trials"]
            ids = {"best": best[0]["id"], "other": best[1]["id"]}
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            with opened(browser, made.url) as view:
                view.page.goto(made.sign_in())
                view.page.wait_for_url(f"{made.url}/")
                view.page.route(f"{made.url}/api/v1/experiments/past", lambda route: _elsewhere(route, place))
                for name, (path, theme) in PAGES.items():
                    view.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
                    view.open(path.format(**ids))
                    view.page.wait_for_timeout(SETTLE_MS)
                    picture = view.page.screenshot(path=folder / f"{name}.png")
                    view.faults.clear()  # the logs of the invented machines cannot be read
                    if len(picture) > MOST_BYTES:
                        raise ValueError(f"{name}.png has {len(picture):,} bytes, more than {MOST_BYTES:,}")
            browser.close()


def _elsewhere(route: Route, place: str) -> None:
    """Answer without the paths of this machine."""
    answer = route.fetch()
    text = answer.text().replace(f"{place}/home", "~/nni-experiments").replace(sys.executable, "python3")
    route.fulfill(response=answer, body=text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots"))
