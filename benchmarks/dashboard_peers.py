"""Our dashboard compared with NNI 3.0's own web page: the same trials in the same browser, in turn.

    python -m benchmarks.dashboard_peers --peers [--trials 1000] [--seconds 30]

The trials are those of ``benchmarks.past``, all of this machine; ``benchmarks.nni_past`` writes them into
NNI's database. In both products the experiment continues with two sleeping trials, because NNI's page sends
no requests for a finished experiment. Each load is in a fresh browser. A page is usable in the frame in which
its tables have rows. NNI's page shows the 10 best trials on its overview, and the first 20 in its table.
Without ``--peers``, nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState

from benchmarks import past, program
from benchmarks.dashboard import OVERVIEW, TABLE, answered, chromium, heap_mb, metrics, share, sign_in, until
from benchmarks.ground import Ground, looks
from benchmarks.nni_past import SLEEPING, on_nni
from benchmarks.peers.ask import Peers
from benchmarks.peers.setup import PEERS, interpreter
from benchmarks.report import Better, Figure, Row
from nnimgr.home import Home
from tests.e2e.dashboard.stage import Stage, stage

PEER, OURS = PEERS["nni"].title, "ours"
RUNS = 5
START_LIMIT_S = 60.0
SETTLE_S = 3.0
FILTERS = ("lr<0.01", "value>0.9", "lr>0.1")
NNI_FILTERS = ("lr<0.01", "Default metric>0.9", "lr>0.1")
NNI_ROWS = "() => document.querySelectorAll('.ms-DetailsRow').length >= 10 && performance.now()"
# Bytes of scripts: as sent (NNI does not compress them), and decoded.
SCRIPT = """() => ["encodedBodySize", "decodedBodySize"].map((size) =>
  performance.getEntriesByType("resource").filter(({name}) => name.endsWith(".js"))
    .reduce((sum, script) => sum + script[size], 0))"""
# Measure from the key press to the frame in which NNI's table has other rows.
NNI_WATCH = """() => {
  const rows = () => [...document.querySelectorAll(".ms-DetailsRow")].map((row) => row.innerText).join();
  const before = rows();
  window.answered = new Promise((answer, fail) => addEventListener("keydown", async () => {
    const begun = performance.now();
    do {
      await new Promise(requestAnimationFrame);
      if (performance.now() - begun > 30000) return fail(new Error("the table did not answer"));
    } while (rows() === before || rows() === "");
    answer(performance.now() - begun);
  }, {capture: true, once: true}));
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two dashboards. ``pages``: a path, and the condition that holds when the page is usable."""

    name: str
    url: str
    pid: int
    pages: Mapping[str, tuple[str, str]]
    filters: Sequence[str]
    filtered: Callable[[Page, str], float]
    state: StorageState | None = None

    @contextlib.contextmanager
    def opened(self, browser: Browser, page: str) -> Iterator[tuple[Page, float]]:
        """Open a page in a browser with only a sign-in. Yield the usable page and the seconds."""
        context = browser.new_context(
            viewport={"width": 1280, "height": 800}, locale="en-GB", storage_state=self.state
        )
        try:
            tab = context.new_page()
            path, there = self.pages[page]
            yield tab, until(tab, self.url + path, there)
        finally:
            context.close()


def nni_filtered(page: Page, text: str) -> float:
    """Return the milliseconds until NNI's table shows the filtered rows."""
    box = page.locator(".ms-SearchBox-field")
    box.fill(text)
    page.evaluate(NNI_WATCH)
    box.press("Enter")
    return float(page.evaluate("window.answered"))


@contextlib.contextmanager
def _ours(browser: Browser, place: Path) -> Iterator[Side]:
    with stage(place) as made:
        made.ask("POST", "/past/resume")
        _wait_for_two(made)
        yield Side(
            name=OURS,
            url=made.url,
            pid=made.server.process.pid,
            pages={
                "overview": ("/experiments/past", OVERVIEW),
                "table of trials": ("/experiments/past/trials", TABLE),
            },
            filters=FILTERS,
            filtered=lambda page, text: answered(page, {"filter": text}),
            state=sign_in(browser, made),
        )


def _wait_for_two(made: Stage) -> None:
    for _ in looks(START_LIMIT_S, pause_s=0.2):
        if made.profile("past")["counts"].get("RUNNING") == 2:
            return


@contextlib.contextmanager
def _theirs(ground: Ground, database: Path) -> Iterator[Side]:
    """Start NNI with its page. Raise RuntimeError, TimeoutError."""
    manager = interpreter("nni")
    if manager is None:
        raise RuntimeError("peer not installed")
    with on_nni(ground, manager, database) as running:
        yield Side(
            name=PEER,
            url=running.url,
            pid=running.pid,
            pages={"overview": ("/oview", NNI_ROWS), "table of trials": ("/detail", NNI_ROWS)},
            filters=NNI_FILTERS,
            filtered=nni_filtered,
        )


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure loading, filtering and idling on both sides."""
    if not peers.wanted:
        return
    place = ground.folder("past")
    made = past.write(Home(place / "home"), "past", trials=options.trials, metrics=10, seed=1, machines=())
    asyncio.run(made)
    directory = place / "home" / "past"
    (directory / "code" / "trial.py").write_text(SLEEPING, encoding="utf-8")
    with chromium() as browser, contextlib.ExitStack() as servers:
        theirs, note = None, ""
        try:
            theirs = servers.enter_context(_theirs(ground, directory / "db" / "nnimgr.sqlite"))
        except (RuntimeError, TimeoutError) as missing:
            note = str(missing)
        ours = servers.enter_context(_ours(browser, place))
        sides = [side for side in (ours, theirs) if side is not None]
        for row in chain(_loads(browser, sides, options.trials), _idle(browser, sides, options)):
            yield row if theirs is not None else replace(row, peers=(Figure(PEER, None, note),))


Found = dict[str, dict[str, list[float]]]  # by measurement and by side


def _row(found: Found, what: str, name: str, unit: str, scale: float = 1.0) -> Row:
    """Return a row with our median and NNI's."""
    middle = {side: scale * statistics.median(values) for side, values in found[what].items()}
    return Row(
        name=name,
        value=middle[OURS],
        unit=unit,
        better=Better.LESS,
        details={"times": len(found[what][OURS]), "worst": scale * max(found[what][OURS])},
        peers=(Figure(PEER, middle.get(PEER)),),
    )


def _loads(browser: Browser, sides: Sequence[Side], trials: int) -> Iterator[Row]:
    found: Found = defaultdict(lambda: defaultdict(list))
    for _ in range(RUNS):
        for side in sides:
            with side.opened(browser, "overview") as (page, seconds):
                found["overview"][side.name].append(seconds)
                sent, read = page.evaluate(SCRIPT)
                found["script as it is sent"][side.name].append(float(sent))
                found["script as it is read"][side.name].append(float(read))
                found["heap of the overview"][side.name].append(_held_mb(page))
            with side.opened(browser, "table of trials") as (page, seconds):
                found["table of trials"][side.name].append(seconds)
                found["heap of the table of trials"][side.name].append(_held_mb(page))
                found["filter"][side.name] += [side.filtered(page, text) for text in side.filters]
    for name in ("overview", "table of trials"):
        yield _row(found, name, f"{name} usable beside NNI's, at {trials:,} trials", "s")
    yield _row(found, "filter", f"filter answered beside NNI's, at {trials:,} trials", "ms")
    for name in ("heap of the overview", "heap of the table of trials"):
        yield _row(found, name, f"{name} beside NNI's, at {trials:,} trials", "MB")
    for name in ("script as it is sent", "script as it is read"):
        yield _row(found, name, f"{name} for the overview, beside NNI's", "kB", 1e-3)


def _held_mb(page: Page) -> float:
    """Return the memory of the page's script after garbage collection, in MB."""
    session = page.context.new_cdp_session(page)
    try:
        session.send("HeapProfiler.collectGarbage")
    finally:
        session.detach()
    return heap_mb(page)


def _idle(browser: Browser, sides: Sequence[Side], options: argparse.Namespace) -> Iterator[Row]:
    """Measure the cost of an open overview while no trial reports."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for side in sides:
        found["alone"][side.name].append(share(side.pid, options.seconds))
        with side.opened(browser, "overview") as (page, _):
            page.wait_for_timeout(1000 * SETTLE_S)
            session = page.context.new_cdp_session(page)
            before, begun = metrics(session), time.monotonic()
            watched = share(side.pid, options.seconds)
            after, passed = metrics(session), time.monotonic() - begun
        found["page"][side.name].append((after["TaskDuration"] - before["TaskDuration"]) / passed)
        found["server"][side.name].append(watched)
    idle = f"while {options.trials:,} trials are over and two say nothing"
    yield _row(found, "page", f"the page's main thread busy beside NNI's, {idle}", "of the time")
    names = {OURS: "without_a_page", PEER: "nni_without_a_page"}
    alone = {names[side]: values[0] for side, values in found["alone"].items()}
    server = _row(found, "server", f"the server's CPU with that page open beside NNI's, {idle}", "of a core")
    yield replace(server, details=alone)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of doing nothing; NNI asks every 10")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
