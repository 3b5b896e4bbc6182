"""Watching of an experiment in the terminal: ``nnictl top``, and ``--foreground`` of create and resume.

A thread reads the server's event stream, and the main thread draws. If the server ends unexpectedly, it is
restarted. The stream then continues after the last event, so that no event is missed or shown twice.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from nnimgr.cli.interrupts import Interrupt
from nnimgr.cli.overview import overview
from nnimgr.cli.progress import Progress
from nnimgr.cli.report import CREATE, report
from nnimgr.cli.selection import client_of, current_entries, entries_of, select
from nnimgr.cli.stop import stop_one
from nnimgr.cli.terminal import Terminal
from nnimgr.cli.trials import all_trials
from nnimgr.client.calls import Client, Event
from nnimgr.client.errors import ApiError, ClientError, ServerGone
from nnimgr.client.experiments import ENDED, is_stopped, stop_experiment
from nnimgr.client.servers import answering, connect, has_left
from nnimgr.home import Home
from nnimgr.spelling import capital

__all__ = ["Screen", "follow", "foreground", "top"]

_DRAW_S = 0.5
_REFRESH_S = 1.0  # seconds between two polls of the notices, which cause no events
_LEFT = 130
_MOST_TRIES = 3


class Screen(Protocol):
    """Display that shows the progress of an experiment to a user."""

    def see(self, event: Event, progress: Progress) -> None:
        """Show an event. ``progress`` does not include it yet."""

    def tell(self, sentence: str, event: Event | None = None) -> None:
        """Show a sentence, which is about the event if one is given."""

    def draw(self, progress: Progress) -> None: ...


class _Lines:
    """Display of progress as plain lines, for files, pipes and logs: one line per event.

    A line with the present state is printed first if ``from_now``, and whenever no event has come for
    ``every_s`` seconds.
    """

    def __init__(self, terminal: Terminal, *, every_s: float | None, from_now: bool) -> None:
        self._terminal = terminal
        self._every_s = every_s
        self._from_now = from_now
        self._told_at = time.monotonic()

    def see(self, event: Event, progress: Progress) -> None:
        """Ignore the event, because its sentence follows."""

    def tell(self, sentence: str, event: Event | None = None) -> None:
        self._terminal.stamped(sentence)
        self._told_at = time.monotonic()

    def draw(self, progress: Progress) -> None:
        now = progress.profile.get("now")
        is_late = self._every_s is not None and time.monotonic() - self._told_at >= self._every_s
        if now and (self._from_now or is_late):
            self._from_now = False
            self.tell(capital(now))


def top(args: argparse.Namespace, terminal: Terminal) -> int:
    """Watch an experiment until it ends or until Ctrl-C. Ctrl-C does not stop the experiment."""
    home = Home.find()
    if args.id is None and len(current_entries(home, port=args.port)) > 1:
        return overview(args, terminal)
    entry = select(home, args.id, port=args.port)
    client = client_of(home, entry, port=args.port)
    profile = client.get("experiments", entry.id)
    if terminal.as_json:
        running = list(all_trials(client, entry.id, status=["RUNNING", "UNKNOWN"]))
        terminal.json({"experiment": profile, "running": running})
        return 0
    after = int(profile["lastNumber"])
    progress = _follow(client, entry.id, terminal=terminal, after=after, every_s=args.time)
    report(progress, client, terminal, still_open=True)
    return 0


def foreground(
    client: Client,
    experiment_id: str,
    *,
    interrupt: Interrupt,
    terminal: Terminal,
    after: int,
    again: str = CREATE,
) -> int:
    """Watch an experiment to its end, then stop it. ``again``: how the user starts another experiment.

    Return 0 if the experiment is done and a trial has a usable result, and 130 after Ctrl-C. Otherwise return
    1.
    """
    try:
        with interrupt.raised():
            progress = _follow(client, experiment_id, terminal=terminal, after=after)
            interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    try:
        if interrupted:
            progress = _stop(client, experiment_id, terminal=terminal)
        elif progress.status != "STOPPED":
            with contextlib.suppress(ApiError):  # the experiment was stopped in the meantime
                client = connect(Home.find(), client.port)
                stop_one(Home.find(), client, experiment_id, terminal=terminal)
    except KeyboardInterrupt:
        terminal.stamped(f"The server stops the experiment. See: nnictl experiment status {experiment_id}")
        return _LEFT
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    report(progress, client, terminal, again=again)
    if terminal.as_json:
        confirms = ("confirmations",) if progress.profile.get("confirmations") else ()
        kept = ("id", "status", "reason", "counts", "bestTrial", *confirms, "errors")
        terminal.json({key: progress.profile[key] for key in kept})
    if interrupted:
        return _LEFT
    return 0 if progress.status == "DONE" and progress.profile["bestTrial"] is not None else 1


def _stop(client: Client, experiment_id: str, *, terminal: Terminal) -> Progress:
    """Stop the experiment after Ctrl-C, and return its last progress.

    After the request to stop was sent, another Ctrl-C ends the wait for the end of the experiment.
    """
    terminal.stamped("Stopping the experiment and its trials; Ctrl-C again leaves at once.")
    server = Home.find().server_running(client.port)
    client = connect(Home.find(), client.port)
    progress = Progress.of(client.get("experiments", experiment_id))

    def sent() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        if stop_experiment(client, experiment_id, sent=sent)["serverLeaves"]:
            has_left(server)
    except ApiError as error:
        if not is_stopped(Home.find(), experiment_id):
            raise error
    try:
        progress.refresh(client.get("experiments", experiment_id))
    except (ServerGone, ApiError):  # the server exits with its last experiment
        _settle(progress, experiment_id)
    return progress


def _follow(
    client: Client, experiment_id: str, *, terminal: Terminal, after: int, every_s: float | None = None
) -> Progress:
    """Show the experiment until it ends. Return its last progress.

    ``every_s``: seconds after which a live view is redrawn. Other outputs get a line at least this often.
    ``after``: number of the last event before. If there was one, other outputs begin with the present state.
    """
    draw_s = every_s if every_s is not None and terminal.live else _DRAW_S
    screen = _screen(terminal, every_s, from_now=after > 0)
    return follow(client, experiment_id, screen=screen, after=after, draw_s=draw_s)


def follow(
    client: Client,
    experiment_id: str,
    *,
    screen: contextlib.AbstractContextManager[Screen],
    after: int,
    draw_s: float = _DRAW_S,
    limit_s: float | None = None,
) -> Progress:
    """Show the experiment on the screen until it ends. Return its last progress.

    ``after``: number of the last event before. ``draw_s``: seconds between two drawings of the screen. Raise
    TimeoutError if the experiment has not ended after ``limit_s`` seconds, and ClientError.
    """
    until = None if limit_s is None else time.monotonic() + limit_s
    progress = Progress.of(client.get("experiments", experiment_id))
    if not after:
        progress.best = None  # the events contain all results
    else:
        for trial in all_trials(client, experiment_id, status=["WAITING", "RUNNING", "UNKNOWN", "PAUSED"]):
            progress.add_trial(trial)
    with screen as shown:
        tries = 0
        while not progress.ended(after):
            stream = _Stream(client, experiment_id, after=after)
            try:
                _show(stream, progress, screen=shown, client=client, draw_s=draw_s, until=until)
            except ServerGone as error:
                if answering(Home.find(), client.port) is None and is_stopped(Home.find(), experiment_id):
                    _settle(progress, experiment_id)
                    break
                tries = 0 if stream.cursor > after else tries + 1
                if tries > _MOST_TRIES:
                    raise ClientError(
                        *error.lines,
                        f"The server was started {_MOST_TRIES} times without success.",
                        mend=f"See why: nnictl log stdout {experiment_id} --tail 20",
                    ) from error
                sentence = "The server does not answer; it is started again if it has ended."
                progress.recent.append(sentence)
                shown.tell(sentence)
                client = connect(Home.find(), client.port)
            after = stream.cursor
        try:
            progress.refresh(client.get("experiments", experiment_id))
        except (ServerGone, ApiError):  # the server exits with its last experiment
            _settle(progress, experiment_id)
        shown.draw(progress)
    return progress


def _settle(progress: Progress, experiment_id: str) -> None:
    """Take the end of an experiment from its folder, because its server has exited and cannot report it."""
    from nnimgr.store.errors import StoreError
    from nnimgr.store.overview import stored_end, stored_experiment

    stored = end = None
    if (entry := entries_of(Home.find()).get(experiment_id)) is not None:
        with contextlib.suppress(OSError, StoreError):
            stored, end = stored_experiment(entry.directory), stored_end(entry.directory)
    if stored is not None and end is not None:
        told = {"status": end.status, "reason": end.reason, "counts": stored.counts, "now": ""}
        progress.refresh({**progress.profile, **told})
    elif progress.status in ENDED:
        progress.settle(progress.status, reason=progress.reason)
    else:
        progress.settle("STOPPED", reason="its server has exited, and its folder cannot be read")


def _show(
    stream: _Stream,
    progress: Progress,
    *,
    screen: Screen,
    client: Client,
    draw_s: float,
    until: float | None,
) -> None:
    """Show the events of an experiment until it ends.

    Raise ServerGone if the server ends first, and TimeoutError after the time ``until``.
    """
    drawn_at, refreshed_at = 0.0, 0.0
    while not progress.ended(stream.cursor):
        left_s = draw_s if until is None else until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"experiment {stream.experiment_id} has not ended: it is {progress.status}")
        for event in stream.take(min(draw_s, left_s)):
            trial_id = progress.missing(event)
            if trial_id is not None:
                progress.add_trial(client.get("experiments", stream.experiment_id, "trials", trial_id))
            screen.see(event, progress)
            sentence = progress.apply(event)
            if sentence is not None:
                screen.tell(sentence, event)
            if progress.ended(stream.cursor):
                break
        now = time.monotonic()
        if now - drawn_at >= draw_s:
            shown = progress.stale and not isinstance(screen, _Lines)
            if shown or now - refreshed_at >= _REFRESH_S:
                with contextlib.suppress(ApiError):  # the event stream will report that the experiment ended
                    progress.refresh(client.get("experiments", stream.experiment_id))
                refreshed_at = now
                for sentence in progress.fresh_notices():
                    screen.tell(sentence)
            screen.draw(progress)
            drawn_at = now


class _Stream:
    """Stream of an experiment's events, read by a thread that ends with the stream or with this process."""

    def __init__(self, client: Client, experiment_id: str, *, after: int) -> None:
        self.experiment_id = experiment_id
        self.cursor = after
        self._client = client
        self._queue: queue.Queue[Event | Exception] = queue.Queue(maxsize=10_000)
        threading.Thread(target=self._read, name="events", daemon=True).start()

    def take(self, seconds: float) -> Iterator[Event]:
        """Yield the events that arrive within this number of seconds. Raise ServerGone or ApiError."""
        until = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._queue.get(timeout=max(0.0, until - time.monotonic()))
                if isinstance(item, Exception):
                    raise item
                if item.number is not None:
                    self.cursor = item.number
                yield item

    def _read(self) -> None:
        try:
            for event in self._client.events("experiments", self.experiment_id, "events", after=self.cursor):
                if event is not None:
                    self._queue.put(event)
            self._queue.put(ServerGone("The server has ended the stream."))
        except Exception as error:
            self._queue.put(error)


@contextlib.contextmanager
def _screen(terminal: Terminal, every_s: float | None, *, from_now: bool) -> Iterator[Screen]:
    if not terminal.live:
        yield _Lines(terminal, every_s=every_s, from_now=from_now)
        return
    from nnimgr.cli.live import LiveScreen

    with LiveScreen() as screen:
        yield screen
