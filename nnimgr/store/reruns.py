"""Queries for trials that repeat others: retries of failed trials, and confirmations of the best ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select

from nnimgr.confirmed import Confirmations, Run, confirmations_of
from nnimgr.goal import optimize_mode
from nnimgr.rules.facts import SuggestionSource, TrialStatus
from nnimgr.store import schema
from nnimgr.store.connections import DatabaseReader

__all__ = ["RerunQueries"]

_t = schema.trials.c


class RerunQueries(DatabaseReader):
    """Queries for the retries and the confirmations of one experiment."""

    def count_retried(self) -> int:
        """Return the number of failed trials that were run again as other trials."""
        query = select(func.count()).where(
            _t.experiment_id == self._id, _t.source == SuggestionSource.RERUN.value
        )
        with self._connect() as connection:
            return int(connection.execute(query).scalar_one())

    def retried_as(self, trial_id: str) -> str | None:
        """Return the id of the trial that was started to retry this one; None if there is none."""
        is_rerun = _t.source == SuggestionSource.RERUN.value  # forks name their originals, too
        query = select(_t.trial_id).where(_t.experiment_id == self._id, _t.retry_of == trial_id, is_rerun)
        with self._connect() as connection:
            return connection.execute(query.limit(1)).scalar()

    def confirmations(self, config: Mapping[str, Any]) -> Confirmations | None:
        """Return the confirmations of the experiment with this configuration; None without confirmBest.

        Runs that the system has canceled do not count, because other runs replace them.
        """
        rule = config.get("confirmBest")
        if rule is None:
            return None
        own = select(_t.retry_of, _t.status, _t.final_value).where(
            _t.experiment_id == self._id,
            _t.source == SuggestionSource.CONFIRMATION.value,
            _t.status != TrialStatus.SYS_CANCELED.value,
        )
        with self._connect() as connection:
            rows = connection.execute(own).all()
            runs = [_run(*row) for row in rows]
            ids = list(dict.fromkeys(run.confirms for run in runs))
            trials = select(_t.trial_id, _t.sequence, _t.parameters, _t.final_value).where(
                _t.experiment_id == self._id, _t.trial_id.in_(ids)
            )
            found = [tuple(row) for row in connection.execute(trials)]
        return confirmations_of(rule, found, runs, mode=optimize_mode(config))


def _run(confirms: str, status: str, value: float | None) -> Run:
    """Return a confirmation. Only a trial that has succeeded has a usable result."""
    succeeded = status == TrialStatus.SUCCEEDED.value
    return Run(confirms=confirms, ended=TrialStatus(status).terminal, value=value if succeeded else None)
