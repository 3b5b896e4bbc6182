"""The view of a run in a notebook, with a fake notebook in place of IPython."""

from __future__ import annotations

import sys
from html import unescape
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nnimgr import Experiment, Run, aio, space, tune
from nnimgr.python.notebook_page import improved, page
from tests.python.test_running import until

SPACE = {"x": space.choice([0, 1, 2, 3])}
PROFILE: dict[str, Any] = {
    "id": "abc", "name": "<fast>", "status": "RUNNING", "reason": "", "now": "2 of 2 slots busy",
    "counts": {"SUCCEEDED": 3, "FAILED": 1, "RUNNING": 2}, "withoutResult": 0, "retried": 0,
    "limits": {"maxTrialNumber": 10, "maxExperimentDurationS": None}, "durationS": 61.0,
    "bestTrial": {"trialId": "b", "sequence": 2, "value": 0.75, "parameters": {"lr": 0.1, "net": "<big>"}},
    "optimizeMode": "maximize", "objectives": {}, "errors": [],
    "notices": [{"sentence": "the disk is full", "detail": ""}],
}  # fmt: skip
TOP = [{"sequence": 2, "finalValue": 0.75, "parameters": {"lr": 0.1, "net": "<big>"}}]


class FakeNotebook:
    """Records what is displayed. ``shown``: display id -> the HTML that is shown there now."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: dict[str, str] = {}
        self.cells: list[str] = []
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setitem(sys.modules, "anywidget", None)

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool | str) -> Any:
        name = f"display-{len(self.shown)}" if display_id is True else str(display_id)
        self.cells.append(name)

        def update(bundle: dict[str, str], *, raw: bool) -> None:
            self.shown[name] = bundle["text/html"]

        update(bundle, raw=raw)
        return SimpleNamespace(display_id=name, update=update)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeNotebook:
    return FakeNotebook(monkeypatch)


# ---- the page ---------------------------------------------------------------------------------------------


def test_the_page_says_what_happens() -> None:
    html = page(PROFILE, top=TOP, curve=[(0, 0.5), (2, 0.75)])
    for text in (
        "&lt;fast&gt;", "RUNNING", "1 min 1 s", "2 of 2 slots busy", "4 of 10",
        "3 SUCCEEDED, 1 FAILED, 2 RUNNING", "maximize", "0.75", "trial 2",
        "lr=0.1, net=&lt;big&gt;", "The disk is full",
    ):  # fmt: skip
        assert text in html
    assert "<big>" not in html


def test_the_curve_is_a_line_with_steps_to_the_newest_trial() -> None:
    html = page(PROFILE, top=[], curve=[(0, 0.5), (2, 0.75)])
    assert 'd="M58.0,92.0H158.8V8.0H310.0"' in html
    assert "<svg" not in page(PROFILE, top=[], curve=[])
    assert 'd="M310.0,50.0H310.0"' in page(PROFILE, top=[], curve=[(5, 0.5)])


def test_trials_may_end_in_another_order_than_they_began() -> None:
    curve: list[tuple[int, float]] = []
    for sequence, value in ((1, 0.5), (3, 0.6), (2, 0.4), (0, 0.2), (4, 0.6), (2, 0.55), (5, float("nan"))):
        curve = improved(curve, sequence, value, smaller=False)
    assert curve == [(0, 0.2), (1, 0.5), (2, 0.55), (3, 0.6)]
    assert improved(curve[:2], 2, 0.7, smaller=False) == [(0, 0.2), (1, 0.5), (2, 0.7)]
    assert improved([(1, 0.5)], 2, 0.4, smaller=True) == [(1, 0.5), (2, 0.4)]


def test_a_limit_below_the_number_of_trials_is_shown() -> None:
    lower = {**PROFILE, "limits": {**PROFILE["limits"], "maxTrialNumber": 3}}
    assert "4, above the limit of 3 trials" in page(lower, top=[], curve=[])


def test_errors_of_algorithms_are_shown_in_every_state() -> None:
    raised = [{"sentence": f"the tuner's {call} raised <{call}>", "traceback": ""} for call in "abbcd"]
    for status in ("RUNNING", "DONE", "ERROR"):
        html = page({**PROFILE, "status": status, "errors": raised}, top=[], curve=[])
        assert "the tuner&#x27;s a raised &lt;a&gt;</div>" in html
        assert "the tuner&#x27;s b raised &lt;b&gt; (2 times)</div>" in html
        assert "&lt;c&gt;" in html and "&lt;d&gt;" not in html


def test_the_reason_of_the_last_failure_is_shown() -> None:
    failed = {"sequence": 3, "id": "k3x9z", "reason": "exited with code 1: KeyError: 'y'"}
    html = unescape(page(PROFILE, top=[], curve=[], failed=failed))
    assert "Trial 3 (k3x9z) FAILED: exited with code 1: KeyError: 'y'</div>" in html
    assert "Its output: Run.attach('abc').trials[3].logs('stderr')</div>" in html
    quiet = unescape(page(PROFILE, top=[], curve=[], failed={**failed, "reason": "exited with code 1"}))
    assert "Its output: Run.attach('abc').trials[3].logs()</div>" in quiet
    assert "Its output" not in page(PROFILE, top=[], curve=[], failed={**failed, "logPath": ""})


# ---- the view ---------------------------------------------------------------------------------------------


def test_a_waiting_cell_shows_the_view(port: int, notebook: FakeNotebook) -> None:
    results = tune("mine.py:square", SPACE, minimize=True, trials=4, tuner="GridSearch", server=port)
    assert results.best_value == 0.0
    (html,) = notebook.shown.values()
    assert "DONE" in html and "4 of 4" in html and "<svg" in html and html.count("<tr") == 5


def test_a_waiting_cell_shows_why_trials_fail(port: int, notebook: FakeNotebook) -> None:
    results = tune("mine.py:fails", SPACE, minimize=True, trials=2, server=port)
    (html,) = notebook.shown.values()
    reason = results.errors[-1].reason
    assert reason.startswith("exited with code 1: ValueError: no good: ")
    assert f"Trial 1 ({results.errors[-1].id}) FAILED: {reason}</div>" in unescape(html)
    notebook.shown.clear()
    run = Run.attach(results.trials[0]._connection.id)
    for shown in (run, aio.Run(run)):
        shown._ipython_display_()
        assert reason in notebook.shown.popitem()[1]
    assert repr(aio.Run(run)) == f"<aio.Run {run.id}>"


def test_a_run_shows_itself_in_the_background(port: int, notebook: FakeNotebook) -> None:
    run = Experiment("mine.py:waits", {"x": space.randint(1, 4)}, maximize=True, name="long").start(
        server=port
    )
    run._ipython_display_()
    (name,) = notebook.shown
    until(lambda: "1 RUNNING" in notebook.shown[name])
    assert "To pause: Run.attach('long').stop()" in notebook.shown[name].replace("&#x27;", "'")
    with pytest.raises(TimeoutError):
        run.wait(0.01)
    assert notebook.cells == [name, name]
    run.stop()
    until(lambda: "STOPPED" in notebook.shown[name])
    assert "To resume: Run.attach(" in notebook.shown[name]
    run.resume()
    until(lambda: "RUNNING" in notebook.shown[name])
    again = Run.attach("long")
    again._ipython_display_()
    assert len(notebook.shown) == 2
    again.stop()
    until(lambda: all("STOPPED" in html for html in notebook.shown.values()))


def test_there_is_no_view_in_a_terminal(port: int) -> None:
    run = Experiment("mine.py:square", SPACE, minimize=True, trials=1).start(server=port)
    with pytest.raises(NotImplementedError):  # IPython then prints the repr
        run._ipython_display_()
    run.wait(show="nothing")
