"""A tab of the browser, and what tests ask of every page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Locator, Page, expect

PATIENCE_MS = 10_000
Theme = Literal["light", "dark"]
_THEMES: tuple[Theme, ...] = ("light", "dark")
_AXE = r"""
async (more) => (await axe.run(document, {resultTypes: ["violations"], ...more})).violations
  .filter(({impact}) => impact === "serious" || impact === "critical")
  .map(({id, help, nodes}) =>
    `${id}: ${help}:\n` + nodes.map((node) => `${node.target}: ${node.failureSummary}`).join("\n"))
"""
# All that a second theme can change; the category of colours holds a stricter rule that is off by default.
_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`));
"""


class View:
    """A tab. ``faults``: what its console and its pages have complained of."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        self._forgiven: list[str] = []  # patterns
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def open(self, path: str) -> Page:
        """Go to a path of the server."""
        self.page.goto(self.url + path)
        return self.page

    def heading(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("heading", name=name)

    def forgive(self, pattern: str) -> None:
        """Faults that this test causes on purpose, some of them a moment later."""
        self._forgiven.append(pattern)

    def accessible(self, *, themes: bool = True, only: Theme | None = None) -> None:
        """Axe finds nothing serious in what is shown, in the light nor in the dark theme, or in one of them.

        Axe takes a text's background from what lay at its place when it began. So a page whose parts still
        move is checked again; what is really wrong stays wrong.
        """
        self.page.evaluate(AXE_SCRIPT)
        rules: dict[str, Any] = {}
        for theme in _THEMES if only is None else (only,):
            self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            if themes:  # the page for signing in follows the system by itself
                expect(self.page.locator("html")).to_have_attribute("data-theme", theme)
            deadline = time.monotonic() + PATIENCE_MS / 1000
            found: list[str] = self.page.evaluate(_AXE, rules)
            while found and time.monotonic() < deadline:
                found = self.page.evaluate(_AXE, rules)
            assert not found, f"{theme}, {self.page.url}:\n" + "\n".join(found)
            rules = _COLOURS

    def check(self) -> None:
        """Nothing was complained of."""
        violations: list[str] = self.page.evaluate("window.violations ?? []")
        forgiven = re.compile("|".join(self._forgiven) or "(?!)")
        faults = [fault for fault in self.faults if not forgiven.search(fault)]
        assert not faults + violations, (self.page.url, faults, violations)


@contextmanager
def opened(browser: Browser, url: str, **more: Any) -> Iterator[View]:
    """A tab of its own, without anything kept from others; ``more``: of the browser's context."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", **more)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    context.add_init_script(_WATCH)
    try:
        view = View(context.new_page(), url)
        yield view
        view.check()
    finally:
        context.close()
