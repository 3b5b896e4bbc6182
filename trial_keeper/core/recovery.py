"""Recovery from the journal: rebuild the attempts from records, and shorten the records."""

from __future__ import annotations

from trial_keeper.core.attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from trial_keeper.core.records import (
        AskedRecord,
        BaselessRecord,
        ClaimedRecord,
        EpochRecord,
        FinalRecord,
        Record,
        SaveRecord,
        StartRecord,
        StopRecord,
    )
    from trial_keeper.wire import Final, Start


class DurableState:
    """State that survives a restart. ``applied``: number of the last command whose record is written."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.k_epoch = 0
        self.db_id: str | None = None
        self.m_epoch = 0
        self.applied = 0
        self.attempts: dict[str, Attempt] = {}
        for record in records:
            self._restore(record)

    def records(self) -> list[Record]:
        """Return the shortest records that rebuild this state."""
        epoch: EpochRecord = {"k": "epoch", "k_epoch": self.k_epoch}
        found: list[Record] = [
            epoch,
            {"k": "server", "db_id": self.db_id, "m_epoch": self.m_epoch},
            {"k": "nop", "seq": self.applied},
        ]
        for attempt in self.attempts.values():
            found += _records_of(attempt)
        epoch["n"] = len(found)
        return found

    def _restore(self, record: Record) -> None:
        self.applied = max(self.applied, record.get("seq", 0))
        if record["k"] == "epoch":
            self.k_epoch = record["k_epoch"]
        elif record["k"] == "server":
            self.db_id, self.m_epoch = record["db_id"], record["m_epoch"]
        elif record["k"] == "start":
            self.attempts[record["job"]] = Attempt(
                record["job"], record["seq"], record["start"], apart=record.get("apart", False)
            )
        elif record["k"] == "gone":
            self.attempts.pop(record["job"], None)
        elif record.get("job") in self.attempts:
            _restore_attempt(self.attempts[record["job"]], record)


def is_whole(records: list[Record]) -> bool:
    """Return whether the journal still has all records of its last rewrite.

    The rewrite was atomic and durable. If a record of the rewrite is missing, the file was truncated and the
    extent of the loss is unknown. Records that were appended after the rewrite may be missing, because the
    server sends their commands again.
    """
    if not records:
        return False
    first = records[0]
    return first["k"] != "epoch" or len(records) >= first.get("n", 1)


def fold(records: list[Record]) -> list[Record]:
    """Return the shortest records that rebuild the same state as ``records``."""
    return DurableState(records).records()


def _restore_attempt(attempt: Attempt, record: Record) -> None:
    attempt.seq = max(attempt.seq, record.get("seq", 0))
    if record["k"] == "stop":
        attempt.stop = record["grace"]
        attempt.doomed = record["doomed"]
        attempt.orphaned = record.get("orphaned", False)
        attempt.evicted = record.get("evicted", False)
        attempt.save = record.get("save")
    elif record["k"] == "save":
        attempt.wish = record["within"]
    elif record["k"] == "asked":
        attempt.wish = None
    elif record["k"] == "baseless":
        attempt.baseless = record["sentence"]
    elif record["k"] == "claimed":
        attempt.claimed = True
        attempt.shim = None if record["shim"] is None else (record["shim"][0], record["shim"][1])
        attempt.started = record["started"]
    elif record["k"] == "update":
        attempt.updates[record["index"]] = record["parameter"]
    elif record["k"] == "final":
        attempt.final = record["final"]
        attempt.started = record["started"]
        attempt.note = record["note"]


def _records_of(attempt: Attempt) -> list[Record]:
    job = attempt.job
    start: Start | None = attempt.start
    if start is None or not attempt.live:
        start = {"directory": attempt.directory, "boot_id": attempt.boot_id}
    found: list[Record] = [start_record(job, attempt.seq, start, apart=attempt.apart)]
    found += [
        {"k": "update", "job": job, "index": index, "parameter": parameter}
        for index, parameter in attempt.updates.items()
    ]
    if attempt.shim is not None and attempt.live:
        found.append(claimed_record(attempt))
    if attempt.baseless is not None and attempt.live:
        found.append(baseless_record(attempt))
    if attempt.wish is not None and attempt.live:
        found.append(save_record(job, attempt.wish))
    if attempt.stop is not None:
        found.append(stop_record(attempt))
    if attempt.final is not None:
        found.append(final_record(attempt, attempt.final))
    return found


def start_record(job: str, seq: int, start: Start, *, apart: bool) -> StartRecord:
    """Return the journal record of a command to start an attempt.

    ``apart``: the attempt's claim file is in the keeper's folder, not in the trial's, as in old versions.
    """
    return {"k": "start", "seq": seq, "job": job, "start": start, "apart": apart}


def claimed_record(attempt: Attempt) -> ClaimedRecord:
    """Return the journal record of the shim that has claimed the attempt.

    The record serves instead of the claim file if the file disappears.
    """
    return {"k": "claimed", "job": attempt.job, "shim": attempt.shim, "started": attempt.started}


def baseless_record(attempt: Attempt) -> BaselessRecord:
    """Return the record that the checkpoint from which the attempt was to continue is missing."""
    return {"k": "baseless", "job": attempt.job, "sentence": attempt.baseless}


def stop_record(attempt: Attempt) -> StopRecord:
    """Return the record of an order to stop the attempt."""
    return {
        "k": "stop",
        "job": attempt.job,
        "grace": attempt.stop,
        "doomed": attempt.doomed,
        "orphaned": attempt.orphaned,
        "evicted": attempt.evicted,
        "save": attempt.save,
    }


def save_record(job: str, within: float) -> SaveRecord:
    """Return the record of an order to ask a running trial to save its state. ``within``: seconds."""
    return {"k": "save", "job": job, "within": within}


def asked_record(job: str) -> AskedRecord:
    """Return the record that the order to ask a trial for a save is complete."""
    return {"k": "asked", "job": job}


def final_record(attempt: Attempt, final: Final) -> FinalRecord:
    """Return the record of the end of a sealed attempt."""
    return {
        "k": "final",
        "job": attempt.job,
        "final": final,
        "started": attempt.started,
        "note": attempt.note,
    }
