"""Tests of logs with a size limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trial_keeper import log
from trial_keeper.log import CappedLog


def test_what_fits_is_kept_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    capped = CappedLog(str(path), 4096)
    capped.write(b"\xff" * 4000)
    capped.write(b"y" * 96)
    capped.close()
    assert path.read_bytes() == b"\xff" * 4000 + b"y" * 96


@pytest.mark.parametrize("chunk", [1, 7, 1000, 5000, 100_000])
def test_head_and_tail_stay(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "stdout"
    capped = CappedLog(str(path), 10_000)
    everything = b"".join(b"%09d\n" % number for number in range(20_000))
    for at in range(0, len(everything), chunk):
        capped.write(everything[at : at + chunk])
        assert os.path.getsize(path) <= 10_000
    capped.close()
    content = path.read_bytes()
    head, note, tail = content[:5000], content[5000:].split(b"...]\n")[0], content[5000:].split(b"...]\n")[1]
    assert everything.startswith(head) and everything.endswith(tail)
    assert int(note.split()[1]) == len(everything) - len(head) - len(tail)
    assert len(tail) > 2000


def test_a_cap_too_small_for_its_note_is_raised(tmp_path: Path) -> None:
    capped = CappedLog(str(tmp_path / "stdout"), 0)
    capped.write(b"z" * 100_000)
    assert os.path.getsize(tmp_path / "stdout") <= log.LEAST


def test_a_failed_write_drops_and_counts(tmp_path: Path) -> None:
    capped = CappedLog(str(tmp_path / "no" / "such" / "folder"), 4096)
    capped.write(b"12345")
    capped.close()
    assert capped.dropped == 5
    full = CappedLog("/dev/full", 4096)
    full.write(b"123")
    full.close()
    assert full.dropped == 3


REPORT = b"""\
E1127 03:25 32246 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


TRACEBACK = b"""\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError(text)
"""


GROUP = b"""\
  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 3, in <module>
  | ExceptionGroup: two loaders failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ExceptionGroup: inner (1 sub-exception)
    +-+---------------- 1 ----------------
      | Traceback (most recent call last):
      |   File "train.py", line 1, in load
      | OSError: no file
      |
      | second line
      +------------------------------------
    +---------------- 2 ----------------
    | KeyError: 'b'
    +------------------------------------
"""


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (b"", b""),
        (TRACEBACK + b"ValueError: bad row\n  row 1 is empty\n", b"ValueError: bad row ... row 1 is empty"),
        (
            TRACEBACK + b"ValueError: the input is wrong:\n  row 1 is empty\n  row 2 is empty\n",
            b"ValueError: the input is wrong: row 1 is empty ... row 2 is empty",
        ),
        (
            TRACEBACK + b"ValueError: the input is wrong:\n  row 1 is empty\n",
            b"ValueError: the input is wrong: row 1 is empty",
        ),
        (TRACEBACK + b"ValueError: \n\nrow 1\nrow 2\n", b"ValueError: row 1 ... row 2"),
        (TRACEBACK + b"ValueError: cut at a colon:\n", b"ValueError: cut at a colon:"),
        (TRACEBACK + b"KeyError: 'lr'\nthe file has no lr\n", b"KeyError: 'lr' ... the file has no lr"),
        (
            TRACEBACK
            + b"KeyError: 1\n\nDuring handling of the above exception, another occurred:\n\n\r 40%|####   "
            + TRACEBACK
            + b"OSError: no file\nsecond line\n"
            + REPORT,
            b"OSError: no file ... second line",
        ),
        (b"[rank1]: " + TRACEBACK.replace(b"\n", b"\n[rank1]: ") + b"OSError: no\n", b"[rank1]: OSError: no"),
        (TRACEBACK, b"raise ValueError(text)"),
        (GROUP, b"ExceptionGroup: two loaders failed (2 sub-exceptions)"),
        (
            GROUP.replace(b"failed (", b"failed:\n  |\n  | both (") + b"clean\n",
            b"ExceptionGroup: two loaders failed: both (2 sub-exceptions) ... clean",
        ),
        (GROUP + b"\nDuring handling:\n\n" + TRACEBACK + b"KeyError: 'lr'\n", b"KeyError: 'lr'"),
        (
            TRACEBACK + b"KeyError: 'lr'\n\nDuring handling:\n\n" + GROUP + REPORT,
            b"ExceptionGroup: two loaders failed (2 sub-exceptions)",
        ),
        (b"one\ntwo\n\n", b"two"),
        (b"\x1b[1;31mERROR\x1b[0m no \x1b[Kdata\x1b[\n", b"ERROR no data"),
        (b"\x1b[31mit failed\x1b[0m\n\x1b[2m-----\x1b[0m\n", b"it failed"),
        (b"it failed\n==========\n--- ---\n", b"it failed"),
        (b"=====\n", b""),
        (b"ValueError: no\n" + REPORT, b"ValueError: no"),
        (
            REPORT,
            b"traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        ),
    ],
)
def test_the_last_line_that_says_something(tmp_path: Path, written: bytes, line: bytes) -> None:
    capped = CappedLog(str(tmp_path / "stderr"), 1 << 20)
    capped.write(written)
    assert capped.last_line(16384) == line
    capped.close()
