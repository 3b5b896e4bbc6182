"""Calls of a study to its experiment, and the renewal of the leases of the trials that the program runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from nnimgr.client.errors import ApiError, ServerGone
from nnimgr.client.experiments import ENDED
from nnimgr.client.session import Session
from nnimgr.python.connection import Connection
from nnimgr.python.errors import Ended, Error, translated

if TYPE_CHECKING:
    from nnimgr.python.asked import AskedTrial

__all__ = ["Exchange"]

_TRIES = 6
_PAUSE_S = 0.2  # pause before the second try, doubled for each further try
_REFUSED, _UNAVAILABLE = 409, 503
_MOST_AT_ONCE = 1000  # largest number of leases that one call renews


class Exchange:
    """Calls about the trials that this program runs. Several threads may use one object.

    ``lease_s``: time after which the server ends a trial of a program that is silent. ``objectives``: names
    of the study's objectives, if they have names.
    """

    def __init__(self, connection: Connection, lease_s: float, objectives: Sequence[str] = ()) -> None:
        self.objectives = objectives
        self._connection = connection
        self._idle: list[Session] = []  # sessions that no thread uses at this moment
        self._pid = os.getpid()
        self._leases = _Leases(self, lease_s / 3)

    def call(self, **body: Any) -> Any:
        """Send what the body says, and return the server's answer. Raise Error, and Ended.

        If the server ends before it answers, the call is repeated at the next server. This changes nothing
        twice, because each part of a call has a number, a key or only one possible effect.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._call(body)
            except Error as error:
                cause = error.__context__
                status = cause.status if isinstance(cause, ApiError) else None
                if status == _REFUSED and self._connection.entry().status in ENDED:
                    raise Ended(error.sentence, hint="To continue it: study.run.resume()") from None
                lost = isinstance(cause, ServerGone) or status == _UNAVAILABLE
                if not lost or not tries_left:
                    raise
            time.sleep(_PAUSE_S * 2 ** (_TRIES - 1 - tries_left))  # back-off
        raise AssertionError("unreachable")

    def _call(self, body: Any) -> Any:
        if self._pid != os.getpid():  # a process that was forked must not use the connections of its parent
            self._idle, self._pid = [], os.getpid()
        try:
            session = self._idle.pop()
        except IndexError:
            session = Session.of(self._connection.client())
        with translated():
            answer = session.exchange("experiments", self._connection.id, "exchange", body=body)
        self._idle.append(session)
        return answer

    def held(self, *, without: Collection[AskedTrial] = ()) -> int:
        """Return the number of trials that this program has got and not yet ended, without these."""
        return len(set(self._leases.trials).difference(each.id for each in without))

    def hold(self, trial: AskedTrial) -> None:
        """Renew the lease of a trial until it ends, or until the program forgets the object."""
        self._leases.add(trial)

    def release(self, trial: AskedTrial) -> None:
        """Renew the lease of a trial no longer, because the trial has ended."""
        self._leases.trials.pop(trial.id, None)


class _Leases:
    """Thread that renews the leases of trials every ``every_s`` seconds, while there are such trials."""

    def __init__(self, exchange: Exchange, every_s: float) -> None:
        self.trials: WeakValueDictionary[str, AskedTrial] = WeakValueDictionary()
        self._exchange, self._every_s = exchange, every_s
        self._lock = threading.Lock()
        self._running: int | None = None  # process in which the thread runs

    def add(self, trial: AskedTrial) -> None:
        self.trials[trial.id] = trial
        with self._lock:
            if self._running != os.getpid():
                self._running = os.getpid()
                threading.Thread(target=self._renew, name="nnimgr-leases", daemon=True).start()

    def _renew(self) -> None:
        held = True
        while held:
            time.sleep(self._every_s)
            held = self._renew_once()

    def _renew_once(self) -> bool:
        """Renew all leases. Return whether there are any, so that the thread is needed.

        No trial is referred to between two calls. So a trial that the program has forgotten loses its lease.
        """
        with self._lock:
            held = list(self.trials.values())
            if not held:
                self._running = None
                return False
        with contextlib.suppress(Error):  # the next call of the program raises it, too
            for first in range(0, len(held), _MOST_AT_ONCE):
                part = held[first : first + _MOST_AT_ONCE]
                for gone in self._exchange.call(alive=[trial.held for trial in part])["gone"]:
                    if (trial := self.trials.get(gone["trialId"])) is not None:
                        trial.take_end(gone)
        return True
