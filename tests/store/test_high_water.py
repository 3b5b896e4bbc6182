"""A database that was replaced by an older copy is recognised when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.store.high_water import HighWater, HighWaterFile


def test_a_mark_comes_back(tmp_path: Path) -> None:
    file = HighWaterFile(tmp_path / "mark")
    assert file.read() is None
    file.note(HighWater(120, 3, 17))
    file.note(HighWater(121, 3, 17))
    assert file.read() == HighWater(121, 3, 17)
    file.close()
    again = HighWaterFile(tmp_path / "mark")
    assert again.read() == HighWater(121, 3, 17)
    again.close()


@pytest.mark.parametrize("content", [b"", b"1 2", b"1 2 3", b"1 2 x\n", b"1 2 3 4\n", b"\xff\xff\n"])
def test_a_file_that_is_no_mark_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mark").write_bytes(content)
    file = HighWaterFile(tmp_path / "mark")
    assert file.read() is None
    file.close()
