"""Tests of the journal on a real disk."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import pytest

from trial_keeper import wire
from trial_keeper.actions import journal
from trial_keeper.actions.journal import Journal, frame
from trial_keeper.core.records import Record
from trial_keeper.core.recovery import fold

RECORDS: list[Record] = [{"k": "nop", "seq": number} for number in range(5)]


def written(path: Path) -> bytes:
    content = b"".join(map(frame, RECORDS))
    path.write_bytes(content)
    return content


def test_a_missing_journal_is_empty(tmp_path: Path) -> None:
    assert journal.load(str(tmp_path / "journal")) == journal.Found([], None)


def test_records_come_back_and_are_flushed(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    flushed: queue.Queue[int] = queue.Queue()
    opened = Journal(path, flushed=flushed.put, failed=lambda sentence: pytest.fail(sentence), fold=fold)
    opened.append(1, RECORDS[0], flush=False)
    opened.append(2, RECORDS[1], flush=True)
    assert flushed.get(timeout=10) == 2
    assert journal.load(path).records == RECORDS[:2]


@pytest.mark.parametrize("cut", range(1, len(frame(RECORDS[-1]))))
def test_a_torn_tail_is_cut(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    content = written(path)
    os.truncate(path, len(content) - cut)
    found = journal.load(str(path))
    assert found == journal.Found(RECORDS[:-1], None)
    assert path.read_bytes() == content[: len(content) - len(frame(RECORDS[-1]))]
    assert journal.load(str(path)).records == RECORDS[:-1]


def test_damage_is_said_and_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = bytearray(written(path))
    start = len(b"".join(map(frame, RECORDS[:2])))
    content[start + 10] ^= 0xFF
    path.write_bytes(content)
    found = journal.load(str(path))
    assert found.records == RECORDS[:2]
    assert found.damage is not None and f"{len(content) - start} bytes" in found.damage
    assert (tmp_path / f"journal.damaged-{start}").read_bytes() == content[start:]
    assert path.read_bytes() == content  # a keeper that is killed now finds it again
    assert journal.load(str(path)) == found


def test_half_a_record_and_then_zeros_is_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = b"".join(map(frame, RECORDS))
    last = frame(RECORDS[-1])
    path.write_bytes(content[: -len(last) // 2] + bytes(100))
    assert journal.load(str(path)) == journal.Found(RECORDS[:-1], None)


def test_damage_that_cannot_be_set_aside_is_said_too(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = bytearray(b"".join(map(frame, RECORDS)))
    content[-2] ^= 1
    path.write_bytes(content)
    start = len(content) - len(frame(RECORDS[-1]))
    (tmp_path / f"journal.damaged-{start}").mkdir()
    found = journal.load(str(path))
    assert found.records == RECORDS[:-1]
    assert found.damage is not None and "could not be copied to another file (Is a directory)" in found.damage


def test_a_damaged_length_does_not_pass_for_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = bytearray(written(path))
    content[0] = 0x7F
    path.write_bytes(content)
    found = journal.load(str(path))
    assert found.records == [] and found.damage is not None


def test_zeros_after_power_loss_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(written(path) + bytes(100))
    assert journal.load(str(path)) == journal.Found(RECORDS, None)


def test_rewriting_replaces_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path)
    journal.rewrite(str(path), RECORDS[3:])
    assert journal.load(str(path)).records == RECORDS[3:]
    assert [each.name for each in tmp_path.iterdir()] == ["journal"]


def test_a_full_disk_raises() -> None:
    opened = Journal("/dev/full", flushed=lambda number: None, failed=lambda sentence: None, fold=fold)
    with pytest.raises(OSError):
        opened.append(1, RECORDS[0], flush=True)


def lives(count: int) -> list[Record]:
    """Return the records of ``count`` attempts that have ended, and of one running attempt."""
    start: wire.Start = {"directory": "trials/x", "boot_id": "b", "command": "true", "parameter": "p" * 500}
    records: list[Record] = [{"k": "epoch", "k_epoch": 3}]
    for seq in range(1, count + 1):
        records.append({"k": "start", "seq": seq, "job": f"e-{seq}-1", "start": start})
        records.append({"k": "gone", "job": f"e-{seq}-1"})
    records.append({"k": "start", "seq": count + 1, "job": "e-live-1", "start": start})
    return records


def test_a_long_journal_is_compacted_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    flushed: queue.Queue[int] = queue.Queue()
    failures: list[str] = []
    opened = Journal(str(path), flushed=flushed.put, failed=failures.append, fold=fold, limit=20_000)
    records = lives(300)
    for number, record in enumerate(records, 1):
        opened.append(number, record, flush=True)
    while flushed.get(timeout=10) < len(records):
        continue
    found = journal.load(str(path))
    assert found.damage is None and failures == []
    assert fold(found.records) == fold(records)
    assert path.stat().st_size < 100_000 < len(b"".join(map(frame, records)))
    opened.append(len(records) + 1, {"k": "gone", "job": "e-live-1"}, flush=True)
    assert flushed.get(timeout=10) == len(records) + 1
    assert fold(journal.load(str(path)).records) == fold([*records, {"k": "gone", "job": "e-live-1"}])


def test_what_is_appended_during_the_compaction_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    flushed: queue.Queue[int] = queue.Queue()
    last: Record = {"k": "gone", "job": "e-live-1"}
    records = lives(50)
    whole = len(b"".join(map(frame, records)))

    def slow_fold(found: list[Record]) -> list[Record]:
        if last not in found and len(found) == len(records):
            opened.append(len(records) + 1, last, flush=True)
        return fold(found)

    opened = Journal(
        str(path), flushed=flushed.put, failed=lambda sentence: None, fold=slow_fold, limit=whole - 1
    )
    for number, record in enumerate(records, 1):
        opened.append(number, record, flush=number == len(records))
    while flushed.get(timeout=10) <= len(records):
        continue
    assert path.stat().st_size < whole // 8
    assert journal.load(str(path)).records == [*fold(records), last]


def test_a_compaction_that_fails_leaves_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (tmp_path / "journal.new").mkdir()  # the new file cannot be made
    flushed: queue.Queue[int] = queue.Queue()
    failures: list[str] = []
    opened = Journal(str(path), flushed=flushed.put, failed=failures.append, fold=fold, limit=1)
    records = lives(50)
    for number, record in enumerate(records, 1):
        opened.append(number, record, flush=number == len(records))
    assert flushed.get(timeout=10) == len(records)
    assert journal.load(str(path)).records == records and failures == []


def test_another_keepers_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    flushed: queue.Queue[int] = queue.Queue()
    opened = Journal(str(path), flushed=flushed.put, failed=lambda sentence: None, fold=fold, limit=1)
    path.unlink()
    content = written(path)
    records = lives(50)
    for number, record in enumerate(records, 1):
        opened.append(number, record, flush=number == len(records))
    assert flushed.get(timeout=10) == len(records)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["journal"]


def test_a_large_journal_that_says_much_is_left(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    flushed: queue.Queue[int] = queue.Queue()
    opened = Journal(str(path), flushed=flushed.put, failed=lambda sentence: None, fold=fold, limit=1)
    records = [record for record in lives(50) if record["k"] != "gone"]
    for number, record in enumerate(records, 1):
        opened.append(number, record, flush=number == len(records))
    assert flushed.get(timeout=10) == len(records)
    assert journal.load(str(path)).records == records
