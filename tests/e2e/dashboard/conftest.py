"""One server and one browser for all tests of the dashboard; for each a tab that must stay without errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState, sync_playwright

from tests.e2e.dashboard.stage import Stage, furnish, stage
from tests.e2e.dashboard.view import View, opened

CHROMIUM = shutil.which("chromium")
BUILT = (Path(str(resources.files("nnimgr"))) / "webui" / "index.html").is_file()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: Debian's package 'chromium'")
    if not BUILT:
        pytest.skip("the dashboard is not built: python hatch_build.py")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture(scope="package")
def furnished(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server with the experiments of ``furnish``."""
    with stage(tmp_path_factory.mktemp("stage")) as made:
        furnish(made)
        yield made


@pytest.fixture(scope="package")
def signed_in(furnished: Stage, browser: Browser) -> StorageState:
    """What a browser keeps that has signed in to the furnished server."""
    with opened(browser, furnished.url) as view:
        view.page.goto(furnished.sign_in())
        view.page.wait_for_url(f"{furnished.url}/")
        return view.page.context.storage_state()


@pytest.fixture
def view(furnished: Stage, browser: Browser, signed_in: StorageState) -> Iterator[View]:
    """A tab that is signed in to the furnished server; its errors fail the test."""
    with opened(browser, furnished.url, storage_state=signed_in) as made:
        yield made
