"""Tables of the product, in memory, with the log of a life: what readers find there."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, StaticPool, create_engine

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store import schema, writer
from nnimgr.store.rows import batch

Shown = dict[str, list[tuple[int, int, str]]]  # trial -> attempt, position and text of each metric

_ENGINE = create_engine("sqlite://", poolclass=StaticPool)  # one for all lives: making it takes longest
_SHOWN = (
    "SELECT m.trial_id, m.attempt, m.position, m.text FROM metrics AS m JOIN (SELECT trial_id, "
    "max(attempt) AS attempt FROM metrics WHERE experiment_id = ? GROUP BY trial_id) AS newest "
    "ON m.experiment_id = ? AND m.trial_id = newest.trial_id AND m.attempt = newest.attempt "
    "ORDER BY m.trial_id, m.position"
)


def stored(state: ExperimentState, log: Sequence[f.Recorded]) -> tuple[list[f.Recorded], Shown]:
    """Store the log. Return it as it is read back, and the metrics of each trial's last attempt."""
    with _ENGINE.connect() as connection:
        schema.metadata.create_all(connection, tables=[schema.facts, schema.metrics])
        _insert(connection, state, log)
        found = list(writer.read_log(connection, state.id, after=0))
        curves: Shown = {}
        rows = connection.exec_driver_sql(_SHOWN, (state.id, state.id))
        for trial_id, attempt, position, text in rows:
            curves.setdefault(trial_id, []).append((attempt, position, text))
        connection.rollback()
    return found, curves


def _insert(connection: Connection, state: ExperimentState, log: Sequence[f.Recorded]) -> None:
    rows = batch(state, log, Touched())
    for statement, values in (
        (writer._FACT, rows.facts),
        (writer._METRIC, rows.metrics),
        (writer.CONTINUED, rows.continued),
    ):
        if values:
            connection.exec_driver_sql(statement, values)
