"""Queries for metrics as NNI shows them: only the metrics of each trial's latest attempt.

NNI has no attempts, so the queries ignore metrics of earlier attempts. They are fast even for many metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, literal_column, select

from nnimgr.store import schema
from nnimgr.store.trial_metrics import BY_TRIAL, MetricLine, TrialMetrics

__all__ = ["BY_TRIAL", "CountedMetrics", "Final", "MetricLine"]


class Final(NamedTuple):
    """FINAL metric of a trial. ``value``: the number in the metric, None if it has no finite number."""

    line: MetricLine
    value: float | None


_FINALS = schema.metric_finals.name
# up to this number of trials, reading metrics trial by trial is faster than reading the whole table
_FEW_TRIALS = 1_000

_LINE = tuple(schema.metrics.c[{"at_us": "at"}.get(name, name)] for name in MetricLine._fields)
# a literal instead of a parameter, because only a literal lets SQLite use a partial index
_IS_FINAL = schema.metrics.c.type == literal_column("'FINAL'")


class CountedMetrics(TrialMetrics):
    """Queries for metrics of each trial's latest attempt, without the metrics of earlier attempts."""

    def lines(
        self,
        *,
        trials: tuple[float, float] | None = None,
        kind: str | None = None,
        page: int = 10_000,
    ) -> Iterator[list[MetricLine]]:
        """Yield pages of metrics in the order in which they were recorded. No connection is held between
        pages.

        ``trials``: lowest and highest sequence number of the trials to read, both included; None: all trials.
        """
        attempts = self._attempts(trials)
        if trials is not None and len(attempts) <= _FEW_TRIALS:
            merged = self.merged_lines(attempts, kind=kind, page=page)
            while lines := list(islice(merged, page)):
                yield lines
            return
        table = schema.metrics
        query = select(*_LINE).where(table.c.experiment_id == self._id).order_by(table.c.number).limit(page)
        if kind == "FINAL":
            query = self._by(_FINALS, query.where(_IS_FINAL), table)
        elif kind is not None:
            query = query.where(table.c.type == kind)
        others = 1 if trials is None else 0
        after, rows = 0, page
        while rows == page:
            with self._connect() as connection:
                found = connection.execute(query.where(table.c.number > after)).all()
            rows = len(found)
            after = found[-1][0] if found else after
            yield [MetricLine._make(row) for row in found if attempts.get(row[1], others) == row[2]]

    def _attempts(self, trials: tuple[float, float] | None) -> dict[str, int]:
        """Return trial id -> number of the trial's latest attempt, whose metrics count.

        ``trials``: lowest and highest sequence number of the trials. None: all trials that have had several
        attempts.
        """
        table = schema.trials
        query = select(table.c.trial_id, table.c.attempt).where(table.c.experiment_id == self._id)
        if trials is None:
            query = query.where(table.c.attempt > 1)
        else:
            query = query.where(table.c.sequence >= trials[0], table.c.sequence <= trials[1])
        with self._connect() as connection:
            return {trial_id: attempt for trial_id, attempt in connection.execute(query)}

    def trial_lines(self, trial_id: str, *, kind: str | None = None) -> Iterator[MetricLine]:
        """Yield the metrics of a trial's latest attempt. Yield nothing if the trial does not exist."""
        table = schema.trials
        query = select(table.c.attempt).where(table.c.experiment_id == self._id, table.c.trial_id == trial_id)
        with self._connect() as connection:
            counts = connection.execute(query).scalar_one_or_none()
        return iter(()) if counts is None else self.attempt_lines(trial_id, counts, kind=kind)

    def finals(self, trial_ids: Sequence[str]) -> dict[tuple[str, int], list[Final]]:
        """Return the first FINAL metric of each parameter set in these trials, in the order of arrival.

        The keys of the result are (trial id, attempt).
        """
        table = schema.metrics
        query = select(*_LINE, table.c.value).where(
            table.c.experiment_id == self._id, table.c.trial_id.in_(trial_ids), _IS_FINAL
        )
        query = self._by(_FINALS, query, table).order_by(table.c.number)
        found: dict[tuple[str, int], list[Final]] = {}
        with self._connect() as connection:
            for row in connection.execute(query):
                line = MetricLine._make(row[:-1])
                known = found.setdefault((line.trial_id, line.attempt), [])
                if all(final.line.parameter_id != line.parameter_id for final in known):
                    known.append(Final(line, row[-1]))
        return found

    def latest_lines(self) -> list[MetricLine]:
        """Return for each trial the intermediate metric with the highest sequence number.

        The result is in the order of the trials' first metrics. Usually the metric that was recorded last is
        the one to return. Only if its sequence number does not match the number of metrics, all metrics of
        the trial are read.
        """
        m, t = schema.metrics, schema.trials
        inner = m.alias("inner_metric")
        own = and_(
            inner.c.experiment_id == t.c.experiment_id,
            inner.c.trial_id == t.c.trial_id,
            inner.c.attempt == t.c.attempt,
            inner.c.type == "PERIODICAL",
        )

        def end(column: Any, *order: Any) -> Any:
            return select(column).where(own).order_by(*order).limit(1).correlate(t).scalar_subquery()

        joined = and_(
            m.c.experiment_id == t.c.experiment_id,
            m.c.trial_id == t.c.trial_id,
            m.c.attempt == t.c.attempt,
            m.c.position == end(inner.c.position, inner.c.position.desc()),
        )
        query: Select[Any] = (
            select(end(inner.c.number, inner.c.position), t.c.intermediates, *_LINE)
            .select_from(t.join(m, joined))
            .where(t.c.experiment_id == self._id, t.c.intermediates > 0)
        )
        query = self._by(BY_TRIAL, query, m)
        with self._connect() as connection:
            found = sorted(connection.execute(query).all(), key=lambda row: row[0])
        lines = []
        for _, count, *values in found:
            line = MetricLine._make(values)
            if line.sequence != count - 1:
                reported = self.trial_lines(line.trial_id, kind="PERIODICAL")
                line = max(reported, key=lambda metric: (metric.sequence, metric.number))
            lines.append(line)
        return lines
