"""What a browser makes of very many trials, of trials that report without pause, and of nothing.

    python -m benchmarks.dashboard [--trials 100000] [--few 1000] [--seconds 10]

Debian's Chromium without a window, on the machine of the server. The experiment is the one that
``benchmarks.past`` invents. Times are taken in the page: from the navigation, or from the event of the input,
to the frame in which the answer stands there. "cold" is the first answer of a server that has just started,
whose analysis process has to read all trials.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import statistics
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, CDPSession, Page, StorageState, sync_playwright

from benchmarks import past, proc, program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from nnimgr.home import Home
from tests.e2e.dashboard.stage import Stage, stage
from tests.e2e.dashboard.view import opened
from tests.e2e.scene import eventually

USABLE_S = 2.0
TIMES_AS_LONG = 3.0  # limit, relative to few trials
ANSWER_MS = 300.0
BLANK_MS = 200.0
DRAWN_S = 3.0
BRUSH_MS = 100.0
HEAP_MB = 400.0
FIRST_KB, ALL_KB = 150.0, 600.0
VISIBLE_S, BUSY_SHARE = 1.0, 0.3
IDLE_CPU_SHARE, IDLE_MB = 0.01, 1.0
RUNS = 5
PAUSE_MS = 500
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
LIVE_TRIALS, REPORTS_PER_S = 8, 50

ASSETS = Path(str(resources.files("nnimgr"))) / "webui" / "assets"
OVERVIEW = """() => document.querySelector("section[aria-labelledby=top-title] tbody tr") !== null
  && document.querySelector("section[aria-labelledby=best-title] tbody tr") !== null && performance.now()"""
TABLE = """() => document.querySelectorAll(".trial-row:not(.missing)").length >= 10
  && document.querySelector(".trial-row.missing") === null && performance.now()"""
# Sort or filter, and wait for the frame in which the requested rows are in the table.
ANSWERED = """async ({sort}) => {
  const grid = document.querySelector("[role=treegrid]");
  const [before, begun] = [location.search, performance.now()];
  if (sort !== undefined)
    [...grid.querySelectorAll("[role=columnheader] button")].find((one) => one.title === sort).click();
  else document.querySelector(".filter-box").requestSubmit();
  do {
    await new Promise(requestAnimationFrame);
    if (performance.now() - begun > 30000) throw new Error("the table did not answer");
  } while (location.search === before || grid.getAttribute("aria-busy") === "true" ||
           grid.querySelector(".missing") !== null);
  return performance.now() - begun;
}"""
# Scroll continuously, then jump to a random place. Return the longest time during which a visible row below
# the table's head was missing.
SCROLLED = """async (seconds) => {
  const grid = document.querySelector("[role=treegrid]");
  const head = grid.querySelector("[role=columnheader]");
  const frame = () => new Promise(requestAnimationFrame);
  const blank = () => {
    const [from, to] = [head.getBoundingClientRect().bottom, grid.getBoundingClientRect().bottom];
    return [...grid.querySelectorAll(".trial-row.missing")].some((row) => {
      const {top, bottom} = row.getBoundingClientRect();
      return bottom > from && top < to;
    });
  };
  let [longest, since, frames] = [0, null, 0];
  const look = () => {
    const now = performance.now();
    frames += 1;
    if (!blank()) since = null;
    else longest = Math.max(longest, now - (since ??= now));
  };
  const end = performance.now() + 1000 * seconds;
  while (performance.now() < end) {
    grid.scrollTop += 400;
    await frame();
    look();
  }
  const steady = longest;
  [longest, since] = [0, null];
  for (let jump = 1; jump <= 20; jump += 1) {
    grid.scrollTop = grid.scrollHeight * ((jump * 0.618) % 1);
    const begun = performance.now();
    do {
      await frame();
      look();
      if (since !== null && performance.now() - begun > 30000) throw new Error("a row did not come");
    } while (since !== null || performance.now() - begun < 400);
  }
  return {steady, jumps: longest, frames};
}"""
# Note when the pointer last moved, and when the page next drew something.
DRAWINGS = """() => {
  window.drawings = [];
  let moved = null;
  addEventListener("pointermove", (event) => {
    moved = event.timeStamp;
    window.drawings.push(0);
  }, {capture: true});
  for (const name of ["stroke", "fill", "fillRect", "putImageData", "drawImage"]) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...rest) {
      if (moved !== null) window.drawings[window.drawings.length - 1] = performance.now() - moved;
      return draw.apply(this, rest);
    };
  }
}"""
# Return whether the picture covers more than its axes. Reads a copy, because reading a canvas slows it down.
PAINTED = """() => {
  const found = [...document.querySelectorAll("[role=tabpanel] canvas")].filter(({width}) => width > 0);
  if (found.length === 0) return false;
  const copy = new OffscreenCanvas(found[0].width, found[0].height);
  const context = copy.getContext("2d", {willReadFrequently: true});
  for (const canvas of found) context.drawImage(canvas, 0, 0);
  const {data} = context.getImageData(0, 0, copy.width, copy.height);
  let covered = 0;
  for (let at = 3; at < data.length; at += 4) covered += data[at] > 0 ? 1 : 0;
  return covered > data.length / 4 / 20 && performance.now();
}"""
# Return the greatest age, over all frames, of the newest report shown for the first trial.
STALENESS = """async ({seconds, origin, column}) => {
  const frame = () => new Promise(requestAnimationFrame);
  const ages = [];
  const end = performance.now() + 1000 * seconds;
  while (performance.now() < end) {
    await frame();
    const cell = document.querySelector(".trial-row[data-index='0']")?.children[column];
    const shown = Number.parseFloat(cell?.textContent ?? "");
    if (!Number.isNaN(shown)) ages.push(Date.now() / 1000 - origin - shown);
  }
  ages.sort((a, b) => a - b);
  return {worst: ages.at(-1), median: ages[Math.floor(ages.length / 2)], frames: ages.length};
}"""
REPORTING = f"""\
import sys, time, nni
nni.get_next_parameter()
origin, end = float(sys.argv[2]), time.time() + float(sys.argv[3])
due = time.time()
while due < end:
    nni.report_intermediate_result(round(time.time() - origin, 3))
    due += 1 / {REPORTS_PER_S}
    time.sleep(max(0, due - time.time()))
