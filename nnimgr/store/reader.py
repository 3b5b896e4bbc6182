"""Reads an experiment's database while its writer continues. It has its own connections and takes no locks.

All methods block; call them in a thread. Rows are frozen records with the columns of ``schema``. Instants are
aware datetimes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, literal_column, or_, select

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store import schema
from nnimgr.store.annotations import AnnotationQueries
from nnimgr.store.bulk import like_pattern
from nnimgr.store.checkpoints import CheckpointQueries
from nnimgr.store.counted_metrics import CountedMetrics, Final
from nnimgr.store.errors import empty_database
from nnimgr.store.jobs import JobQueries
from nnimgr.store.legs import LegQueries
from nnimgr.store.reasons import reason_of
from nnimgr.store.reruns import RerunQueries
from nnimgr.store.rows import from_us, read_fact
from nnimgr.store.trial_metrics import MetricRow
from nnimgr.store.views import ViewQueries
from nnimgr.store.without_result import query_without_result
from nnimgr.store.writer import load, read_page
from training_services.keepers.names import why_no_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    experiment_id: str
    db_id: str
    m_epoch: int
    config: dict[str, Any]
    search_space: dict[str, Any]
    status: f.ExperimentStatus
    drain: f.DrainReason | None
    reason: str
    created_at: datetime
    ended_at: datetime | None
    active_us: int
    active_since: datetime | None
    next_sequence: int
    counts: dict[str, int]
    best_trial_id: str | None
    best_value: float | None
    last_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    trial_id: str
    sequence: int
    status: f.TrialStatus
    detail: str | None
    source: f.SuggestionSource
    parameter_id: int | None
    parameters: str  # JSON text
    retry_of: str | None
    attempt: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    note: str | None
    final_value: float | None
    final_text: str | None
    latest_value: float | None
    latest_text: str | None
    intermediates: int

    @property
    def title(self) -> str:
        """Number and id of the trial, for sentences: "12 (k3x9z)"."""
        return f"{self.sequence} ({self.trial_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSet:
    """Parameter set of a trial. Only multi-phase trials have several sets. ``parameters``: JSON text.

    ``final``: result of the set in the trial's latest attempt.
    """

    parameter_id: int | None
    parameters: str
    final: Final | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failure of a tuner or assessor, and its time."""

    at: datetime
    fact: f.AlgorithmFailed


_SORTS = {
    "sequence": schema.trials.c.sequence,
    "value": schema.trials.c.final_value,
    "status": schema.trials.c.status,
    "created": schema.trials.c.created_at,
    "started": schema.trials.c.started_at,
    "ended": schema.trials.c.ended_at,
    "duration": schema.trials.c.ended_at - schema.trials.c.started_at,
    "intermediates": schema.trials.c.intermediates,
}

TRIAL_SORTS = tuple(_SORTS)

_BY_SEQUENCE = "sqlite_autoindex_trials_2"  # index of the key trial_sequence
_BY_STATUS = "trial_by_status"
# These indexes contain all columns that select and sort a page. With another index, SQLite would look up
# every trial, which takes longer than reading the whole table.
_BY_SORT = {"sequence": _BY_SEQUENCE, "value": "trial_by_final", "status": _BY_STATUS}
_STATUSES_BY_SORT = {"sequence": _BY_STATUS, "status": _BY_STATUS}

_CONVERT: Mapping[str, Any] = {
    "config": json.loads,
    "search_space": json.loads,
    "counts": json.loads,
    "drain": lambda text: None if text is None else f.DrainReason(text),
    "source": f.SuggestionSource,
    **dict.fromkeys(
        ("created_at", "ended_at", "started_at", "active_since", "at"),
        from_us,
    ),
}


