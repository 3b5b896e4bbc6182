"""Tests of reading GPUs: the tool's output, the trials of processes, and tools that fail or hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trial_keeper import wire
from trial_keeper.machine import gpus

MARK = "NNIMGR_JOB_ID"
OWNERS = {7: gpus.Owner("x-aaaaa-1"), 8: gpus.Owner(None)}


def read(listing: str, processes: str = "") -> wire.GpuReading:
    return gpus.read(lambda query: listing if "--query-gpu" in query else processes, OWNERS.get).reading


def test_memory_is_what_no_process_accounts_for() -> None:
    reading = read(
        "1, GPU-b, 5000, 90\n0, GPU-a, 300, [N/A]\n", "GPU-b, 8, 1000\nGPU-b, 7, 2000\nGPU-b, 9, 1000\n"
    )
    assert reading == {
        "trouble": None,
        "gpus": [
            {"index": 0, "memory": 256, "processes": []},
            {"index": 1, "memory": 1792, "processes": [[7, "x-aaaaa-1"], [8, None]]},
        ],
    }


def test_what_the_tool_does_not_know_counts_as_nothing() -> None:
    reading = read("0, GPU-a, [N/A], 0\n", "GPU-a, 8, [N/A]\nGPU-z, 8, 5\nGPU-a, [N/A], 5\n")
    assert reading["gpus"] == [{"index": 0, "memory": 0, "processes": [[8, None]]}]


def test_the_load_of_each_gpu() -> None:
    listing = "1, GPU-b, 5000, 90\n0, GPU-a, 300, [N/A]\n"
    assert gpus.read(lambda query: listing if query == gpus.GPUS else "", OWNERS.get).loads == [
        gpus.Load(gpu=0, busy=None, memory=300),
        gpus.Load(gpu=1, busy=90, memory=5000),
    ]


@pytest.mark.parametrize("odd", ["²", "٣", "9" * 30, "9" * 5000])
def test_odd_numbers_are_none(odd: str) -> None:
    reading = read(f"{odd}, GPU-z, 1, 1\n0, GPU-a, {odd}, {odd}\n", f"GPU-a, {odd}, 1\nGPU-a, 8, {odd}\n")
    assert reading["gpus"] == [{"index": 0, "memory": 0, "processes": [[8, None]]}]


def test_sentences_are_no_gpus() -> None:
    assert read("No devices were found\n") == {"trouble": None, "gpus": []}


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the tool with a script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(body: str) -> None:
        new = tmp_path / "new"
        new.write_text(f"#!/bin/sh\n{body}\n")
        new.chmod(0o755)
        new.rename(tmp_path / "nvidia-smi")

    return write


Smi = Callable[[str], None]


def trouble(tool: gpus.Tool) -> str:
    with pytest.raises(gpus.Trouble) as caught:
        tool(gpus.GPUS)
    return str(caught.value)


def test_a_missing_tool_and_a_failing_one_say_so(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi("echo Driver mismatch; echo more; exit 9")
    assert trouble(gpus.Tool()) == "nvidia-smi fails with code 9: Driver mismatch"
    smi("exit 1")
    assert trouble(gpus.Tool()) == "nvidia-smi fails with code 1: no output"
    monkeypatch.setenv("PATH", "/nowhere")
    assert trouble(gpus.Tool()) == "there is no nvidia-smi on the PATH"


@pytest.mark.parametrize(("given", "found"), [("2,0", [0, 2]), ("", None), ("GPU-4a", None)])
def test_without_the_tool_there_are_those_that_a_batch_system_has_given(
    monkeypatch: pytest.MonkeyPatch, given: str, found: list[int] | None
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("NNIMGR_HOST_GPUS", given)
    reading = gpus.read(gpus.Tool(), OWNERS.get).reading
    assert [gpu["index"] for gpu in reading["gpus"]] == (found or [])
    assert reading["trouble"] == (None if found else "there is no nvidia-smi on the PATH")


def test_one_lost_gpu_does_not_hide_the_others(smi: Smi) -> None:
    smi("echo 'Unable to determine the device handle: GPU is lost'; echo '1, GPU-b, 0, [N/A]'; exit 15")
    assert gpus.read(gpus.Tool(), OWNERS.get).reading["gpus"] == [{"index": 1, "memory": 0, "processes": []}]


def test_a_hanging_tool_is_killed(smi: Smi) -> None:
    tool = gpus.Tool(limit_s=0.2)
    smi("sleep 1000")
    assert trouble(tool) == "nvidia-smi has not answered for 0.2 s"
    smi("echo '0, GPU-a, 0, 5'")
    tool.limit_s = 60.0
    assert tool(gpus.GPUS) == "0, GPU-a, 0, 5"


def test_what_nobody_waits_for_any_more_is_killed(smi: Smi, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    smi(f"echo $$ > {tmp_path}/begun; exec sleep 1000")
    told: list[wire.GpuReading] = []
    before = set(threading.enumerate())  # processes of other tests may still be ending
    survey = gpus.Survey(told.append, mark=MARK)
    survey.switch(True)
    (thread,) = set(threading.enumerate()) - before
    (tmp_path / "begun").read_text()
    survey.switch(False)
    thread.join(10)
    assert not thread.is_alive() and told == []


def test_processes_are_known_by_their_own_mark_or_their_parents(tmp_path: Path) -> None:
    find = gpus.owner_of(MARK)
    assert find(os.getpid()) == gpus.Owner(None)
    script = "import subprocess, sys; subprocess.run(['env', '-i', 'cat'], stdout=sys.stdout)"
    parent = subprocess.Popen(
        [sys.executable, "-c", f"{script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: "x-aaaaa-1"},
    )
    assert parent.stdin is not None and parent.stdout is not None
    parent.stdin.write(b"ready\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == b"ready\n"
    (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    assert find(parent.pid) == find(int(child)) == gpus.Owner("x-aaaaa-1")
    parent.communicate()
    assert find(parent.pid) is None


def test_a_survey_tells_changes_only_and_can_be_ended(smi: Smi) -> None:
    told: list[Any] = []
    news = threading.Semaphore(0)

    def tell(reading: wire.GpuReading) -> None:
        told.append(reading["gpus"] or reading["trouble"])
        news.release()

    smi("echo '0, GPU-a, 0, 5'")
    survey = gpus.Survey(tell, mark=MARK, pause_s=0.01)
    survey.switch(True)
    assert news.acquire(timeout=10)
    smi("exit 3")
    assert news.acquire(timeout=10)
    survey.switch(False)
    survey.switch(True)  # repeated, although nothing has changed
    assert news.acquire(timeout=10)
    survey.switch(False)
    for thread in threading.enumerate():
        if thread.name == "gpus":
            thread.join(10)
    assert told == [
        [{"index": 0, "memory": 0, "processes": []}],
        *["nvidia-smi fails with code 3: no output"] * 2,
    ]
