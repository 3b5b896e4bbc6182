"""Sends metrics to the process of the experiment's assessor, and receives its verdicts.

A metric is sent to the assessor on arrival, before the metric is committed. This is safe, because the verdict
is a fact that follows the metric in the mailbox, so no verdict takes effect before its metric is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nnimgr.core.running.algorithm_process import AlgorithmProcess, Spawn
from nnimgr.core.running.mailbox import Post
from nnimgr.core.running.notices import Notice
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f

__all__ = ["AssessorProcess"]


class AssessorProcess(AlgorithmProcess):
    """Sends metrics to the assessor's child process, and posts the child's verdicts to the runner's mailbox.

    ``pending_metrics`` returns the metrics that have arrived and are not committed yet. A new child needs
    these metrics, because the database lacks them.
    """

    def __init__(
        self,
        start: m.Start,
        *,
        spawn: Spawn,
        post: Post,
        notices: dict[str, Notice],
        pending_metrics: Callable[[], Iterable[f.MetricReported]],
    ) -> None:
        super().__init__(start, spawn=spawn, post=post, notices=notices)
        self._pending_metrics = pending_metrics
        self._useless: set[str] = set()  # trials with results that the assessor ignores

    def flush(self) -> None:
        """Send the metrics that ``collect`` has collected to the child in one message."""
        if self._metrics and self._child is not None:
            self._unanswered = not self._answered  # the child reports only its first good opinion
        super().flush()

    def _hear(self, message: m.FromChild) -> None:
        super()._hear(message)
        if isinstance(message, m.Noted):
            self._useless.add(message.trial_id)
            subject = "the assessor cannot use intermediate results"
            number = len(self._useless)
            which = "1 trial" if number == 1 else f"{number} trials"
            example = f"for example trial {message.trial_id}: {message.note}"
            counted = f"the assessor cannot use intermediate results of {which}; {example}"
            self._notices["assessor ignores"] = Notice(subject=subject, counted=counted)

    def _began(self) -> None:
        self._metrics = []
        for metric in self._pending_metrics():
            self.collect(metric)
        self.flush()
