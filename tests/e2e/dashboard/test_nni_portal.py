"""NNI 3.0's own web page, as published, over our routes."""

from __future__ import annotations

import mimetypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.dashboard.stage import Stage, stage
from tests.e2e.sdks import NoSdk, sdk_python

TRIALS = 1000
ORIGIN = "http://portal.test"  # an address that exists in the browser only
PAGES = {"/oview": "Overview", "/detail": "Trials detail", "/experiment": "All experiments"}


@pytest.fixture(scope="module")
def portal() -> Path:
    """The folder of the page in NNI's package."""
    try:
        python = sdk_python("3.0")
    except NoSdk as refusal:
        pytest.skip(str(refusal))
    (found,) = python.parent.parent.glob("lib/python3*/site-packages/nni_node/static")
    return found


@pytest.fixture(scope="module")
def viewed(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server that shows an experiment with many trials."""
    directory = tmp_path_factory.mktemp("portal")
    command = [sys.executable, "-m", "benchmarks.past", str(directory / "home"), "--trials", str(TRIALS)]
    subprocess.run([*command, "--metrics", "5"], check=True, capture_output=True)
    with stage(directory) as made:
        made.ask("POST", "/past/view")
        yield made


def show(page: Page, portal: Path, server: Stage) -> list[str]:
    """Serve the page from NNI's package and its requests from our server. Return the requests that failed."""
    failed: list[str] = []

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith(("/api/", "/logs/")):
            query = urlsplit(route.request.url).query
            with closing(server.server.connection()) as connection:
                body = route.request.post_data
                target = f"{path}?{query}" if query else path
                connection.request(route.request.method, target, body=body, headers=server.server.bearer)
                response = connection.getresponse()
                content = response.read()
            if response.status >= 400:
                failed.append(f"{response.status} {path}: {content[:200]!r}")
            kind = response.headers.get("Content-Type", "")
            route.fulfill(status=response.status, body=content, content_type=kind)
            return
        file = portal / path.lstrip("/")
        if not file.is_file():
            file = portal / "index.html"
        route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(file.name)[0])

    page.route("**/*", lambda route: route.abort())  # fonts from the network
    page.route(f"{ORIGIN}/**", answer)
    return failed


def test_its_three_pages(browser: Browser, viewed: Stage, portal: Path) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        page = context.new_page()
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        failed = show(page, portal, viewed)
        for path, title in PAGES.items():
            page.goto(ORIGIN + path)
            expect(page.get_by_text(title, exact=True).locator("visible=true").first).to_be_visible()
            expect(page.locator(".ms-MessageBar--error")).to_have_count(0)
        page.goto(ORIGIN + "/oview")
        largest = max(viewed.trials("past"), key=lambda trial: trial["finalValue"] or 0.0)
        expect(page.get_by_text(largest["id"]).first).to_be_visible()  # the page maximises by itself
        page.goto(ORIGIN + "/detail")
        expect(page.get_by_text("SUCCEEDED").first).to_be_visible()
        assert not failed and not broken, (failed, broken)
    finally:
        context.close()
