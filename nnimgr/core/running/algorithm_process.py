"""Starts, restarts, replaces and ends the process of a tuner, assessor or scheduler.

A crash of the process loses no data. A new process rebuilds its state from the log up to a fact number, and
then receives the facts that are committed after this number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol

from nnimgr.core.running.mailbox import Builder, Post
from nnimgr.core.running.notices import Notice
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, trial_of_job

__all__ = ["AlgorithmProcess", "Child", "Spawn"]

RESTART_DELAYS_S = (0.1, 30.0)  # first and longest pause before a child process is restarted
PROOF_OF_LIFE_S = 1.0  # a child without a pending request counts as recovered after this time


class Child(Protocol):
    """Interface of a child process that hosts an algorithm. Messages are queued until the process
    starts.

    ``nnimgr.dispatcher.process.DispatcherChild`` implements this interface.
    """

    async def start(self) -> None: ...
    def send(self, message: m.ToChild) -> bool: ...
    def catch_up(self, number: int) -> bool: ...
    async def close(self) -> None: ...


Spawn = Callable[[m.Start, Callable[[m.FromChild], None], Callable[[str], None]], Child]


class AlgorithmProcess:
    """Algorithm of an experiment, with its current child process.

    ``post`` puts facts into the runner's mailbox. ``notices``: the experiment's notices about its algorithms.
    """

    def __init__(self, start: m.Start, *, spawn: Spawn, post: Post, notices: dict[str, Notice]) -> None:
        self.start, self.role = start, f.Role(start.role)
        self.wants_metrics = True  # False: the child has said that it wants no intermediate results
        self.fed_to = 0  # number of the last committed fact
        self._spawn, self._post, self._notices = spawn, post, notices
        self._child: Child | None = None
        self._generation = 0  # number of the child; messages of earlier children are ignored
        self._reported = False  # True: the child has reported the error that ends it
        self._ready = False
        self._answered = False  # True after the first answer of the current child
        self._unanswered = False  # True while the child has a pending request
        self._deaths = 0  # number of crashes since the child last worked
        self._restarting = False  # True from a failure until the next child is ready
        self._learns = True
        self._metrics: list[tuple[str, int, int, int, str]] = []  # not sent yet
        self._numbers: list[int] = []  # fact numbers of ``_metrics``; empty before they are committed
        self._commits_to_catch_up = 0  # number of commits until all unsent metrics are stored
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: list[Child] = []
        self._closed = False

    @property
    def restart(self) -> str | None:
        """Return a sentence about a restart that is not over yet, or None."""
        if not self._restarting:
            return None
        attempt = self._deaths + 1
        return f"the experiment waits for the {self.role}, which restarts after an error (attempt {attempt})"

    async def begin(self) -> None:
        """Start a child process, in which the algorithm rebuilds its state from all committed facts."""
        self._generation += 1
        self._reported = self._ready = self._answered = self._unanswered = False
        generation = self._generation
        self._child = child = self._spawn(
            replace(self.start, rebuild_to=self.fed_to),
            lambda message: self._received(generation, message),
            lambda sentence: self._exited(generation, sentence),
        )
        self._began()
        await child.start()

    def tell(self, message: m.ToChild) -> None:
        """Send a message to the child process. Do nothing if no child process runs."""
        if self._child is not None:
            self._child.send(message)

    def collect(self, metric: f.MetricReported, *, number: int | None = None) -> None:
        """Collect a new intermediate metric for the next ``flush``, if the child wants metrics.

        ``number``: fact number of the metric; None if the metric is not committed yet.
        """
        if self.wants_metrics and metric.type == f.MetricType.PERIODICAL:
            trial_id, attempt = trial_of_job(metric.job_id)
            self._metrics.append((trial_id, attempt, metric.position, metric.sequence, metric.text))
            if number is not None:
                self._numbers.append(number)

    def flush(self) -> None:
        """Send the metrics that ``collect`` has collected to the child in one message."""
        if not self._metrics:
            return
        metrics = m.Metrics(items=tuple(self._metrics), numbers=tuple(self._numbers))
        self._metrics, self._numbers = [], []
        if self._child is not None and not self._child.send(metrics):
            # a commit that has already begun may lack metrics that were not committed yet
            self._commits_to_catch_up = 1 if metrics.numbers else 2

    def catch_up(self) -> None:
        """Let a slow child read from the database the metrics that were not sent to the child. Call after
        each commit.
        """
        if self._commits_to_catch_up == 0:
            return
        self._commits_to_catch_up -= 1
        if (
            self._commits_to_catch_up == 0
            and self._child is not None
            and not self._child.catch_up(self.fed_to)
        ):
            self._commits_to_catch_up = 1

    def failed(self, fact: f.AlgorithmFailed, state: ExperimentState) -> None:
        """Restart the child process after its failure was committed. The pause before the restart grows with
        each failure.
        """
        if not fact.fatal or state.failed is not None or self._closed:
            return
        first, longest = RESTART_DELAYS_S
        delay = min(first * 2**self._deaths, longest)
        self._deaths += 1
        self._restarting = True
        self._later(self._restart(delay), f"{state.id}:restart-{self.role}")

    def halt(self) -> list[Child]:
        """Ignore further messages of the child, and start no other child. Return the child processes to
        close.
        """
        self._closed = True
        for task in self._tasks:
            task.cancel()
        children = self._leaving if self._child is None else [self._child, *self._leaving]
        self._child = None
        return list(children)

    # ---- hooks for subclasses -----------------------------------------------------------------------------

    def _began(self) -> None:
        """Hook: prepare for a child process that was created and is about to start."""

    def _gone(self) -> None:
        """Hook: clean up after a child process that has exited or was dismissed."""

    def _hear(self, message: m.FromChild) -> None:
        """Post the facts that follow from a message of the child, and update the notices."""
        match message:
            case m.Answered():
                if not self._answered:
                    self._post(f.AlgorithmRecovered(role=self.role))
                self._answered, self._unanswered = True, False
            case m.Failed():
                self._reported = message.fatal or message.hopeless
                failure = f.AlgorithmFailed(
                    role=self.role,
                    call=message.call,
                    sentence=message.sentence,
                    traceback=message.traceback,
                    fatal=message.fatal,
                    hopeless=message.hopeless,
                    trial_id=message.trial_id,
                )
                self._post(self._unless_replaced(failure))
            case m.Judged():
                verdict = f.Verdict(
                    trial_id=message.trial_id,
                    attempt=message.attempt,
                    position=message.position,
                    reason=message.reason,
                    rung=message.rung,
                    better=message.better,
                    report=message.report,
                    by=self.role,
                )
                self._post(self._unless_replaced(verdict))
            case m.Noted():
                self._post(f.TrialNoted(trial_id=message.trial_id, note=message.note))
            case m.Busy():
                subject = f"the {self.role}'s {message.call} has been running"
                busy = Notice(subject=subject, seconds=message.seconds, detail=message.stack)
                self._notices[self.role] = busy
            case m.Idle():
                self._notices.pop(self.role, None)
            case m.Ready():
                self._restarting, self._ready, self._learns = False, True, message.learns
                if message.note:
                    self._notices[f"{self.role} rebuilt"] = Notice(subject=message.note)
                self._post(_nothing)
                loop = asyncio.get_running_loop()
                loop.call_later(PROOF_OF_LIFE_S, self._lived, self._generation)

    # ---- start and end of the child -----------------------------------------------------------------------

    def _received(self, generation: int, message: m.FromChild) -> None:
        if generation == self._generation and not self._closed:
            self._hear(message)

    def _lived(self, generation: int) -> None:
        alive = generation == self._generation and self._child is not None
        if alive and not self._unanswered and not self._closed:
            self._deaths = 0
            self._post(f.AlgorithmRecovered(role=self.role))

    def _exited(self, generation: int, sentence: str) -> None:
        if generation != self._generation or self._closed:
            return
        self._child = None
        self._notices.pop(self.role, None)
        self._gone()
        if self._reported:
            self._post(_nothing)
        else:
            idle = self._ready and not self._unanswered
            failure = f.AlgorithmFailed(
                role=self.role, call="process", sentence=sentence, fatal=True, idle=idle
            )
            self._post(self._unless_replaced(failure))

    async def _restart(self, delay: float) -> None:
        generation = self._generation
        await asyncio.sleep(delay)  # back-off
        if self._generation == generation:  # otherwise another child has been started meanwhile
            await self._follow(self._dismiss())

    def _dismiss(self) -> Child | None:
        """Ignore all further messages of the current child process. Return this child, which has to be
        closed.
        """
        old, self._child = self._child, None
        self._generation += 1
        self._gone()
        return old

    async def _see_off(self, old: Child | None) -> None:
        if old is not None:
            self._leaving.append(old)
            await old.close()
            self._leaving.remove(old)

    async def _follow(self, old: Child | None) -> None:
        """Start a new child after the child ``old`` has exited. Start none if the algorithm is changed
        again first.
        """
        generation = self._generation
        await self._see_off(old)
        if self._generation == generation and not self._closed:
            await self.begin()
            self._post(_nothing)

    def _later(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _unless_replaced(self, fact: f.Fact) -> Builder:
        """Return a function that builds ``fact`` in the runner's next turn.

        The function returns no fact if a user has replaced the tuner meanwhile.
        """
        since, role = self.start.since, self.role
        return lambda state: () if role is f.Role.TUNER and since < state.tuner_number else (fact,)


def _nothing(state: ExperimentState) -> Sequence[f.Fact]:
    """Return no facts. This item in the mailbox only causes the runner to plan again."""
    return ()
