"""Requests parameter sets from the process of the experiment's tuner, replaces the tuner, and ends an idle
process.

A tuner gets metrics after their commit, in the order of the log. So a rebuilt tuner gets the same events in
the same order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nnimgr.core.running.algorithm_process import AlgorithmProcess, Child, Spawn
from nnimgr.core.running.mailbox import Post
from nnimgr.core.running.notices import Notice
from nnimgr.core.running.parameter_requests import Asking, bind, exhausted, suggest
from nnimgr.core.running.resting import RestTimer
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.registry import is_builtin
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState

__all__ = ["TunerProcess"]

logger = logging.getLogger(__name__)

SLOW_ANSWER_S = 0.02  # a tuner that answers more slowly gets requests for suggestions ahead of need
SILENT_AFTER_S = 5.0  # a working child reports a slow call of its algorithm long before this time has passed


class TunerProcess(AlgorithmProcess):
    """Requests parameter sets from the tuner's child process, and posts its suggestions to the runner's
    mailbox.

    ``new_tuner`` returns the start message of the tuner that a user has chosen, or raises ValueError or
    OSError.
    """

    def __init__(
        self,
        start: m.Start,
        *,
        spawn: Spawn,
        post: Post,
        notices: dict[str, Notice],
        new_tuner: Callable[[ExperimentState], m.Start],
    ) -> None:
        super().__init__(start, spawn=spawn, post=post, notices=notices)
        self._new_tuner = new_tuner
        self._asking = Asking()
        self._rest_timer = RestTimer(idle=lambda: self._asking.idle, rest=self._rest)
        self._resting = False  # True: no process runs until the next request

    @property
    def outstanding(self) -> int:
        """Return the number of suggestions that were requested and have not arrived."""
        return len(self._asking.ids)

    @property
    def silence(self) -> Notice | None:
        """Return a notice if the tuner hangs without a report, for example in native code; else None."""
        since = self._asking.since
        if since is None or self._child is None:
            return None
        seconds = asyncio.get_running_loop().time() - since
        if seconds < SILENT_AFTER_S:
            return None
        return Notice(subject="the tuner has not answered a request for parameter sets", seconds=seconds)

    def ahead(self, limits: f.Limits) -> int:
        """Return the number of suggestions to request in advance, beyond the free slots."""
        if limits.suggestions_ahead is not None:
            return limits.suggestions_ahead
        if not self._learns:
            return limits.trial_concurrency
        if self._asking.last_answer_s <= SLOW_ANSWER_S:
            return 0
        return min(self._asking.last_freed, limits.trial_concurrency)

    def ask(self, count: int, state: ExperimentState, *, urgent: bool) -> None:
        """Request suggestions from the tuner until ``count`` requests are pending. ``urgent``: a free slot
        waits.
        """
        asking = self._asking
        asking.urgent = urgent
        missing = count - len(asking.ids)
        if missing <= 0 or (child := self._awake()) is None:
            return
        first = asking.next_id(state)
        ids = tuple(range(first, first + missing))
        asking.ids.update(dict.fromkeys(ids))
        if asking.since is None:
            asking.since, asking.freed = asyncio.get_running_loop().time(), 0
        self._ask(child, m.Ask(parameter_ids=ids, fed_to=self.fed_to))

    def ask_further(self, trial_id: str, index: int, state: ExperimentState) -> None:
        """Request parameter set number ``index`` of a multi-phase trial from the tuner, unless it is
        requested already.
        """
        asking = self._asking
        if (trial_id, index) in asking.further.values() or (child := self._awake()) is None:
            return
        parameter_id = asking.next_id(state)
        asking.further[parameter_id] = (trial_id, index)
        self._ask(child, m.Ask(parameter_ids=(parameter_id,), fed_to=self.fed_to, trial_id=trial_id))

    def slot_freed(self) -> None:
        """Count a slot that has become free while the tuner works on an answer."""
        self._asking.freed += 1

    def replace(self, state: ExperimentState) -> None:
        """Start the tuner that a user has chosen, after the old tuner has exited.

        From now on, messages of the old tuner are ignored.
        """
        old = self._dismiss()
        self._deaths = 0
        self._restarting = False
        self._asking.last_answer_s = 0.0
        for about in ("tuner", "tuner owes", "tuner rebuilt"):
            self._notices.pop(about, None)
        try:
            self.start = self._new_tuner(state)
        except (ValueError, OSError) as error:  # for example, a secret no longer exists
            sentence = f"the new tuner cannot be started: {error}"
            self._post(f.AlgorithmFailed(role=f.Role.TUNER, call="start", sentence=sentence, hopeless=True))
        else:
            self._later(self._follow(old), f"{state.id}:replace-tuner")

    def tell(self, message: m.ToChild) -> None:
        """Send a message to the child process, after the metrics that come before it in the log."""
        self.flush()
        super().tell(message)

    def halt(self) -> list[Child]:
        """Ignore further messages of the tuner's child process, and start no other. Return the child
        processes to close.
        """
        self._rest_timer.stop()
        return super().halt()

    def _awake(self) -> Child | None:
        """Return the tuner's child process, or None if no child process runs now.

        If the idle tuner's process was ended, start another one. The runner plans again once it runs.
        """
        if self._resting:
            self._resting = False
            self._later(self._follow(None), "wake-tuner")
        return self._child

    def _ask(self, child: Child, ask: m.Ask) -> None:
        self._unanswered = True
        child.send(ask)
        self._rest_timer.used()

    def _rest(self) -> None:
        """End the tuner's idle process until the next request for parameter sets."""
        old = self._dismiss()
        self._resting = True
        self._later(self._see_off(old), "rest-tuner")

    def _began(self) -> None:
        self.wants_metrics = True
        self._rest_timer.began()

    def _gone(self) -> None:
        self._rest_timer.stop()
        self._resting = False
        self._asking = Asking(last_answer_s=self._asking.last_answer_s)

    def _hear(self, message: m.FromChild) -> None:
        if isinstance(message, m.Suggestion):
            self._suggested(message)
            return
        super()._hear(message)
        if isinstance(message, m.Answered):
            self._took(message)
        elif isinstance(message, m.Ready):
            self.wants_metrics = message.wants_metrics
            if self.start.name is not None and is_builtin(self.role, self.start.name):
                self._rest_timer.ready()

    def _suggested(self, message: m.Suggestion) -> None:
        asking = self._asking
        if message.parameter_id in asking.further:
            self._post(bind(asking, message.parameter_id, message, fed_to=message.fed_to))
            return
        if message.parameter_id not in asking.ids and message.parameter_id not in asking.refused:
            logger.warning("the tuner sent parameter set %d, which was not requested", message.parameter_id)
            return
        self._notices.pop("tuner owes", None)
        self._post(suggest(asking, message), urgent=asking.urgent)

    def _took(self, message: m.Answered) -> None:
        """Process the end of the tuner's answer: record its duration, and report parameter sets that are
        missing.
        """
        asking = self._asking
        if asking.since is not None:
            now = asyncio.get_running_loop().time()
            asking.last_answer_s, asking.since = now - asking.since, None
            asking.last_freed, asking.freed = asking.freed, 0
        self._notices.pop("tuner owes", None)
        if message.missing and not message.exhausted:
            number = len(message.missing)
            owed = "a parameter set" if number == 1 else f"{number} parameter sets"
            why = message.why or "the tuner may send missing parameter sets later"
            self._notices["tuner owes"] = Notice(subject=f"the tuner owes {owed}: {why}")
        if message.exhausted:
            for parameter_id in message.missing:
                if parameter_id in asking.further:
                    self._post(bind(asking, parameter_id, None, fed_to=message.fed_to))
                asking.ids.pop(parameter_id, None)
                asking.refused.add(parameter_id)
            self._post(exhausted(message.fed_to))
