"""Live view of an experiment in a notebook: a widget with buttons if anywidget is installed, otherwise HTML.

The view is drawn from the server's event stream, by a waiting cell or by a thread of its own. After a restart
of the kernel, ``Run.attach(name)`` shows the experiment again.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from nnimgr.cli.progress import Progress, created_trials
from nnimgr.cli.watch import follow
from nnimgr.client.experiments import ENDED
from nnimgr.python.connection import Connection
from nnimgr.python.errors import translated
from nnimgr.python.notebook_page import MOST_ROWS, improved, page

if TYPE_CHECKING:
    from nnimgr.client.calls import Event
    from nnimgr.python.running import Run

__all__ = ["NotebookView"]

_DRAW_S = 1.0
_MOST_POINTS = 200
_PAUSE = (
    "pause", "Pause",
    "Stops the experiment. Trials that save their state continue from it later, the others start again.",
)  # fmt: skip
_FINISH = ("finish", "Finish", "Starts no more trials. The experiment ends when those that run have ended.")
_RESUME = ("resume", "Resume", "Continues the experiment.")


class NotebookView:
    """View of one experiment, in all cells that have shown it."""

    def __init__(self, run: Run, connection: Connection) -> None:
        self._run = run
        self._connection = connection
        self._output: _Output = _Widget(run.id, self._act) if _has_anywidget() else _Html(run.id)
        self._thread: threading.Thread | None = None
        self._is_awaited = False  # a cell waits for the experiment, and draws the view
        self._top: list[Mapping[str, Any]] = []
        self._failed: Mapping[str, Any] | None = None  # the trial that was the last one to fail
        self._is_stale = True  # the best trials and the failed one have to be read again
        self._curve: list[tuple[int, float]] | None = None  # None: to be read
        self._smaller = False

    def show(self) -> None:
        """Show the view in the cell that runs now."""
        self._draw_profile(self._connection.get())
        self._output.show()

    def follow(self) -> None:
        """Keep the view current in the background until the experiment ends."""
        if not self._is_awaited and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._follow, name="notebook", daemon=True)
            self._thread.start()

    # ---- as a screen --------------------------------------------------------------------------------------

    def __enter__(self) -> NotebookView:
        self._is_awaited = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Continue in the background if the wait ends before the experiment does."""
        self._is_awaited = False
        if kind is not None:
            self.follow()

    def see(self, event: Event, progress: Progress) -> None:
        """Take a trial's end into the curve, and have the shown trials read again."""
        if event.kind not in ("TrialEnded", "ResultReused"):
            return
        self._is_stale = True
        trial = progress.trials.get(event.fields["trialId"])
        if trial is None or trial.final is None or event.fields.get("status") != "SUCCEEDED":
            return
        if self._curve is not None:
            self._curve = improved(self._curve, trial.sequence, trial.final, smaller=self._smaller)

    def tell(self, sentence: str, event: Event | None = None) -> None:
        """Ignore the sentence, because the page says what the experiment does."""

    def draw(self, progress: Progress) -> None:
        self._draw_profile(progress.profile)

    # ---- the content --------------------------------------------------------------------------------------

    def _draw_profile(self, profile: Mapping[str, Any]) -> None:
        self._smaller = profile["optimizeMode"] == "minimize"
        if self._curve is None:
            self._curve = self._read_curve(profile)
        if self._is_stale:
            self._is_stale = False
            self._read_top()
            self._read_failed()
        self._output.draw(page(profile, top=self._top, curve=self._curve, failed=self._failed))
        status = profile["status"]
        if status in ("STOPPED", "ERROR"):
            actions = [_RESUME]
        else:
            actions = [] if status in ENDED else [_PAUSE] if status == "DRAINING" else [_PAUSE, _FINISH]
        self._output.offer(actions)

    def _read_curve(self, profile: Mapping[str, Any]) -> list[tuple[int, float]]:
        best = profile["bestTrial"]
        if best is None:
            return []
        found = self._connection.get_now("analysis", "history", points=_MOST_POINTS)
        if found is None:  # for example, the server has no numpy, which the analysis needs
            return [(int(best["sequence"]), float(best["value"]))]
        return [(int(each["sequence"]), float(each["value"])) for each in found["points"]]

    def _read_top(self) -> None:
        order = "asc" if self._smaller else "desc"
        found = self._connection.get_now("trials", sort="value", order=order, limit=MOST_ROWS)
        if found is not None:  # else the server has ended with its last experiment
            self._top = [trial for trial in found["trials"] if trial["finalValue"] is not None]

    def _read_failed(self) -> None:
        found = self._connection.get_now("trials", status=["FAILED"], sort="ended", order="desc", limit=1)
        if found is not None:  # else the server has ended with its last experiment
            self._failed = next(iter(found["trials"]), None)

    # ---- in the background --------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            client = self._connection.client()
            with translated():
                after = int(client.get("experiments", self._run.id)["lastNumber"])
                nested = contextlib.nullcontext(self)
                follow(client, self._run.id, screen=nested, after=after, draw_s=_DRAW_S)
        except Exception as error:  # the thread has nobody else to tell
            self._output.say(f"The view is not current any more: {error} Show the run again.")

    def _act(self, action: str) -> None:
        """Do what a button asks for, in a thread, because it may take seconds."""
        threading.Thread(target=self._do, args=(action,), name=action, daemon=True).start()

    def _do(self, action: str) -> None:
        run = self._run
        try:
            if action == "pause":
                self._output.say("Pausing ...")
                run.stop()
            elif action == "finish":
                run.update(trials=max(1, created_trials(self._connection.get())))
            else:
                self._output.say("Resuming ...")
                run.resume()
            self._output.say("")
        except Exception as error:  # shown beside the buttons
            self._output.say(str(error))
        self._output.done()