nni.report_final_result(time.time() - origin)
"""


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure with many trials, then with running ones, then with none."""
    few, many = (_home(ground, trials) for trials in (options.few, options.trials))
    with chromium() as browser:
        yield from _scripts(browser, few)
        yield from _large(browser, few, many, options)
        yield from _live(browser, ground, options.seconds)
        yield from _idle(browser, few, options.seconds)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium, which reaches only this machine. Raise RuntimeError if a part is missing."""
    path = shutil.which("chromium")
    if path is None or not ASSETS.is_dir():
        raise RuntimeError("Debian's chromium and a built dashboard are needed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", NOWHERE_ELSE])
        try:
            yield browser
        finally:
            browser.close()


def _home(ground: Ground, trials: int) -> Path:
    """Return a folder whose home has the experiment ``past`` with this number of trials."""
    place = ground.folder(f"past-{trials}")
    asyncio.run(past.write(Home(place / "home"), "past", trials=trials, metrics=10, seed=1))
    return place


def sign_in(browser: Browser, made: Stage) -> StorageState:
    """Sign in. Return the browser's state afterwards."""
    with opened(browser, made.url) as view:
        view.page.goto(made.sign_in())
        view.page.wait_for_url(f"{made.url}/")
        return view.page.context.storage_state()


def until(page: Page, url: str, there: str) -> float:
    """Open the page. Return the seconds from the navigation to the frame in which the condition holds."""
    page.goto(url, wait_until="commit")
    return float(page.wait_for_function(there, polling="raf", timeout=120_000).json_value()) / 1e3


def _usable(browser: Browser, made: Stage, state: StorageState, path: str, there: str) -> list[float]:
    """Return the seconds until a page is usable, each time in a fresh browser. The first value is cold."""
    found = []
    for _ in range(RUNS):
        with opened(browser, made.url, storage_state=state) as view:
            found.append(until(view.page, made.url + path, there))
    return found


def _large(browser: Browser, few: Path, many: Path, options: argparse.Namespace) -> Iterator[Row]:
    pages = {
        "overview": ("/experiments/past", OVERVIEW),
        "table of trials": ("/experiments/past/trials", TABLE),
    }
    with stage(few) as made:
        state = sign_in(browser, made)
        base = {name: _usable(browser, made, state, *page) for name, page in pages.items()}
    with stage(many) as made:
        state = sign_in(browser, made)
        for name, page in pages.items():
            times = _usable(browser, made, state, *page)
            median, least = statistics.median(times), statistics.median(base[name])
            yield Row(
                name=f"{name} usable, at {options.trials:,} trials",
                value=times[0],
                unit="s",
                better=Better.LESS,
                limit=USABLE_S,
                details={"median_s": median, "median_of_few_s": least, "few": options.few},
            )
            yield Row(
                name=f"{name} at {options.trials:,} trials against {options.few:,}",
                value=median / least,
                unit="times",
                better=Better.LESS,
                limit=TIMES_AS_LONG,
            )
        with opened(browser, made.url, storage_state=state) as view:
            yield from _table(view.page, made, options)
            yield from _parallel(view.page, made, options.trials)


