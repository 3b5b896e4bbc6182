"""Tables of the database. One SQLite file holds one experiment, but every table has experiment_id.

``facts`` and ``metrics`` share one counter (``number``) and are together the log. ``trial_annotations`` and
``views`` hold what users add, whether the experiment runs or not; the log does not contain them. All other
tables follow from the log: they are written in the same transaction as the facts, or can be rebuilt. Instants
are integers: microseconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 9

metadata = MetaData()


def _table(name: str, *parts: Column[object] | PrimaryKeyConstraint | UniqueConstraint | Index) -> Table:
    return Table(
        name,
        metadata,
        Column("experiment_id", String(32), nullable=False),
        *parts,
        sqlite_with_rowid=False,
    )


facts = _table(
    "facts",
    Column("number", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", String(40), nullable=False),  # class name of the fact
    Column("v", Integer, nullable=False),
    Column("trial_id", String(16)),
    Column("payload", Text, nullable=False),  # fields of the fact as JSON text
    PrimaryKeyConstraint("experiment_id", "number"),
)


def _few(name: str, kind: str) -> Index:
    """Build a partial index that contains only facts of one rare kind, which are queried often."""
    of_kind = facts.c.kind == kind
    return Index(name, facts.c.experiment_id, facts.c.number, sqlite_where=of_kind)


fact_failures = _few("fact_failures", "AlgorithmFailed")
fact_imports = _few("fact_imports", "DataImported")
fact_further_sets = Index(
    "fact_further_sets",
    facts.c.experiment_id,
    facts.c.trial_id,
    facts.c.number,
    sqlite_where=facts.c.kind == "FurtherSuggested",
)
fact_by_trial = Index(
    "fact_by_trial",
    facts.c.experiment_id,
    facts.c.trial_id,
    facts.c.number,
    sqlite_where=facts.c.trial_id.is_not(None),
)

metrics = _table(
    "metrics",
    Column("number", BigInteger, nullable=False),
    Column("trial_id", String(16), nullable=False),
    # The attempt whose curve shows the metric. An attempt that continues from a checkpoint takes over the
    # metrics that led to the checkpoint; ``ran_in`` then has the attempt that reported the metric.
    Column("attempt", Integer, nullable=False),
    # Number of the metric's frame in the attempt. An attempt that continues from a checkpoint counts on from
    # the frames of the earlier attempts up to the checkpoint.
    Column("position", Integer, nullable=False),
    Column("parameter_id", Text),  # JSON text; NULL for null
    Column("type", String(10), nullable=False),  # PERIODICAL, FINAL
    Column("sequence", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("value", Float),  # the number in the metric; NULL if none or not finite
    Column("text", Text, nullable=False),  # JSON text of the value, as the trial wrote it
    Column("ran_in", Integer),  # NULL: the attempt in ``attempt``
    PrimaryKeyConstraint("experiment_id", "number"),
    UniqueConstraint("experiment_id", "trial_id", "attempt", "position", name="metric_recorded_once"),
)

metric_finals = Index(
    "metric_finals",
    metrics.c.experiment_id,
    metrics.c.trial_id,
    metrics.c.attempt,
    metrics.c.position,
    sqlite_where=metrics.c.type == "FINAL",
)

experiments = Table(
    "experiments",
    metadata,
    Column("experiment_id", String(32), primary_key=True),
    Column("db_id", String(32), nullable=False),
    Column("m_epoch", Integer, nullable=False),
    Column("config", Text, nullable=False),  # canonical camelCase JSON, with changes folded in
    Column("search_space", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("drain", String(16)),
    Column("reason", Text, nullable=False),  # one sentence about the status
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("active_us", BigInteger, nullable=False),  # time in which the experiment ran, until active_since
    Column("active_since", BigInteger),  # NULL while the time does not count
    Column("next_sequence", Integer, nullable=False),
    Column("counts", Text, nullable=False),  # JSON: trial status -> number of trials
    # best trial by the tuner's optimize_mode; without a mode, the trial with the largest result
    Column("best_trial_id", String(16)),
    Column("best_value", Float),
    Column("last_number", BigInteger, nullable=False),
)

trials = _table(
    "trials",
    Column("trial_id", String(16), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("detail", String(16)),  # queued, placed or stopping; NULL: no detail
    Column("source", String(16), nullable=False),
    Column("parameter_id", Integer),
    Column("parameters", Text, nullable=False),  # JSON text in the order of the search space
    Column("retry_of", String(16)),
    Column("attempt", Integer, nullable=False),  # number of the latest attempt, 0 before the first
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),  # start of the latest attempt
    Column("ended_at", BigInteger),
    Column("reason", Text),  # one sentence that says why the trial waits, stops or has ended
    Column("note", Text),  # one sentence about an oddity, such as skipped frames or a truncated log
    Column("final_value", Float),  # number of the first FINAL metric in the attempt that counts
    Column("final_text", Text),
    Column("latest_value", Float),
    Column("latest_text", Text),
    Column("intermediates", Integer, nullable=False),
    PrimaryKeyConstraint("experiment_id", "trial_id"),
    UniqueConstraint("experiment_id", "sequence", name="trial_sequence"),
    Index("trial_by_status", "experiment_id", "status", "sequence"),
    Index("trial_by_final", "experiment_id", "final_value", "sequence"),
)

jobs = _table(
    "jobs",
    Column("job_id", String(64), nullable=False),
    Column("trial_id", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("keeper_id", String(64)),
    Column("gpus", Text),  # JSON list
    Column("placed_at", BigInteger),
    Column("started_at", BigInteger),
    Column("pid", Integer),
    Column("ended_at", BigInteger),
    Column("end_reason", String(16)),  # an EndReason, or "lost"
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("frames", Integer, nullable=False),
    Column("message", Text),
    Column("cause", String(16)),  # of a failure or loss; NULL also if an earlier version has stored it
    Column("members", Text),  # JSON list of the members of a gang (``members.py``); NULL: it is none
    Column("place_reason", Text),  # why it was placed there; NULL: the first platform had a free place
    PrimaryKeyConstraint("experiment_id", "job_id"),
    Index("job_by_trial", "experiment_id", "trial_id", "attempt"),
)

checkpoints = _table(
    "checkpoints",
    Column("trial_id", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),  # the attempt that has saved the checkpoint
    Column("number", Integer, nullable=False),
    Column("position", Integer, nullable=False),  # of its frame, as in ``metrics``
    Column("step", BigInteger),  # the trial's own count of its progress
    Column("size", BigInteger, nullable=False),  # bytes
    Column("files", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    # saved, deleted, lost (the host no longer has the files), or unusable (no attempt can use it)
    Column("state", String(16), nullable=False),
    Column("reports", Integer),  # intermediate results up to it; NULL: stored by an earlier version
    PrimaryKeyConstraint("experiment_id", "trial_id", "attempt", "number"),
)

# The server's present copies of checkpoints, in the experiment's folder.
checkpoint_copies = _table(
    "checkpoint_copies",
    Column("trial_id", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),  # the attempt that has saved the checkpoint
    Column("number", Integer, nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the copy's manifest
    Column("size", BigInteger, nullable=False),  # bytes
    PrimaryKeyConstraint("experiment_id", "trial_id", "attempt", "number"),
)

legs = _table(
    "legs",
    Column("trial_id", String(16), nullable=False),
    Column("leg", Integer, nullable=False),  # from 1; leg 0 begins with the trial
    Column("number", BigInteger, nullable=False),  # of the fact AttemptDue
    Column("attempt", Integer, nullable=False),  # the attempt with which the leg begins
    Column("at", BigInteger, nullable=False),
    Column("parameters", Text, nullable=False),  # JSON text
    Column("reports", Integer, nullable=False),  # the leg's first result has this number
    # the checkpoint from which the leg continues
    Column("origin_trial_id", String(16), nullable=False),
    Column("origin_attempt", Integer, nullable=False),
    Column("origin_number", Integer, nullable=False),
    Column("step", BigInteger),
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("experiment_id", "trial_id", "leg"),
)

keepers = _table(
    "keepers",
    Column("keeper_id", String(64), nullable=False),
    Column("token_sha256", String(64), nullable=False),
    Column("instance", String(64)),
    Column("boot_id", String(64)),
    PrimaryKeyConstraint("experiment_id", "keeper_id"),
)

snapshots = _table(
    "snapshots",
    Column("number", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the state as JSON text, compressed by zlib
    PrimaryKeyConstraint("experiment_id", "number"),
)

trial_annotations = _table(
    "trial_annotations",
    Column("trial_id", String(16), nullable=False),
    Column("note", Text, nullable=False),  # the user's text; "": no note
    Column("tags", Text, nullable=False),  # JSON list of texts
    Column("at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),  # number of changes of all annotations so far
    PrimaryKeyConstraint("experiment_id", "trial_id"),
    UniqueConstraint("experiment_id", "revision", name="annotation_revision"),
)

views = _table(
    "views",
    Column("view_id", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("content", Text, nullable=False),  # JSON object that the store does not interpret
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("experiment_id", "view_id"),
    UniqueConstraint("experiment_id", "name", name="view_name"),
)
