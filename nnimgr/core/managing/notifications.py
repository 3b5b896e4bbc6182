"""Notifies users of an experiment's end, of a better result, and of an idle experiment.

A file in the experiment's folder records the last notifications. If a server is killed before a notification
is sent, the next server that opens the experiment sends the notification. So a notification may arrive twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from nnimgr.config.notification import Event, NotificationConfig
from nnimgr.config.references import ReferenceUnresolved
from nnimgr.core.running.notices import Notice
from nnimgr.rules import facts as f
from nnimgr.rules.activity import sentence_of
from nnimgr.rules.phrases import best_so_far
from nnimgr.rules.state import ExperimentState

__all__ = ["Notifier", "Receiver"]

logger = logging.getLogger(__name__)

RETRIES_S = (1.0, 10.0, 60.0)  # waits before a notification is sent again
TIMEOUT_S = 30.0  # longest wait for a webhook's answer, or for the end of a command
CLOSING_S = 5.0  # longest wait for the last notifications when the experiment is closed
_FILE = "notified.json"
_LIVE = (f.ExperimentStatus.RUNNING, f.ExperimentStatus.DRAINING)
_ENDED = {f.ExperimentStatus.DONE: Event.DONE, f.ExperimentStatus.ERROR: Event.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Receiver of notifications (a webhook or a command) with revealed secrets. ``environ`` and ``cwd``
    are for the command.
    """

    config: NotificationConfig
    environ: Mapping[str, str]
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Record of the last notifications to one receiver: about the experiment's end, and about the best
    trial.
    """

    ended: str | None = None
    best: str | None = None  # id of the trial


class Notifier:
    """Sends notifications about one experiment to its receivers. Call ``turned`` whenever the experiment's
    state changes.
    """

    def __init__(
        self,
        directory: Path,
        configs: Callable[[], Sequence[NotificationConfig]],
        reveal: Callable[[NotificationConfig], Receiver],
    ) -> None:
        """Create the notifier.

        ``configs`` returns the receivers' configurations, and is called at the first change of the
        experiment. ``reveal`` returns a receiver with its secrets, or raises ReferenceUnresolved.
        """
        self._path = directory / _FILE
        self._configs, self._reveal = configs, reveal
        self._inboxes: list[_Inbox] | None = None
        self._number = 0

    @property
    def notices(self) -> Mapping[str, Notice]:
        """Return the errors of receivers as notices about the experiment."""
        troubles = {f"notify[{each.index}]": each.trouble for each in self._inboxes or ()}
        return {name: Notice(subject=trouble) for name, trouble in troubles.items() if trouble is not None}

    def turned(self, state: ExperimentState) -> None:
        """Queue the notifications that the experiment's new state requires, for each receiver."""
        if state.number == self._number:
            return
        self._number = state.number
        if self._inboxes is None:
            self._inboxes = self._open()
        for inbox in self._inboxes:
            inbox.turned(state)

    async def close(self) -> None:
        """Send the remaining notifications. Give up after a few seconds."""
        await asyncio.gather(*(inbox.close() for inbox in self._inboxes or ()))

    def _open(self) -> list[_Inbox]:
        configs = self._configs()
        seen = _read(self._path) if configs else {}
        return [
            _Inbox(index, config, seen.get(index, _Seen()), self._reveal, self._keep)
            for index, config in enumerate(configs)
        ]

    def _keep(self) -> None:
        """Write the record of the last notifications to the file in the experiment's folder."""
        sent = {str(each.index): asdict(each.sent) for each in self._inboxes or ()}
        with contextlib.suppress(OSError):  # for example a full disk, which causes a repeated notification
            self._path.write_text(json.dumps(sent), encoding="utf-8")


