"""The journal on a real disk."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import pytest

from trial_keeper import journal
from trial_keeper.journal import Journal, frame

RECORDS = [{"k": "nop", "seq": number} for number in range(5)]


def written(path: Path) -> bytes:
    content = b"".join(map(frame, RECORDS))
    path.write_bytes(content)
    return content


def test_a_missing_journal_is_empty(tmp_path: Path) -> None:
    assert journal.load(str(tmp_path / "journal")) == journal.Found([], None)


def test_records_come_back_and_are_flushed(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    flushed: queue.Queue[int] = queue.Queue()
    opened = Journal(path, flushed=flushed.put, failed=lambda sentence: pytest.fail(sentence))
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
    assert journal.load(str(path)) == journal.Found(RECORDS[:2], None)


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
    opened = Journal("/dev/full", flushed=lambda number: None, failed=lambda sentence: None)
    with pytest.raises(OSError):
        opened.append(1, RECORDS[0], flush=True)
