"""The process of the experiment's assessor.

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
from nnimgr.rules.state import trial_of_job

__all__ = ["AssessorProcess"]


class AssessorProcess(AlgorithmProcess):
    """Sends metrics to the assessor's child, and posts the verdicts of the child.

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
        self._judging: list[tuple[str, int, int, int, str]] = []
        self._commits_to_catch_up = 0  # commits until all metrics that were not sent are stored

    def judge(self, metric: f.MetricReported) -> None:
        """Add a new metric to the metrics that the next ``flush`` sends to the child."""
        if metric.type == f.MetricType.PERIODICAL:
            trial_id, attempt = trial_of_job(metric.job_id)
            self._judging.append((trial_id, attempt, metric.position, metric.sequence, metric.text))

    def flush(self) -> None:
        """Send the metrics that ``judge`` has collected to the child in one message."""
        if not self._judging:
            return
        items, self._judging = tuple(self._judging), []
        if self._child is None:
            return
        self._unanswered = not self._answered  # the child reports only its first good opinion
        if not self._child.send(m.Metrics(items=items)):
            self._commits_to_catch_up = 2  # a commit that has already begun may lack these metrics

    def catch_up(self) -> None:
        """Let a slow child read the missing metrics from the database. Call after each commit."""
        if self._commits_to_catch_up == 0:
            return
        self._commits_to_catch_up -= 1
        if (
            self._commits_to_catch_up == 0
            and self._child is not None
            and not self._child.catch_up(self.fed_to)
        ):
            self._commits_to_catch_up = 1

    def _began(self) -> None:
        self._judging = []
        for metric in self._pending_metrics():
            self.judge(metric)
        self.flush()

    def _hear(self, message: m.FromChild) -> None:
        if not isinstance(message, m.Judged):
            super()._hear(message)
            return
        self._post(
            f.Verdict(
                trial_id=message.trial_id,
                attempt=message.attempt,
                position=message.position,
                reason=message.reason,
                rung=message.rung,
                better=message.better,
            )
        )
