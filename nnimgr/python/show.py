"""What a waiting Python program shows of its experiment: a live view or a table."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nnimgr.cli.progress import Progress, number, parameters_text
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.watch import Screen
from nnimgr.client.experiments import ENDED
from nnimgr.python.options import Show, check_show

if TYPE_CHECKING:
    from nnimgr.client.calls import Event
    from nnimgr.python.notebook import NotebookView

__all__ = ["Followed", "in_notebook", "screen_of"]

# events whose sentences are not shown between the rows: they are normal, or the rows show them.
# Only the end of the experiment is always shown.
_NORMAL = frozenset({"AttemptDue", "ExperimentMoved", "JobStarted", "JobWaiting", "TrialEnded", "Verdict"})
_QUIET_S = 10.0  # seconds without a line after which the present state is shown
_WIDTHS = (6, 14, 12, 12)


class _Silent:
    """Display that shows nothing."""

    def see(self, event: Event, progress: Progress) -> None: ...

    def tell(self, sentence: str, event: Event | None = None) -> None: ...

    def draw(self, progress: Progress) -> None: ...


class Followed:
    """Display that passes everything on to another one, and remembers the number of the last event."""

    def __init__(self, screen: Screen, after: int) -> None:
        self._screen, self.after = screen, after

    def see(self, event: Event, progress: Progress) -> None:
        self._screen.see(event, progress)
        if event.number is not None:
            self.after = event.number

    def tell(self, sentence: str, event: Event | None = None) -> None:
        self._screen.tell(sentence, event)

    def draw(self, progress: Progress) -> None:
        self._screen.draw(progress)


class _Table:
    """Table that gets a row for each trial when the trial ends. Sentences about problems are between rows."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._has_head = False
        self._said_at = time.monotonic()
        self._now = ""

    def see(self, event: Event, progress: Progress) -> None:
        trial = progress.trials.get(event.fields.get("trialId", "")) if event.kind == "TrialEnded" else None
        if trial is None:
            return
        if not self._has_head:
            self._has_head = True
            self._row("trial", "status", "result", "best", "parameters")
        final, best = trial.final, progress.best
        smaller = progress.profile["optimizeMode"] == "minimize"
        if event.fields["status"] == "SUCCEEDED" and final is not None and not trial.confirms:
            best = final if best is None else (min if smaller else max)(best, final)
        shown = parameters_text(trial.parameters)
        if event.fields["status"] == "FAILED" or (event.fields["status"] == "SUCCEEDED" and final is None):
            shown += f"  {event.fields['reason']}"
        self._row(str(trial.sequence), event.fields["status"], number(final), number(best), shown)

    def tell(self, sentence: str, event: Event | None = None) -> None:
        if event is None or event.kind not in _NORMAL or _is_end(event):
            self._say(sentence)

    def draw(self, progress: Progress) -> None:
        """Say what the experiment does if no line was printed for a while."""
        now = str(progress.profile.get("now") or "")
        if time.monotonic() - self._said_at >= _QUIET_S and now != self._now:
            self._now = now
            self._say(now)

    def _row(self, *cells: str) -> None:
        first = "".join(f"{cell.ljust(width - 1)} " for cell, width in zip(cells, _WIDTHS, strict=False))
        self._say(first + cells[-1])

    def _say(self, line: str) -> None:
        self._terminal.say(line)
        self._said_at = time.monotonic()


def _is_end(event: Event) -> bool:
    """Return whether the experiment has ended with this event."""
    return event.kind == "ExperimentMoved" and event.fields["status"] in ENDED


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def screen_of(
    show: Show, view: Callable[[], NotebookView] | None = None
) -> Iterator[tuple[Screen, Terminal | None]]:
    """Yield the display that ``show`` means, and the terminal for a report at the end, if there is one.

    ``view`` returns the experiment's view for a notebook. None: it has none.
    """
    check_show(show)
    terminal = Terminal(as_json=False)
    if show == "nothing":
        yield _Silent(), None
    elif view is not None and show != "table" and in_notebook():
        with view() as shown:
            shown.show()
            yield shown, None
    elif show == "live" or (show == "auto" and terminal.live):
        from nnimgr.cli.live import LiveScreen

        with LiveScreen() as screen:
            yield screen, terminal
    else:
        yield _Table(terminal), terminal
    sys.stdout.flush()