# ---- outputs ----------------------------------------------------------------------------------------------


class _Output(Protocol):
    """Place in a notebook that shows a page."""

    def show(self) -> None: ...

    def draw(self, html: str) -> None: ...

    def offer(self, actions: list[tuple[str, str, str]]) -> None:
        """Offer buttons: for each its action, its label and its explanation."""

    def say(self, sentence: str) -> None: ...

    def done(self) -> None:
        """Enable the buttons again, after an action."""


class _Html:
    """Page that is replaced by IPython's display handle. It has no buttons."""

    def __init__(self, experiment_id: str) -> None:
        self._id = experiment_id
        self._handle: Any = None
        self._page, self._below = "", ""

    def show(self) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(self._bundle(), raw=True, display_id=True)
        else:
            display(self._bundle(), raw=True, display_id=self._handle.display_id)

    def draw(self, html: str) -> None:
        if html != self._page:
            self._page = html
            self._update()

    def offer(self, actions: list[tuple[str, str, str]]) -> None:
        calls = {"pause": "stop()", "resume": "resume()"}
        words = [f"{action}: Run.attach({self._id!r}).{calls[action]}" for action, *_ in actions[:1]]
        self.say("".join(f"To {word}" for word in words))

    def say(self, sentence: str) -> None:
        if sentence != self._below:
            self._below = sentence
            self._update()

    def done(self) -> None: ...

    def _update(self) -> None:
        if self._handle is not None:
            self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        from html import escape

        below = f'<div style="font-size:12px;opacity:0.7">{escape(self._below)}</div>'
        return {"text/html": self._page + below, "text/plain": f"Experiment {self._id}"}


class _Widget:
    """Widget with buttons. ``act`` is called with the action of a button that was clicked."""

    def __init__(self, experiment_id: str, act: Callable[[str], None]) -> None:
        self._widget = _widget_class()()
        self._widget.silence = (
            "The kernel has not answered. If a cell runs, interrupt it: the experiment continues. "
            f"After a restart of the kernel: Run.attach({experiment_id!r})"
        )
        self._widget.on_msg(lambda widget, content, buffers: self._clicked(act, str(content["action"])))

    def show(self) -> None:
        from IPython.display import display

        display(self._widget)

    def draw(self, html: str) -> None:
        self._widget.page = html

    def offer(self, actions: list[tuple[str, str, str]]) -> None:
        self._widget.actions = [list(each) for each in actions]

    def say(self, sentence: str) -> None:
        self._widget.said = sentence

    def done(self) -> None:
        self._widget.send({"state": "done"})

    def _clicked(self, act: Callable[[str], None], action: str) -> None:
        self._widget.send({"state": "taken"})
        act(action)


def _has_anywidget() -> bool:
    import importlib.util

    return importlib.util.find_spec("anywidget") is not None


@functools.cache
def _widget_class() -> Any:
    import anywidget
    import traitlets

    class ExperimentWidget(anywidget.AnyWidget):  # type: ignore[misc]  # the library may be missing
        _esm = Path(__file__).with_name("notebook.js").read_text(encoding="utf-8")
        page = traitlets.Unicode("").tag(sync=True)
        actions = traitlets.List().tag(sync=True)
        said = traitlets.Unicode("").tag(sync=True)
        silence = traitlets.Unicode("").tag(sync=True)

    return ExperimentWidget
