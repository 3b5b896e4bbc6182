"""Live view of an experiment: a part of the terminal that is updated while the experiment runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nnimgr.cli.progress import (
    LiveTrial,
    Progress,
    finished_text,
    finished_trials,
    notice_lines,
    number,
    parameters_text,
    status_addition,
    wanted_trials,
)
from nnimgr.cli.summary import confirmed_lines, goal_of
from nnimgr.cli.times import duration_text
from nnimgr.client.calls import Event
from nnimgr.client.lines import wrapped

__all__ = ["LiveScreen", "view"]

_MOST_TRIALS = 8
_INDENT = "    "  # before the second and later lines of a sentence
_ONE_LINE: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
_STYLES = {
    "RUNNING": "green",
    "DONE": "bold green",
    "SUCCEEDED": "green",
    "ERROR": "bold red",
    "FAILED": "red",
    "UNKNOWN": "magenta",
    "WAITING": "yellow",
    "EARLY_STOPPED": "cyan",
    "DRAINING": "yellow",
}


class LiveScreen:
    """Part of the terminal that is redrawn repeatedly. Its last state remains visible at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._received_at = datetime.now(UTC)
        self._profile: Mapping[str, Any] | None = None

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def see(self, event: Event, progress: Progress) -> None:
        """Ignore the event, because the live view is drawn from the progress."""

    def tell(self, sentence: str, event: Event | None = None) -> None:
        """Ignore the sentence, because the live view shows the most recent sentences anyway."""

    def draw(self, progress: Progress) -> None:
        now = datetime.now(UTC)
        if progress.profile is not self._profile:
            self._profile, self._received_at = progress.profile, now
        self._live.update(view(progress, now=now, since=now - self._received_at), refresh=True)


def view(progress: Progress, *, now: datetime, since: timedelta) -> RenderableType:
    """Build the live view of an experiment. ``since``: time since the server sent the experiment's state."""
    profile = progress.profile
    name = f" {profile['name']}" if profile["name"] not in ("", profile["id"]) else ""
    head = Text.assemble(
        ("Experiment ", "bold"),
        (f"{profile['id']}{name}  ", "bold cyan"),
        (progress.status, _STYLES.get(progress.status, "")),
        **_ONE_LINE,
    )
    sentence = str(profile.get("now") or progress.reason)
    parts: list[RenderableType] = [
        head,
        *([_Sentence(sentence)] if sentence else []),
        _bars(profile, since=since),
        _counts(profile),
        Text.assemble(("Goal   ", "bold"), goal_of(profile), **_ONE_LINE),
    ]
    best = profile["bestTrial"]
    if best is not None:
        parts.append(
            Text.assemble(
                ("Best   ", "bold"),
                (number(best["value"]), "bold green"),
                f"  trial {best['sequence']} ({best['trialId']})  {parameters_text(best['parameters'])}",
                **_ONE_LINE,
            )
        )
    confirmed = confirmed_lines(profile)
    if confirmed:
        parts.append(Text("Results of runs with other seeds, the best mean first", style="bold"))
        parts.extend(Text(f"  {line}", **_ONE_LINE) for line in confirmed)
    running = [(key, trial) for key, trial in progress.trials.items() if trial.started_at is not None]
    if running:
        parts.append(_trials(running, now=now))
    for sentence, place in notice_lines(profile):
        parts.append(_Sentence(sentence, style="bold yellow"))
        if place:
            parts.append(_line(f"  {place}", style="yellow"))
    if progress.recent:
        parts.append(Text("Recent", style="bold"))
    return _Screenful(parts, list(progress.recent))


class _Sentence:
    """Sentence that is wrapped at the width of the terminal. Commands in it are not broken."""

    def __init__(self, text: str, *, style: str = "") -> None:
        self._text, self._style = text, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(wrapped(self._text, options.max_width, indent=""), style=self._style)


class _Screenful:
    """Parts of the live view, and below them recent sentences: whole ones if the screen has room for them.

    The newest sentences get the room first. Each of the others is cut at the width of the screen.
    """

    def __init__(self, parts: Sequence[RenderableType], sentences: Sequence[str]) -> None:
        self._parts = parts
        self._sentences = sentences

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._parts
        above = console.render_lines(Group(*self._parts), options, pad=False)
        room = options.max_height - len(above) - len(self._sentences)
        shown: list[RenderableType] = []
        for sentence in reversed(self._sentences):
            lines = wrapped(sentence, max(1, options.max_width - len(_INDENT)), indent="").splitlines()
            if 1 < len(lines) <= room + 1:
                room -= len(lines) - 1
                whole = f"\n{_INDENT}".join(lines)
                shown.append(Text(f"  {whole}", style="dim"))
            else:
                shown.append(_line(f"  {sentence}", style="dim"))
        yield from reversed(shown)


def _line(text: str, *, style: str) -> Text:
    """Return a line of text that is cut at the width of the terminal instead of wrapped."""
    return Text(text, style=style, **_ONE_LINE)


def _bars(profile: Mapping[str, Any], *, since: timedelta) -> Table:
    table = Table.grid(padding=(0, 1))
    done, most = finished_trials(profile), wanted_trials(profile)
    shown = f"{finished_text(profile)}{'' if most else ', no limit'}"
    table.add_row(Text("Trials", style="bold"), _bar(done, most), shown)
    seconds = profile["durationS"]
    if profile["status"] in ("RUNNING", "DRAINING"):
        seconds += since.total_seconds()
    longest = profile["limits"]["maxExperimentDurationS"]
    shown = duration_text(seconds)
    shown += f" of {duration_text(longest)}" if longest else ", no limit"
    table.add_row(Text("Time", style="bold"), _bar(seconds, longest), shown)
    return table


def _bar(done: float, most: float | None) -> RenderableType:
    return ProgressBar(total=most, completed=done, width=40) if most else Text("")


def _counts(profile: Mapping[str, Any]) -> Text:
    text = Text("Counts ", style="bold")
    for status, count in profile["counts"].items():
        if count:
            text.append(f" {count} {status}", style=f"not bold {_STYLES.get(status, '')}".strip())
            text.append(status_addition(profile, status), style="not bold yellow")
    return text


def _trials(running: list[tuple[str, LiveTrial]], *, now: datetime) -> Table:
    table = Table(box=None, padding=(0, 1), title_justify="left", header_style="bold")
    for heading in ("Running", "No.", "Time", "Reports", "Latest", "Parameters"):
        table.add_column(heading, no_wrap=heading != "Parameters", overflow="ellipsis")
    for trial_id, trial in running[-_MOST_TRIALS:]:
        age = now - trial.started_at if trial.started_at else timedelta(0)
        table.add_row(
            trial_id,
            str(trial.sequence),
            duration_text(age.total_seconds()),
            str(trial.reports),
            number(trial.latest),
            Text(parameters_text(trial.parameters), **_ONE_LINE),
        )
    return table
