"""What the journal says: its records folded into attempts, and the shortest records that say the same."""

from __future__ import annotations

from trial_keeper.attempt import Attempt
from trial_keeper.effects import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable


class Memory:
    """Everything that outlives the keeper. ``applied``: the highest command whose record is written."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.k_epoch = 0
        self.db_id: str | None = None
        self.m_epoch = 0
        self.applied = 0
        self.attempts: dict[str, Attempt] = {}
        for record in records:
            self._restore(record)

    def records(self) -> list[Record]:
        """Return the records to rewrite the journal with."""
        found: list[Record] = [
            {"k": "epoch", "k_epoch": self.k_epoch},
            {"k": "server", "db_id": self.db_id, "m_epoch": self.m_epoch},
            {"k": "nop", "seq": self.applied},
        ]
        for attempt in self.attempts.values():
            found += _records_of(attempt)
        found[0]["n"] = len(found)
        return found

    def _restore(self, record: Record) -> None:
        kind = record["k"]
        self.applied = max(self.applied, record.get("seq", 0))
        if kind == "epoch":
            self.k_epoch = record["k_epoch"]
        elif kind == "server":
            self.db_id, self.m_epoch = record["db_id"], record["m_epoch"]
        elif kind == "start":
            self.attempts[record["job"]] = Attempt(
                record["job"], record["seq"], record["start"], apart=record.get("apart", False)
            )
        elif kind == "gone":
            self.attempts.pop(record["job"], None)
        elif record.get("job") in self.attempts:
            _restore_attempt(self.attempts[record["job"]], record)


def is_whole(records: list[Record]) -> bool:
    """Return whether the journal still has all records that it was last rewritten with.

    They were written at once and durably. If one is missing, the file was cut, and nobody knows what is lost.
    Records that were appended later may be missing at the end: their commands are sent again.
    """
    return bool(records) and len(records) >= records[0].get("n", 1)


def fold(records: list[Record]) -> list[Record]:
    """The shortest records that say the same as these."""
    return Memory(records).records()


def _restore_attempt(attempt: Attempt, record: Record) -> None:
    kind = record["k"]
    attempt.seq = max(attempt.seq, record.get("seq", 0))
    if kind == "stop":
        attempt.stop = record["grace"]
        attempt.doomed = record["doomed"]
        attempt.orphaned = record.get("orphaned", False)
        attempt.evicted = record.get("evicted", False)
    elif kind == "claimed":
        attempt.claimed = True
        attempt.shim = (record["shim"][0], record["shim"][1])
        attempt.started = record["started"]
    elif kind == "update":
        attempt.updates[record["index"]] = record["parameter"]
    elif kind == "final":
        attempt.final = record["final"]
        attempt.started = record["started"]
        attempt.note = record["note"]


def _records_of(attempt: Attempt) -> list[Record]:
    job = attempt.job
    start = attempt.start
    if start is None or not attempt.live:
        start = {"directory": attempt.directory, "boot_id": attempt.boot_id}
    found = [start_record(job, attempt.seq, start, apart=attempt.apart)]
    found += [
        {"k": "update", "job": job, "index": index, "parameter": parameter}
        for index, parameter in attempt.updates.items()
    ]
    if attempt.shim is not None and attempt.live:
        found.append(claimed_record(attempt))
    if attempt.stop is not None:
        found.append(stop_record(attempt))
    if attempt.final is not None:
        found.append(final_record(attempt))
    return found


def start_record(job: str, seq: int, start: dict[str, Any], *, apart: bool) -> Record:
    """Record that the attempt is to be started, and where its claim is."""
    return {"k": "start", "seq": seq, "job": job, "start": start, "apart": apart}


def claimed_record(attempt: Attempt) -> Record:
    """Record which process has claimed the attempt, so that it is known even if the claim file vanishes."""
    return {"k": "claimed", "job": attempt.job, "shim": attempt.shim, "started": attempt.started}


def stop_record(attempt: Attempt) -> Record:
    """The attempt is to be stopped."""
    return {
        "k": "stop",
        "job": attempt.job,
        "grace": attempt.stop,
        "doomed": attempt.doomed,
        "orphaned": attempt.orphaned,
        "evicted": attempt.evicted,
    }


def final_record(attempt: Attempt) -> Record:
    """The attempt is sealed."""
    return {
        "k": "final",
        "job": attempt.job,
        "final": attempt.final,
        "started": attempt.started,
        "note": attempt.note,
    }