class ExperimentReader(
    CountedMetrics, AnnotationQueries, CheckpointQueries, JobQueries, LegQueries, RerunQueries, ViewQueries
):
    """Queries of one experiment's database. Thread-safe.

    The methods raise FileNotFoundError if there is no database, and StoreError if it cannot be read.
    """

    def experiment(self) -> ExperimentRow:
        with self._connect() as connection:
            row = connection.execute(select(schema.experiments)).one_or_none()
            if row is None:
                raise empty_database(self.path)
            values = _convert(row._mapping)
            reason = reason_of(values["status"], values["reason"])
            return ExperimentRow(
                **values | {"status": f.ExperimentStatus(values["status"]), "reason": reason}
            )

    def state(self) -> ExperimentState:
        """Return the experiment's state, computed from the last snapshot and the facts after it."""
        with self._connect() as connection:
            return load(connection, self._id)[0]

    def trials(
        self,
        *,
        offset: int = 0,
        limit: int = 100,
        statuses: Sequence[f.TrialStatus] = (),
        sort: str = "sequence",
        descending: bool = False,
        search: str = "",
    ) -> tuple[int, list[TrialRow]]:
        """Return the number of trials that match, and one page of the matching trials.

        ``sort``: one of TRIAL_SORTS. ``search``: a part of the trial's id, parameters, note or tags, or its
        sequence number.
        """
        table = schema.trials
        query = select(table.c.sequence).where(table.c.experiment_id == self._id)
        if statuses:
            query = query.where(table.c.status.in_([str(status) for status in statuses]))
        if search:
            like = like_pattern(search)
            found = table.c.trial_id.like(like, escape="\\") | table.c.parameters.like(like, escape="\\")
            if search.isdecimal() and len(search) < 18:
                found |= table.c.sequence == int(search)
            annotated = self._annotated_like(like)
            query = query.where(found if annotated is None else or_(found, annotated))
        key = _SORTS[sort]
        order = key.desc().nulls_last() if descending else key.asc().nulls_last()
        page = query.order_by(order, table.c.sequence).offset(offset).limit(limit)
        counted = query.with_only_columns(func.count())
        if search:
            counted, page = _scanned(counted), _scanned(page)
        else:
            index = (_STATUSES_BY_SORT if statuses else _BY_SORT).get(sort)
            counted = self._by(_BY_STATUS, counted, table)
            page = self._by(index, page, table) if index else _scanned(page)
        with self._connect() as connection:
            total = connection.execute(counted).scalar_one()
            sequences = connection.execute(page).scalars().all()
        return total, self.trials_at(sequences)

    def trials_at(self, sequences: Sequence[int]) -> list[TrialRow]:
        """Return the trials with these sequence numbers, in the given order. Ignore unknown numbers."""
        table = schema.trials
        query = self._by(_BY_SEQUENCE, self._of(table).where(table.c.sequence.in_(sequences)), table)
        found = {row.sequence: row for row in self._rows(query, _trial)}
        return [found[sequence] for sequence in sequences if sequence in found]

    def trial(self, trial_id: str) -> TrialRow | None:
        table = schema.trials
        rows = self._rows(self._of(table).where(table.c.trial_id == trial_id), _trial)
        return rows[0] if rows else None

    def trials_of(self, trial_ids: Collection[str]) -> dict[str, TrialRow]:
        """Return the rows of these trials by id. Ignore unknown ids."""
        table = schema.trials
        rows = self._rows(self._of(table).where(table.c.trial_id.in_(trial_ids)), _trial)
        return {row.trial_id: row for row in rows}

    def places(self, trial_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """Return trial id -> number and keeper's id of the trial's latest attempt that has got a place.

        Leave out trials without such an attempt. A keeper is the agent beside the trials on one machine.
        """
        table = schema.jobs
        columns = table.c.trial_id, table.c.attempt, table.c.keeper_id
        query = select(*columns).where(
            table.c.experiment_id == self._id, table.c.trial_id.in_(trial_ids), table.c.keeper_id.is_not(None)
        )
        rows = self._rows(query.order_by(table.c.attempt), lambda row: tuple(row.values()))
        return {trial_id: (attempt, keeper_id) for trial_id, attempt, keeper_id in rows}

    def keeper_ids(self) -> list[str]:
        """Return the ids of all keepers (agents beside the trials) that the experiment has, or has had."""
        table = schema.keepers
        query = self._of(table).with_only_columns(table.c.keeper_id).order_by(table.c.keeper_id)
        names = self._rows(query, lambda row: str(row["keeper_id"]))
        return [name for name in names if why_no_files(name) is None]

    def metrics(
        self,
        *,
        trial_id: str | None = None,
        attempt: int | None = None,
        kind: str | None = None,
        after: int = 0,
        limit: int = 10_000,
    ) -> list[MetricRow]:
        """Return metrics with fact numbers above ``after``, in the order in which they were recorded."""
        if trial_id is not None:
            return self.trial_page(trial_id, attempt=attempt, kind=kind, after=after, limit=limit)
        table = schema.metrics
        columns = [column for column in table.c if column.name not in ("experiment_id", "ran_in")]
        query = select(*columns).where(table.c.experiment_id == self._id, table.c.number > after)
        query = query.order_by(table.c.number).limit(limit)
        if attempt is not None:
            query = query.where(table.c.attempt == attempt)
        if kind is not None:
            query = query.where(table.c.type == kind)
        return self._rows(query, lambda row: MetricRow(**_convert(row)))

    def facts(self, *, after: int = 0, limit: int = 500) -> list[f.Recorded]:
        """Return a page of the experiment's log: the facts after number ``after``, including metrics."""
        moves = self._has_table(schema.checkpoints)
        with self._connect() as connection:
            return read_page(connection, self._id, after=after, limit=limit, moves=moves)

    def facts_between(
        self,
        kinds: Collection[str],
        *,
        before: int | None = None,
        after: int = 0,
        trial_id: str | None = None,
        oldest: bool = False,
        limit: int = 50,
    ) -> list[f.Recorded]:
        """Return facts of these kinds with numbers above ``after`` and below ``before``, newest first.

        If there are more than ``limit`` facts, return the newest of them, or with ``oldest`` the oldest.
        ``trial_id``: only facts about this trial.
        """
        table = schema.facts
        query: Select[Any] = select(table.c.number, table.c.at, table.c.kind, table.c.payload).where(
            table.c.experiment_id == self._id, table.c.number > after, table.c.kind.in_(sorted(kinds))
        )
        if before is not None:
            query = query.where(table.c.number < before)
        if trial_id is not None:
            query = self._by(schema.fact_by_trial.name, query.where(table.c.trial_id == trial_id), table)
        query = query.order_by(table.c.number if oldest else table.c.number.desc()).limit(limit)
        found = []
        with self._connect() as connection:
            for number, at, kind, payload in connection.execute(query).all():
                instant = from_us(at)
                assert instant is not None
                found.append(f.Recorded(number, instant, read_fact(kind, payload)))
        return found[::-1] if oldest else found

    def failures(self, *, limit: int = 50) -> list[Failure]:
        """Return the latest failures of tuner and assessor, newest first."""
        table = schema.facts
        query: Select[Any] = (
            select(table.c.at, table.c.kind, table.c.payload)
            .where(table.c.experiment_id == self._id, table.c.kind == literal_column("'AlgorithmFailed'"))
            .order_by(table.c.number.desc())
            .limit(limit)
        )
        query = self._by(schema.fact_failures.name, query, table)
        failures = []
        with self._connect() as connection:
            for at, kind, payload in connection.execute(query).all():
                instant, fact = from_us(at), read_fact(kind, payload)
                assert instant is not None and isinstance(fact, f.AlgorithmFailed)
                failures.append(Failure(at=instant, fact=fact))
        return failures

    def latest_creations(self, limit: int) -> list[datetime]:
        """Return the creation times of the latest trials, newest first."""
        table = schema.trials
        query = self._of(table).with_only_columns(table.c.created_at).order_by(table.c.sequence.desc())
        with self._connect() as connection:
            found = [from_us(at) for at in connection.execute(query.limit(limit)).scalars()]
        return [at for at in found if at is not None]

    def count_without_result(self, config: Mapping[str, Any]) -> int:
        """Return the number of trials that have succeeded without a result that the tuner can use."""
        query = query_without_result(config, "count(*)")
        with self._connect() as connection:
            return int(connection.exec_driver_sql(query, (self._id,)).scalar_one())

    def failed(self) -> list[TrialRow]:
        """Return the trials that have failed and were not run again, in order of their sequence numbers.

        Confirmations are not among them: they are not trials of the search.
        """
        table = schema.trials
        rerun = table.c.source == f.SuggestionSource.RERUN.value  # forks name their originals, too
        again = self._of(table).with_only_columns(table.c.retry_of).where(rerun)
        query = self._of(table).where(
            table.c.status == f.TrialStatus.FAILED.value,
            table.c.source != f.SuggestionSource.CONFIRMATION.value,
            table.c.trial_id.not_in(again),
        )
        return self._rows(query.order_by(table.c.sequence), _trial)

    def sets(self, rows: Sequence[TrialRow]) -> dict[str, list[TrialSet]]:
        """Return all parameter sets of these trials, by trial id. The first set of a trial is in the
        trial's ``TrialRow``.
        """
        further = self.further_sets([row.trial_id for row in rows])
        finals = self.finals([row.trial_id for row in rows if row.final_text is not None])
        return {
            row.trial_id: _sets(
                row, further.get(row.trial_id, []), finals.get((row.trial_id, row.attempt), [])
            )
            for row in rows
        }

    def further_sets(self, trial_ids: Sequence[str]) -> dict[str, list[f.FurtherSuggested]]:
        """Return the further parameter sets that these multi-phase trials got after their first, by trial
        id.
        """
        table = schema.facts
        query = (
            select(table.c.kind, table.c.payload)
            .where(table.c.experiment_id == self._id, table.c.trial_id.in_(trial_ids))
            .where(table.c.kind == literal_column("'FurtherSuggested'"))
            .order_by(table.c.number)
        )
        found: dict[str, list[f.FurtherSuggested]] = {}
        with self._connect() as connection:
            for kind, payload in connection.execute(self._by(schema.fact_further_sets.name, query, table)):
                fact = read_fact(kind, payload)
                assert isinstance(fact, f.FurtherSuggested)
                if fact.parameters is not None and not fact.late:
                    found.setdefault(fact.trial_id, []).append(fact)
        return found

    def results(self, *, page: int = 1000) -> Iterator[list[tuple[TrialRow, TrialSet, Final]]]:
        """Yield pages of results of succeeded trials: trial, parameter set and FINAL metric, by sequence
        number. Runs that confirm other trials are no results of the search.
        """
        sequence, more = 0, True
        while more:
            rows = self.trials_from(sequence, statuses=(f.TrialStatus.SUCCEEDED,), limit=page)
            sets = self.sets(rows)
            yield [
                (row, held, held.final)
                for row in rows
                if row.source is not f.SuggestionSource.CONFIRMATION
                for held in sets[row.trial_id]
                if held.final is not None
            ]
            more = len(rows) == page
            sequence = rows[-1].sequence + 1 if rows else sequence

    def imports(self) -> list[str]:
        """Return the imported results of each import as JSON text, in order of the imports."""
        table = schema.facts
        query = (
            select(table.c.kind, table.c.payload)
            .where(table.c.experiment_id == self._id, table.c.kind == literal_column("'DataImported'"))
            .order_by(table.c.number)
        )
        records = []
        with self._connect() as connection:
            for kind, payload in connection.execute(self._by(schema.fact_imports.name, query, table)):
                fact = read_fact(kind, payload)
                assert isinstance(fact, f.DataImported)
                records.append(fact.records)
        return records

    def trials_from(
        self, sequence: int = 0, *, statuses: Sequence[f.TrialStatus] = (), limit: int = 1000
    ) -> list[TrialRow]:
        """Return a page of trials whose sequence numbers are ``sequence`` or higher."""
        table = schema.trials
        query = self._of(table).where(table.c.sequence >= sequence).order_by(table.c.sequence).limit(limit)
        if statuses:
            query = query.where(table.c.status.in_([str(status) for status in statuses]))
            query = self._by(_BY_STATUS, query, table)
        return self._rows(query, _trial)

    def first_sequences(self, statuses: Sequence[str]) -> dict[str, int]:
        """Return status -> lowest sequence number of a trial with this status. Ignore statuses that
        no trial has.
        """
        table = schema.trials
        query = select(func.min(table.c.sequence)).where(table.c.experiment_id == self._id)
        with self._connect() as connection:
            found = {
                status: connection.execute(query.where(table.c.status == status)).scalar_one()
                for status in statuses
            }
        return {status: sequence for status, sequence in found.items() if sequence is not None}


def _sets(row: TrialRow, further: list[f.FurtherSuggested], finals: list[Final]) -> list[TrialSet]:
    """Return the parameter sets of a trial with their results.

    In a trial with one set, the first FINAL metric is the result, and its parameter id is ignored.
    """
    if not further:
        first = finals[0] if finals else None
        return [TrialSet(parameter_id=row.parameter_id, parameters=row.parameters, final=first)]
    by_id = {final.line.parameter_id: final for final in finals}
    given = [(row.parameter_id, row.parameters), *((each.parameter_id, each.parameters) for each in further)]
    return [
        TrialSet(
            parameter_id=parameter_id,
            parameters=str(parameters),
            final=by_id.get(None if parameter_id is None else str(parameter_id)),
        )
        for parameter_id, parameters in given
    ]


def _scanned(query: Select[Any]) -> Select[Any]:
    """Return the query with a hint that makes SQLite read the whole table of trials in its order."""
    return query.with_hint(schema.trials, "INDEXED BY sqlite_autoindex_trials_1", "sqlite")


def _trial(row: Any) -> TrialRow:
    values = _convert(row)
    return TrialRow(**values | {"status": f.TrialStatus(values["status"])})


def _convert(row: Any) -> dict[str, Any]:
    keep = "config" in row  # only the row of the experiment has its id
    return {
        key: _CONVERT[key](value) if key in _CONVERT else value
        for key, value in row.items()
        if keep or key != "experiment_id"
    }
