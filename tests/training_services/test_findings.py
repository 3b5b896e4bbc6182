"""Tests of the findings from the facts about a machine."""

from __future__ import annotations

from typing import Any

import pytest

from training_services.base import shown_bytes
from training_services.findings import Check, Finding, Level, Needs, judge

GIB = 1 << 30


def gpu(index: int, *processes: int) -> dict[str, Any]:
    return {"index": index, "memory": 0, "processes": [[pid, None] for pid in processes]}


def facts(**other: Any) -> dict[str, Any]:
    return {
        "python": "3.11.2",
        "executable": "/usr/bin/python3",
        "top": "/home/ann/nni-experiments",
        "user": "ann",
        "host": "m2",
        "cpus": 8,
        "free_bytes": 100 * GIB,
        "free_files": 1_000_000,
        "trouble": None,
        "gpus": {"trouble": None, "gpus": []},
        "time": 0.0,
        **other,
    }


def find(check: Check, *, needs: Needs | None = None, ahead_s: float = 0.0, **other: Any) -> Finding:
    found = judge("ann@m2", facts(**other), needs=needs or Needs(), ahead_s=ahead_s)
    (finding,) = [finding for finding in found if finding.check is check]
    return finding


def test_a_machine_without_faults() -> None:
    found = list(judge("ann@m2", facts(), needs=Needs(), ahead_s=0.4))
    assert {finding.level for finding in found} == {Level.OK}
    assert [finding.sentence for finding in found] == [
        "Python 3.11.2 (/usr/bin/python3), 8 CPUs",
        "/home/ann/nni-experiments is writable",
        "100 GiB free below /home/ann/nni-experiments",
        "no GPU, none is needed",
        "the clock differs from this server's by less than 5 s",
    ]


@pytest.mark.parametrize("folder", ["/usr/bin", "/usr/bin/", "/usr//bin", None])
def test_a_python_where_it_is_said_to_be(folder: str | None) -> None:
    assert find(Check.PYTHON, needs=Needs(python_path=folder)).level is Level.OK


def test_a_python_below_the_home() -> None:
    needs = Needs(python_path="~/envs/a/bin")
    found = find(Check.PYTHON, needs=needs, executable="/home/ann/envs/a/bin/python3")
    assert found.level is Level.OK
    assert find(Check.PYTHON, needs=needs).level is Level.WARNING


@pytest.mark.parametrize("folder", ["/nowhere", "/usr/bin/python3"])
def test_another_python_than_the_one_that_is_named(folder: str) -> None:
    found = find(Check.PYTHON, needs=Needs(python_path=folder))
    assert found.level is Level.WARNING
    assert f"pythonPath {folder} is" in found.sentence and "(/usr/bin/python3) is used" in found.sentence


@pytest.mark.parametrize(
    ("free", "level"), [(10 << 20, Level.FAULT), (GIB, Level.WARNING), (5 * GIB, Level.OK)]
)
def test_room_on_the_disk(free: int, level: Level) -> None:
    assert find(Check.DISK, free_bytes=free).level is level


def test_files_on_the_disk() -> None:
    assert "only 12 more files" in find(Check.DISK, free_files=12).sentence
    # a file system that reports 0 does not count files
    assert find(Check.DISK, free_files=0).level is Level.OK


def test_what_cannot_be_written_to() -> None:
    finding = find(Check.WRITING, trouble="Permission denied")
    assert finding.level is Level.FAULT
    assert "cannot write to /home/ann/nni-experiments: Permission denied" in finding.sentence


@pytest.mark.parametrize(
    ("ahead_s", "part"),
    [(3 * 86_400.0, "3 days ahead of"), (-600.0, "10 minutes behind"), (7.0, "7 s ahead of")],
)
def test_a_clock_that_is_wrong(ahead_s: float, part: str) -> None:
    finding = find(Check.CLOCK, ahead_s=ahead_s)
    assert finding.level is Level.WARNING
    assert part in finding.sentence


@pytest.mark.parametrize(
    ("needs", "reading", "level", "part"),
    [
        (Needs(gpus=1), {"trouble": None, "gpus": [gpu(0, 7), gpu(1)]}, Level.OK, "2 GPUs, 1 of them in use"),
        (Needs(gpus=0.5), {"trouble": None, "gpus": [gpu(0)]}, Level.OK, "1 GPU"),
        (
            Needs(gpus=1),
            {"trouble": "there is no tool", "gpus": []},
            Level.FAULT,
            "the GPUs cannot be read: there is no tool",
        ),
        (Needs(gpus=2), {"trouble": None, "gpus": [gpu(0)]}, Level.FAULT, "may use 1 GPU here"),
        (
            Needs(gpus=1, gpu_indices=[0, 5]),
            {"trouble": None, "gpus": [gpu(0)]},
            Level.FAULT,
            "the machine has no GPU 5",
        ),
        (Needs(gpus=2, gpu_indices=[1]), {"trouble": None, "gpus": [gpu(0), gpu(1)]}, Level.FAULT, "1 GPU"),
        (Needs(gpus=0), {"trouble": "there is no tool", "gpus": []}, Level.OK, "none is needed"),
    ],
)
def test_gpus(needs: Needs, reading: dict[str, Any], level: Level, part: str) -> None:
    finding = find(Check.GPUS, needs=needs, gpus=reading)
    assert finding.level is level
    assert part in finding.sentence


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1010, "1010 bytes"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"), (1 << 50, "1024.0 TiB")],
)
def test_bytes_are_shown_without_exponents(number: int, text: str) -> None:
    assert shown_bytes(number) == text
