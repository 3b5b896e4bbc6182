"""Tests of plain files: where their last lines begin."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trial_keeper.machine import untrusted_files
from trial_keeper.machine.untrusted_files import PlainFile, list_files, shown_name


def last_lines(content: bytes, count: int) -> bytes:
    return b"".join(content.splitlines(keepends=True)[-count:] if count else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.text(alphabet="ab\n", max_size=60).map(str.encode),
    tail=st.integers(0, 12),
    size=st.integers(1, 9),
)
def test_a_tail_is_the_last_lines(
    content: bytes, tail: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted_files, "_CHUNK", size)
    (tmp_path / "log").write_bytes(content)
    with closing(PlainFile(str(tmp_path), [], "log")) as file:
        start = file.seek_tail(tail)
        read = b"".join(iter(file.read, b""))
    assert read == last_lines(content, tail)
    assert start == len(content) - len(read)


def test_a_name_that_is_no_text_is_found_by_what_a_listing_shows(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"a\xfe")).write_bytes(b"found")
    (tmp_path / "a\\xfe").write_bytes(b"plain")
    (listed, plain), complete = list_files(str(tmp_path), [])
    assert complete and (listed.path, shown_name(plain.path)) == ("a\\xfe", "d\\xff/a\\xfe")
    for name, content in ((listed.path, b"plain"), (shown_name(plain.path), b"found")):
        with closing(PlainFile(str(tmp_path), [], name)) as file:
            assert file.read() == content
    with pytest.raises(FileNotFoundError):
        PlainFile(str(tmp_path), [], "b\\xfe")


def test_what_is_before_the_last_lines_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        file.truncate(1 << 40)  # a sparse file, far too large to be read
        file.seek(1 << 40)
        file.write(b"\none\ntwo")
    with closing(PlainFile(str(tmp_path), [], "log")) as log:
        log.seek_tail(2)
        assert log.read() == b"one\ntwo"