def _table(page: Page, made: Stage, options: argparse.Namespace) -> Iterator[Row]:
    """Measure sorting, filtering and scrolling of the table, and the page's memory at the end."""
    columns = "sequence,id,status,value,duration,parameters.lr"
    until(page, f"{made.url}/experiments/past/trials?columns={columns}", TABLE)
    page.get_by_role("columnheader", name="lr").wait_for()  # shown when the schema is loaded
    for what, acts in {
        "sort": [{"sort": name} for name in ("Default metric", "Duration", "lr", "Status", "Default metric")],
        "filter": [{"filter": text} for text in ("lr<0.01", "optimizer/_name:adam;layers>8", "value>0.5")],
    }.items():
        times = [answered(page, act) for act in acts]
        yield Row(
            name=f"{what} of {options.trials:,} trials answered",
            value=max(times),
            unit="ms",
            better=Better.LESS,
            limit=ANSWER_MS,
            details={"median_ms": statistics.median(times), "times": len(times)},
        )
    until(page, f"{made.url}/experiments/past/trials", TABLE)
    scrolled = page.evaluate(SCROLLED, options.seconds)
    yield Row(
        name="longest blank while the table is scrolled",
        value=float(max(scrolled["steady"], scrolled["jumps"])),
        unit="ms",
        better=Better.LESS,
        limit=BLANK_MS,
        details={
            "without_jumps_ms": float(scrolled["steady"]),
            "of_jumps_ms": float(scrolled["jumps"]),
            "frames": scrolled["frames"],
        },
    )
    heaps = {"table": heap_mb(page)}
    for tab in ("history", "slices", "parallel"):
        page.goto(f"{made.url}/experiments/past/analysis?tab={tab}")
        page.locator("[role=tabpanel] canvas").first.wait_for(timeout=120_000)
        page.wait_for_timeout(4 * PAUSE_MS)  # for later requests and drawings
        heaps[tab] = heap_mb(page)
    yield Row(
        name=f"the page's heap, at {options.trials:,} trials",
        value=max(heaps.values()),
        unit="MB",
        better=Better.LESS,
        limit=HEAP_MB,
        details={f"{name}_mb": value for name, value in heaps.items()},
    )


def _parallel(page: Page, made: Stage, trials: int) -> Iterator[Row]:
    """Measure parallel coordinates: from the navigation to the picture, and from the pointer to the
    next one.
    """
    drawn = until(page, f"{made.url}/experiments/past/analysis?tab=parallel", PAINTED)
    yield Row(
        name=f"parallel coordinates of {trials:,} trials drawn",
        value=drawn,
        unit="s",
        better=Better.LESS,
        limit=DRAWN_S,
    )
    page.wait_for_timeout(PAUSE_MS)
    page.evaluate(DRAWINGS)
    box = page.locator(".axis-track").nth(1).bounding_box()
    if box is None:
        raise RuntimeError("there is no axis to brush")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    page.mouse.down()
    for step in range(1, 16):
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5 + step * (box["height"] - 10) / 16)
        page.wait_for_timeout(PAUSE_MS)  # for the requests to the server
    page.mouse.up()
    times = [float(each) for each in page.evaluate("drawings")[2:-1]]
    yield Row(
        name=f"brush of {trials:,} trials: from the pointer to the last picture of it",
        value=max(times),
        unit="ms",
        better=Better.LESS,
        limit=BRUSH_MS,
        details={"median_ms": statistics.median(times), "moves": len(times)},
    )


def answered(page: Page, act: dict[str, str]) -> float:
    """Return the milliseconds until the table shows the requested rows."""
    if "filter" in act:
        page.get_by_role("combobox", name="Filter").fill(act["filter"])
        page.keyboard.press("Escape")
    return float(page.evaluate(ANSWERED, act))


def heap_mb(page: Page) -> float:
    """Return the memory of the page's script before garbage collection: objects and array buffers, in MB."""
    session = page.context.new_cdp_session(page)
    try:
        used = session.send("Runtime.getHeapUsage")
    finally:
        session.detach()
    parts = ("usedSize", "embedderHeapUsedSize", "backingStorageSize")
    return float(sum(used.get(part, 0.0) for part in parts)) / 1e6


