"""Tests of how a link handles the reports of its keeper."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training_services.keepers.link_rig import (
    GRACE,
    Rig,
    attempt,
    final,
    known,
    payload,
)
from training_services.base import (
    Cause,
    EndReason,
    FrameSkipped,
    JobEnded,
    JobLost,
    JobNoted,
    JobStarted,
    KeeperAcknowledged,
    MetricReported,
)
from training_services.keepers.jobs import Backlog
from training_services.keepers.link import KeeperLink
from training_services.keepers.request import WireError, read_request
from training_services.placement.ledger import Gpu, GpuProcess, GpuReading
from trial_keeper import wire

# ---- reports ----------------------------------------------------------------------------------------------


def test_a_job_from_its_start_to_its_end(rig: Rig) -> None:
    job = rig.start().job_id
    rig.acknowledge(1)
    request = rig.request({job: attempt(frames=[payload(0)], started=True)})
    received = rig.link.receive(request)
    assert [type(event) for event in received.events] == [JobStarted, MetricReported]
    assert received.needs == set()
    assert rig.link.answer(request)["acks"] == {job: 0}
    rig.commit(*received.events)
    assert rig.link.answer(request)["acks"] == {job: 1}
    events, answer = rig.sync({job: attempt(first=1, frames=[payload(1), b"?"], final=final(3))})
    assert [type(event) for event in events] == [MetricReported, FrameSkipped, JobEnded]
    end = events[-1]
    assert isinstance(end, JobEnded)
    assert (end.reason, end.exit_code, end.metrics, end.acked_cmd) == (EndReason.EXITED, 0, 3, 1)
    assert answer["done"] == [job]
    assert rig.link.jobs.details() == []
    assert rig.backlog.frames == 0


def test_doubled_frames_are_taken_once_and_missing_ones_asked_for(rig: Rig) -> None:
    job = rig.start().job_id
    rig.sync({job: attempt(frames=[payload(0), payload(1)])})
    events, answer = rig.sync({job: attempt(frames=[payload(0), payload(1), payload(2)])})
    assert [event.position for event in events if isinstance(event, MetricReported)] == [2]
    assert answer["rewind"] == {}
    events, answer = rig.sync({job: attempt(first=5, frames=[payload(5)], final=final(6))})
    assert events == []
    assert (answer["rewind"], answer["acks"]) == ({job: 3}, {job: 3})


def test_an_overtaken_report_changes_nothing_but_a_waiting_call_overtakes_none(rig: Rig) -> None:
    job = rig.start().job_id
    older, newer = rig.request({job: attempt(frames=[payload(0)])}), rig.request({job: attempt()})
    rig.link.receive(newer)
    assert rig.link.receive(older).events == []
    assert rig.link.answer(older)["rewind"] == {job: 0}
    report = rig.request({job: attempt(frames=[payload(0)])})
    rig.link.receive(rig.request(wait=True))
    assert len(rig.link.receive(report).events) == 1


def test_an_end_waits_for_its_frames(rig: Rig) -> None:
    job = rig.start().job_id
    events, answer = rig.sync({job: attempt(final=final(2))})
    assert (events, answer["rewind"], answer["done"]) == ([], {job: 0}, [])
    events, _ = rig.sync({job: attempt(frames=[payload(0), payload(1)], final=final(2))})
    assert isinstance(events[-1], JobEnded)


def test_an_end_with_fewer_frames_than_are_here_is_taken_with_a_note(rig: Rig) -> None:
    job = rig.start().job_id
    rig.sync({job: attempt(frames=[payload(0), payload(1)])})
    events, _ = rig.sync({job: attempt(first=1, final=final(1))})
    assert [type(event) for event in events] == [JobNoted, JobEnded]


def test_the_keepers_cause_is_in_the_end(rig: Rig) -> None:
    job, other = rig.start().job_id, rig.start("x-bbbbb-1").job_id
    rig.acknowledge(2)
    killed = {**final(0, code=137), "cause": wire.OUT_OF_MEMORY}
    evicted = {**final(0, wire.HOST_LOST, None), "cause": wire.PREEMPTED}
    events, _ = rig.sync({job: attempt(final=killed), other: attempt(final=evicted)})
    found = [event.cause for event in events if isinstance(event, JobEnded | JobLost)]
    assert found == [Cause.OUT_OF_MEMORY, Cause.PREEMPTED]


def test_a_lost_host_is_a_lost_job(rig: Rig) -> None:
    job = rig.start().job_id
    rig.acknowledge(1)
    events, answer = rig.sync({job: attempt(frames=[payload(0)], final=final(1, wire.HOST_LOST, None))})
    assert [type(event) for event in events] == [MetricReported, JobLost, KeeperAcknowledged]
    assert answer["done"] == [job]


def test_a_lost_job_says_why_its_host_ends(rig: Rig) -> None:
    job = rig.start().job_id
    rig.departure = "its pod was deleted"
    told = {**final(0, wire.HOST_LOST, None), "message": "its host was stopped"}
    (lost, *_), _ = rig.sync({job: attempt(final=told)}, ending={"stays": False})
    assert isinstance(lost, JobLost) and lost.reason == "its host was stopped: its pod was deleted"


def test_an_end_told_twice_is_committed_once_and_the_second_call_waits_too(rig: Rig) -> None:
    job = rig.start().job_id
    first = rig.link.receive(rig.request({job: attempt(final=final(0))}))
    second = rig.link.receive(rig.request({job: attempt(final=final(0))}))
    assert (len(first.events), second.events) == (1, [])
    assert first.needs == second.needs == {("ended", job)}


def test_notes_are_told_once(rig: Rig) -> None:
    job = rig.start().job_id
    assert rig.sync({job: attempt(note="odd")})[0] == [JobNoted(job_id=job, note="odd")]
    assert rig.sync({job: attempt(note="odd")})[0] == []


def test_a_stop_after_the_end_is_acknowledged(rig: Rig) -> None:
    job = rig.start().job_id
    stop = rig.link.jobs.order_stop(job, grace=GRACE)
    assert stop is not None
    rig.acknowledge(1)
    request = rig.request({job: attempt(final=final(0))})
    received = rig.link.receive(request)
    rig.commit(stop, *received.events)
    assert [command[1] for command in rig.link.answer(request)["cmds"]] == ["stop"]
    rig.acknowledge(2)
    assert rig.sync()[0] == [KeeperAcknowledged(keeper_id="k", acked_cmd=2)]
    assert rig.link.jobs.forget_ended(job)


def test_the_backlog_counts_what_is_not_committed(rig: Rig) -> None:
    job = rig.start().job_id
    received = rig.link.receive(rig.request({job: attempt(frames=[payload(0), payload(1)])}))
    assert rig.backlog.frames == 2
    rig.commit(received.events[0])
    assert rig.backlog.frames == 1
    rig.commit(JobLost(job_id=job, reason="a user said so"))
    assert rig.backlog.frames == 0


@pytest.mark.parametrize(
    "change",
    [
        {"instance": 5},
        {"k_epoch": -1},
        {"acked_cmd": "1"},
        {"status": 7},
        {"attempts": {"j": {}}},
        {"attempts": {"j": {"from": 0, "events": [-1]}}},
        {"attempts": {"j": {"from": 0, "events": [], "final": {"reason": "bored"}}}},
        {"attempts": {"j": {"from": 0, "events": [], "started": {"at": 1e300, "pid": 1}}}},
        {"attempts": []},
    ],
)
def test_a_header_that_is_none_is_refused_whole(rig: Rig, change: dict[str, Any]) -> None:
    header = {**rig.header, "sync_no": 9, "attempts": {}, **change}
    with pytest.raises(WireError):
        read_request(wire.encode_request(header, []))


def gpu(*processes: list[Any], index: Any = 0, memory: Any = 0) -> dict[str, Any]:
    return {"index": index, "memory": memory, "processes": list(processes)}


def test_gpus_are_read_where_they_are_wanted_and_handed_on(rig: Rig) -> None:
    _, answer = rig.sync()
    assert answer["gpu"] is False
    link = KeeperLink(known(), db_id="db", m_epoch=3, backlog=Backlog(), reads_gpus=True)
    request = rig.request(gpu={"trouble": None, "gpus": [gpu([7, "x-aaaaa-1"], [8, None], memory=256)]})
    processes = (GpuProcess(7, "x-aaaaa-1"), GpuProcess(8, None))
    reading = GpuReading((Gpu(index=0, memory=256, processes=processes),))
    assert link.receive(request).gpus == reading
    assert link.answer(request)["gpu"] is True
    assert link.receive(request).gpus is None  # the same request again
    assert link.receive(rig.request()).gpus is None
    assert link.receive(rig.request(gpu={"trouble": "it hangs", "gpus": []})).gpus == GpuReading(
        (), "it hangs"
    )


def test_what_a_process_claims_to_be_may_be_anything(rig: Rig) -> None:
    found = rig.request(gpu={"trouble": None, "gpus": [gpu([7, "a\nb"], [8, ""], [9, "a-b"])]}).gpus
    assert found is not None
    assert [process.job_id for process in found.gpus[0].processes] == [None, None, None]


@pytest.mark.parametrize(
    "reading",
    [
        7,
        {"gpus": []},
        {"trouble": 1, "gpus": []},
        {"trouble": None, "gpus": [gpu(index=-1)]},
        {"trouble": None, "gpus": [gpu(memory="much")]},
        {"trouble": None, "gpus": [gpu([1])]},
    ],
)
def test_what_is_no_reading_is_no_sync(rig: Rig, reading: Any) -> None:
    with pytest.raises(WireError):
        rig.request(gpu=reading)
