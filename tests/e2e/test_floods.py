"""Floods from trials: output and metrics, in bulk and malformed, through a real keeper and a real server."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.scene import DEADLINE_S, Scene, high_water, scene
from tests.trial_keeper.harness import host

MIB = 1 << 20
SCALE = int(os.environ.get("NNIMGR_TEST_FLOOD", "1"))  # 40: 10 GB of output, two million metrics
FIRST = 10**14
NOTE = re.compile(rb"\n\[\.\.\. (\d+) bytes are left out here: the log may hold (\d+) \.\.\.\]\n")

FRAMES = """
import json, os, time
os.chdir(os.environ["NNI_SYS_DIR"])
file = os.open(".nni/metrics", os.O_WRONLY | os.O_APPEND)
def frame(payload):
    return b"ME%06d" % len(payload) + payload
def metric(number, value, kind="PERIODICAL"):
    return frame(json.dumps({"parameter_id": 0, "trial_job_id": os.environ["NNI_TRIAL_JOB_ID"],
                             "type": kind, "sequence": number, "value": json.dumps(value)}).encode())
"""


def test_a_flood_of_output_keeps_its_head_and_its_tail_and_says_what_is_missing(tmp_path: Path) -> None:
    total, cap = 256 * MIB * SCALE, 8 * MIB
    with host(tmp_path) as here:
        # Numbered lines of 16 bytes: any part of it tells where it is from.
        command = f"seq {FIRST} {FIRST + total // 16 - 1}"
        directory = here.attempt("e-a-1", command, log_cap=cap)
        here.server.ended("e-a-1", DEADLINE_S * SCALE)
    kept = (directory / "stdout").read_bytes()
    assert len(kept) <= cap
    note = NOTE.search(kept)
    assert note is not None
    head, tail, skipped = kept[: note.start()], kept[note.end() :], int(note[1])
    assert len(head) + skipped + len(tail) == total and int(note[2]) == cap
    assert head == b"".join(b"%d\n" % (FIRST + number) for number in range(cap // 2 // 16))
    whole = len(tail) // 16  # its first line may be cut
    last = range(FIRST + total // 16 - whole, FIRST + total // 16)
    assert tail[len(tail) % 16 :] == b"".join(b"%d\n" % number for number in last)
    assert len(tail) > cap // 8


def test_a_line_of_200_megabytes_goes_through_the_server_without_filling_it(tmp_path: Path) -> None:
    size = 200_000_000
    with scene(tmp_path) as here:
        here.create(f"head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
        (trial,) = here.done()
        before = high_water(here.server)
        assert here.log(trial["id"], "stdout?tail=1") == b"end\n"
        line = here.log(trial["id"], "stdout?tail=2")
        assert len(line) == size + 5 and line.count(b"x") == size
        assert high_water(here.server) - before < 32 * MIB


def test_output_and_metrics_may_hold_any_bytes(tmp_path: Path) -> None:
    trash = rb"""
os.write(1, bytes(range(256)) * 2)
os.write(file, metric(0, "a\0b") + metric(1, 0.5) + frame(b"\0\xff\xfe") + frame(b"") + frame(b"{}")
         + frame(b'"\xed\xa0\x80"') + metric(2, {"default": 2, "name": "\ud800"}) + metric(3, 3, "FINAL"))
"""
    with scene(tmp_path) as here:
        here.create(here.script(FRAMES + trash.decode()))
        (trial,) = here.done()
        assert here.log(trial["id"], "stdout") == bytes(range(256)) * 2
        found = [(m["position"], m["sequence"], m["value"], m["text"]) for m in here.metrics(trial["id"])]
        assert found == [
            (0, 0, None, '"a\\u0000b"'),
            (1, 1, 0.5, "0.5"),
            (6, 2, 2.0, '{"default": 2, "name": "\\ud800"}'),
            (7, 3, 3.0, "3"),
        ]
        assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 3.0)
        assert trial["note"] == "Frame 5 is not a metric: the frame is not UTF-8."
        assert here.reasons("FrameSkipped") == [
            "Frame 2 is not a metric: the frame is not UTF-8.",
            "Frame 3 is not a metric: the frame is not JSON.",
            f"Frame 4 is not a metric: the frame's trial_job_id is null, not {trial['id']}.",
            "Frame 5 is not a metric: the frame is not UTF-8.",
        ]


def test_the_largest_metric_is_kept_whole_and_a_larger_one_is_said(tmp_path: Path) -> None:
    script = """
import nni
nni.get_next_parameter()
nni.report_intermediate_result({"default": 1.0, "blob": "x" * 999_000})
nni.report_intermediate_result({"default": 2.0, "blob": "x" * 1_000_000})
"""
    with scene(tmp_path) as here:
        here.create(here.script(script))
        (trial,) = here.done()
        (metric,) = here.metrics(trial["id"])
        assert metric["text"] == '{"default": 1.0, "blob": "%s"}' % ("x" * 999_000)
        assert metric["value"] == 1.0
        error = here.log(trial["id"], "stderr").decode().splitlines()[-1]
        assert error == "AssertionError: Metric too long: 1000129 bytes; the limit is 999999 bytes"
        assert (trial["status"], trial["reason"]) == ("FAILED", f"exited with code 1: {error}")


def test_numbers_that_are_none(tmp_path: Path) -> None:
    script = """
import nni
nni.get_next_parameter()
for value in (float("nan"), float("inf"), -float("inf"), 1.5):
    nni.report_intermediate_result(value)
nni.report_final_result(float("nan"))
"""
    with scene(tmp_path) as here:
        here.create(here.script(script))
        (trial,) = here.done()
        found = [(metric["text"], metric["value"]) for metric in here.metrics(trial["id"])]
        assert found == [("NaN", None), ("Infinity", None), ("-Infinity", None), ("1.5", 1.5), ("NaN", None)]
        assert (trial["status"], trial["finalText"], trial["finalValue"]) == ("SUCCEEDED", "NaN", None)
        assert trial["reason"].startswith("no usable result: the result is NaN, so the tuner ")
        assert here.profile()["bestTrial"] is None


def test_many_metrics_while_clients_do_not_read(tmp_path: Path) -> None:
    """One client of the events and one of the output never read."""
    flood = f"""
while not os.path.exists("../../../../go"):
    time.sleep(0.01)
for block in range({50 * SCALE}):
    os.write(file, b"".join(metric(number, number) for number in range(1000 * block, 1000 * block + 1000)))
    os.write(1, b"x" * {2_000_000 // SCALE})
os.write(file, metric(0, 1, "FINAL"))
"""
    go = tmp_path / "go"
    with scene(tmp_path) as here:
        here.create(here.script(FRAMES + flood))
        trial_id = here.running()["id"]
        with deaf(here, "/events"), deaf(here, f"/trials/{trial_id}/logs/stdout?follow=true"):
            before = high_water(here.server)
            go.touch()
            here.done(DEADLINE_S * SCALE)
            assert high_water(here.server) - before < 32 * MIB
            found = here.metrics(trial_id)
            assert [metric["position"] for metric in found] == list(range(50_000 * SCALE + 1))
            assert [metric["value"] for metric in found] == [*map(float, range(50_000 * SCALE)), 1.0]
            numbers = [number for number, _, _ in here.events()]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(here.log(trial_id, "stdout")) == 100_000_000


@contextmanager
def deaf(here: Scene, path: str) -> Iterator[None]:
    """A client that asks for a stream and reads none of it."""
    token = here.server.home.token()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", here.server.port))
        request = f"GET {here.url}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        client.sendall(request.encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        yield