def metrics(session: CDPSession) -> dict[str, float]:
    """Return Chromium's metrics of the page. ``TaskDuration`` is the main thread's time, in s."""
    session.send("Performance.enable", {"timeDomain": "timeTicks"})
    return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}


def _scripts(browser: Browser, place: Path) -> Iterator[Row]:
    """Measure the compressed bytes of scripts until the list of experiments is shown, and of all scripts."""
    with stage(place) as made:
        state = sign_in(browser, made)
        with opened(browser, made.url, storage_state=state) as view:
            view.page.goto(f"{made.url}/")
            view.page.get_by_role("link", name="image classifier").wait_for()
            first: int = view.page.evaluate(
                """performance.getEntriesByType("resource").filter(({name}) => name.endsWith(".js"))
                  .reduce((sum, {encodedBodySize}) => sum + encodedBodySize, 0)"""
            )
    every = sum(path.stat().st_size for path in ASSETS.glob("*.js.gz"))
    for name, value, limit in (
        ("script before the list of experiments is there, compressed", first, FIRST_KB),
        ("script of all pages, compressed", every, ALL_KB),
    ):
        yield Row(name=name, value=value / 1e3, unit="kB", better=Better.LESS, limit=limit)


def _live(browser: Browser, ground: Ground, seconds: float) -> Iterator[Row]:
    """Measure the age of an open table's data while trials report, and the page's load."""
    origin = time.time()
    with stage(ground.folder("live")) as made:
        made.create(
            "live",
            REPORTING,
            trialConcurrency=LIVE_TRIALS,
            maxTrialNumber=LIVE_TRIALS,
            arguments=f"{origin} {seconds + 30}",
        )
        state = sign_in(browser, made)
        eventually(
            lambda: all(t["intermediates"] for t in made.trials("live")) and len(made.trials("live")) == 8,
            "all trials to report",
        )
        with opened(browser, made.url, storage_state=state) as view:
            path = f"/experiments/live/trials?columns={quote('sequence,latest')}"
            until(view.page, made.url + path, "() => document.querySelector('.trial-row') && 1")
            session = view.page.context.new_cdp_session(view.page)
            before, begun = metrics(session), time.monotonic()
            ages: dict[str, Any] = view.page.evaluate(
                STALENESS, {"seconds": seconds, "origin": origin, "column": 2}
            )
            after, passed = metrics(session), time.monotonic() - begun
        made.ask("POST", "/live/stop")
    rate = f"{LIVE_TRIALS} trials that report {REPORTS_PER_S} times a second each"
    yield Row(
        name=f"age of the newest shown report, of {rate}",
        value=float(ages["worst"]),
        unit="s",
        better=Better.LESS,
        limit=VISIBLE_S,
        details={"median_s": float(ages["median"]), "frames": ages["frames"]},
    )
    yield Row(
        name=f"the page's main thread busy, beside {rate}",
        value=(after["TaskDuration"] - before["TaskDuration"]) / passed,
        unit="of the time",
        better=Better.LESS,
        limit=BUSY_SHARE,
    )


def _idle(browser: Browser, place: Path, seconds: float) -> Iterator[Row]:
    """Measure the server's cost of an open page while nothing happens."""
    with stage(place) as made:
        state = sign_in(browser, made)
        pid = made.server.process.pid
        with opened(browser, made.url, storage_state=state) as view:  # all modules are loaded by now
            until(view.page, f"{made.url}/experiments/past", OVERVIEW)
        time.sleep(2)
        alone, alone_kib = share(pid, seconds), proc.pss_kib(pid)
        with opened(browser, made.url, storage_state=state) as view:
            until(view.page, f"{made.url}/experiments/past", OVERVIEW)
            time.sleep(2)
            watched, watched_kib = share(pid, seconds), proc.pss_kib(pid)
    yield Row(
        name="the server's CPU for a page that is open",
        value=watched - alone,
        unit="of a core",
        better=Better.LESS,
        limit=IDLE_CPU_SHARE,
        details={"without_a_page": alone},
    )
    yield Row(
        name="the server's memory for a page that is open",
        value=(watched_kib - alone_kib) / 1024,
        unit="MiB",
        better=Better.LESS,
        limit=IDLE_MB,
        details={"without_a_page_mib": alone_kib / 1024},
    )


def share(pid: int, seconds: float) -> float:
    """Return the CPU time of a process in the next ``seconds``, as a share of a core."""
    before, begun = proc.run_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (proc.run_ns(pid) - before) / 1e9 / (time.monotonic() - begun)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--few", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