class _Inbox:
    """Queue of notifications to one receiver. A failing receiver does not delay other receivers."""

    def __init__(
        self,
        index: int,
        config: NotificationConfig,
        seen: _Seen,
        reveal: Callable[[NotificationConfig], Receiver],
        keep: Callable[[], None],
    ) -> None:
        self.index, self.sent = index, seen
        self.trouble: str | None = None
        self._config, self._seen = config, seen
        self._reveal, self._keep = reveal, keep
        self._queue: asyncio.Queue[tuple[dict[str, Any], _Seen] | None] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._moved_at = 0.0

    def turned(self, state: ExperimentState) -> None:
        best = None if state.best is None else state.best.trial_id
        event, live = _end_of(state), state.status in _LIVE
        if live and self._seen.ended is not None:  # the experiment was resumed
            self._seen = replace(self._seen, ended=None)
        if best is not None and best != self._seen.best:
            self._seen = replace(self._seen, best=best)
            self._put(Event.BEST, state)
        if event is not None and event != self._seen.ended:
            self._seen = replace(self._seen, ended=event)
            self._put(event, state)
        self._moved_at = asyncio.get_running_loop().time()
        if live and self._timer is None and Event.IDLE in self._config.events:
            self._watch(state)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sender is None:
            return
        self._queue.put_nowait(None)
        await asyncio.wait({self._sender}, timeout=CLOSING_S)
        self._sender.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._sender

    def _watch(self, state: ExperimentState) -> None:
        """Send one notification when nothing has happened in the experiment for ``idle_s`` seconds.

        After this notification, the next change of the experiment starts the watch again.
        """
        self._timer = None
        if state.status not in _LIVE:
            return
        loop = asyncio.get_running_loop()
        left = self._moved_at + self._config.idle_s - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._watch, state)
        else:
            self._put(Event.IDLE, state)  # the next turn watches again

    def _put(self, event: Event, state: ExperimentState) -> None:
        if event not in self._config.events:
            return
        self._queue.put_nowait((_message(event, state, self._config.idle_s), self._seen))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all(), name=f"{state.id}:notify[{self.index}]")

    async def _send_all(self) -> None:
        while (item := await self._queue.get()) is not None:
            message, seen = item
            await self._send(message)
            self.sent = seen
            self._keep()

    async def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the receiver, with retries after failures. Show the last failure as a notice."""
        is_command = self._config.command is not None
        for wait in (*RETRIES_S, None):
            try:
                receiver = self._reveal(self._config)
                trouble = await (_run if is_command else _post)(receiver, message)
            except (ReferenceUnresolved, OSError) as error:  # for example, the command's directory is missing
                trouble = str(error)
            if trouble is None:
                self.trouble = None
                return
            self.trouble = f"the {'command' if is_command else 'webhook'} of notify has failed: {trouble}"
            logger.warning("experiment %s: %s", message["experimentId"], self.trouble)
            if wait is not None:
                await asyncio.sleep(wait)  # back-off


def _httpx() -> ModuleType:
    """Import httpx on first use, because the import takes 0.1 s and most servers send no notifications."""
    import httpx

    return httpx


async def _post(receiver: Receiver, message: Mapping[str, Any]) -> str | None:
    """Post the message to the receiver's webhook. Return the error; None on success.

    The error omits the webhook's address, which may be secret.
    """
    assert receiver.config.webhook is not None
    httpx: Any = await asyncio.to_thread(_httpx)
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            answer = await client.post(receiver.config.webhook.get_secret_value(), json=message)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{type(error).__name__}, no answer"
    return None if answer.is_success else f"it answered {answer.status_code} {answer.reason_phrase}"


async def _run(receiver: Receiver, message: Mapping[str, Any]) -> str | None:
    """Run the receiver's command with the message as JSON on standard input. Return the error; None on
    success.
    """
    # Run in a thread: uvloop's streams fail if the command ends without reading its standard input.
    return await asyncio.to_thread(_run_blocking, receiver, message)


def _run_blocking(receiver: Receiver, message: Mapping[str, Any]) -> str | None:
    given = {"NNIMGR_EVENT": message["event"], "NNIMGR_EXPERIMENT": message["experimentId"]}
    process = subprocess.Popen(
        ["/bin/sh", "-c", receiver.config.command or ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**receiver.environ, **given, "NNIMGR_TEXT": message["text"]},
        cwd=receiver.cwd,
        start_new_session=True,
    )
    try:
        _, error = process.communicate(json.dumps(message).encode(), timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"the command did not end within {TIMEOUT_S:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = error.decode(errors="replace").strip().rpartition("\n")[2]
    if process.returncode == 0:
        return None
    return f"the command exited with code {process.returncode}: {last}".rstrip(": ")


def _end_of(state: ExperimentState) -> Event | None:
    if state.status is f.ExperimentStatus.STOPPED and state.fails_fast and not state.stop_requested:
        return Event.ERROR
    return _ENDED.get(state.status)


def _message(event: Event, state: ExperimentState, idle_s: float) -> dict[str, Any]:
    """Return a notification as a JSON object. Chat services expect the sentence in the field ``text``."""
    name = str(state.config.get("experimentName") or state.id)
    match event:
        case Event.BEST:
            told = "it has a better result"
        case Event.IDLE:
            told = f"it is {state.status}, but nothing has happened for {idle_s / 60:.3g} min"
        case _:
            told = sentence_of(state.status, state.reason)
    best = state.best
    text = f"Experiment {name}: {told}"
    shown = "" if best is None else best_so_far(best.value, best.sequence)
    if shown not in text:
        text += f"; {shown}"
    return {
        "event": event.value,
        "experimentId": state.id,
        "experimentName": name,
        "status": state.status.value,
        "text": f"{text}.",
        "best": None if best is None else {"trialId": best.trial_id, "value": best.value},
    }


def _read(path: Path) -> dict[int, _Seen]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return {int(index): _Seen(ended=seen["ended"], best=seen["best"]) for index, seen in body.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no file, or a damaged file
        return {}
