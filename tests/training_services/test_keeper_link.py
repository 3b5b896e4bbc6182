"""The server's side of the protocol, driven by hand: no clock, no sockets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from training_services.base import (
    EndReason,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobPlaced,
    JobStarted,
    KeeperAcknowledged,
    KeeperBound,
    KnownKeeper,
    MetricReported,
    Place,
    StopOrdered,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.keeper_link import Backlog, KeeperLink, Received, Refused
from training_services.keeper_request import Request, WireError, read_request
from training_services.placement import Gpu, GpuProcess, GpuReading
from trial_keeper import wire

GRACE = timedelta(seconds=5)
START: dict[str, Any] = {"command": "true"}


def payload(number: int, trial: str = "aaaaa") -> bytes:
    fields = {"parameter_id": 0, "trial_job_id": trial, "type": "PERIODICAL", "sequence": number}
    return json.dumps({**fields, "value": str(number)}).encode()


def attempt(
    *, first: int = 0, frames: Sequence[bytes] = (), started: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "from": first,
        "events": frames,
        "started": {"at": 5.0, "pid": 7} if started else None,
        "note": None,
        "final": None,
        **more,
    }


def final(n: int, reason: str = "exited", code: int | None = 0) -> dict[str, Any]:
    return {"reason": reason, "code": code, "signal": None, "n": n, "at": 6.0, "message": None}


class Rig:
    """A link, and the keeper's side of it."""

    def __init__(self, known: KnownKeeper | None = None) -> None:
        known = known or KnownKeeper(keeper_id="k", token_sha256="", instance=None, boot_id=None, last_cmd=0)
        self.backlog = Backlog()
        self.link = KeeperLink(known, db_id="db", m_epoch=3, backlog=self.backlog)
        self.sync_no = 0
        self.header: dict[str, Any] = {
            "instance": "i1",
            "k_epoch": 1,
            "boot_id": "b1",
            "db_id_seen": "db",
            "m_epoch_seen": 3,
            "acked_cmd": 0,
            "seen_cmd": 0,
            "all": False,
            "wait": False,
            "status": None,
        }

    def request(self, attempts: dict[str, dict[str, Any]] | None = None, **more: Any) -> Request:
        self.sync_no += 1
        attempts = attempts or {}
        header = {**self.header, "sync_no": self.sync_no, **more}
        header["attempts"] = {
            job: {**each, "events": [len(frame) for frame in each["events"]]}
            for job, each in attempts.items()
        }
        payloads = [frame for each in attempts.values() for frame in each["events"]]
        return read_request(wire.encode_request(header, payloads))

    def sync(
        self, attempts: dict[str, dict[str, Any]] | None = None, **more: Any
    ) -> tuple[list[JobEvent], dict[str, Any]]:
        """A request whose events are committed before it is answered."""
        request = self.request(attempts, **more)
        received = self.link.receive(request)
        self.commit(*received.events)
        return received.events, self.link.answer(request)

    def commit(self, *facts: JobEvent) -> list[JobEvent]:
        more: list[JobEvent] = []
        for fact in facts:
            match fact:
                case JobPlaced() | UpdateOrdered() | StopOrdered():
                    if fact.cmd_seq is not None:
                        self.link.command_committed(fact.job_id, fact.cmd_seq)
                case MetricReported() | FrameSkipped():
                    self.link.frames_committed(fact.job_id, fact.position + 1)
                case JobEnded() | JobLost():
                    more += self.link.end_committed(fact.job_id, lost=isinstance(fact, JobLost))
                    self.link.forget_ended(fact.job_id)
                case KeeperBound():
                    self.link.bound_committed(fact.instance, fact.boot_id)
        return more

    def start(self, job: str = "x-aaaaa-1") -> JobPlaced:
        placed = self.link.order_start(job, job.split("-")[1], gpus=(), start=START)
        self.commit(placed)
        return placed

    def acknowledge(self, number: int) -> None:
        self.header["acked_cmd"] = self.header["seen_cmd"] = number


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.sync(all=True)
    return rig


def adopted(*, seq: int = 1, instance: str = "i1", trial: str = "aaaaa", **more: Any) -> TrialJobSpec:
    place = Place(keeper_id="k", instance=instance, boot_id="b1")
    return TrialJobSpec(
        id=f"x-{trial}-1",
        trial_id=trial,
        attempt=1,
        sequence=0,
        parameter_text="{}",
        place=JobPlaced(job_id=f"x-{trial}-1", place=place, cmd_seq=seq),
        **more,
    )


def known(last_cmd: int = 1) -> KnownKeeper:
    return KnownKeeper(keeper_id="k", token_sha256="", instance="i1", boot_id="b1", last_cmd=last_cmd)


# ---- binding ----------------------------------------------------------------------------------------------


def test_the_first_sync_binds_and_waits_for_the_commit() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match="has not spoken"):
        rig.link.order_start("x-aaaaa-1", "aaaaa", gpus=(), start=START)
    bound = KeeperBound(keeper_id="k", instance="i1", boot_id="b1")
    assert rig.link.receive(rig.request(all=True)) == Received([bound], {("bound", "i1", "b1")}, [])
    assert rig.link.receive(rig.request(wait=True)).needs == {("bound", "i1", "b1")}
    rig.commit(bound)
    assert rig.link.receive(rig.request(all=True)) == Received([], set(), [])
    assert rig.link.ready


def test_a_new_boot_is_bound_again_and_an_old_call_changes_nothing(rig: Rig) -> None:
    late = rig.request()
    events, _ = rig.sync(k_epoch=2, boot_id="b2", all=True)
    assert events == [KeeperBound(keeper_id="k", instance="i1", boot_id="b2")]
    assert rig.link.receive(late) == Received([], set(), [])
    assert rig.link.boot_id == "b2"


def test_a_directory_made_anew_loses_the_jobs_of_the_old_one(rig: Rig) -> None:
    rig.start()
    rig.start("x-bbbbb-1")
    rig.acknowledge(2)
    rig.sync()
    rig.acknowledge(0)
    events, answer = rig.sync(instance="i2", all=True)
    assert [type(event) for event in events] == [JobLost, JobLost, KeeperBound]
    assert answer["cmds"] == []
    placed = rig.link.order_start("x-ccccc-1", "ccccc", gpus=(), start=START)
    assert (placed.cmd_seq, placed.place.instance) == (1, "i2")
    with pytest.raises(Refused) as refused:
        rig.link.receive(rig.request())
    assert refused.value.reason == "instance"


def test_a_keeper_that_nobody_knows_has_to_have_read_the_newest_manager_json(rig: Rig) -> None:
    """Else a late first call of a directory that was wiped would take the place of the one after it."""
    rig.sync(all=True)
    assert rig.link.receive(rig.request(wait=True), newest=False) == Received([], set(), [])
    with pytest.raises(Refused) as refused:
        rig.link.receive(rig.request(instance="i0", all=True), newest=False)
    assert refused.value.reason == "turn" and rig.link.instance == "i1"


def test_foreign_keepers_are_refused(rig: Rig) -> None:
    for more, reason in (({"db_id_seen": "other"}, "database"), ({"m_epoch_seen": 4}, "fenced")):
        with pytest.raises(Refused) as refused:
            rig.link.receive(rig.request(**more))
        assert refused.value.reason == reason


# ---- commands ---------------------------------------------------------------------------------------------


def test_a_start_leaves_once_it_is_committed_and_until_it_has_arrived(rig: Rig) -> None:
    placed = rig.link.order_start("x-aaaaa-1", "aaaaa", gpus=(1,), start=START)
    assert placed.place == Place(keeper_id="k", instance="i1", boot_id="b1", gpus=(1,))
    assert rig.sync()[1]["cmds"] == []
    rig.commit(placed)
    wait = rig.request(wait=True)
    assert rig.link.has_word(wait, arrived=True)
    for _ in range(2):
        assert rig.sync()[1]["cmds"] == [(1, "start", "x-aaaaa-1", {**START, "boot_id": "b1"})]
    assert not rig.link.has_word(wait, arrived=False)
    assert rig.link.has_word(rig.request(wait=True), arrived=True)
    assert rig.sync(seen_cmd=1)[1]["cmds"] == []


def test_commands_leave_in_order_and_without_a_gap(rig: Rig) -> None:
    first = rig.link.order_start("x-aaaaa-1", "aaaaa", gpus=(), start=START)
    second = rig.link.order_start("x-bbbbb-1", "bbbbb", gpus=(), start=START)
    rig.commit(second)
    assert rig.sync()[1]["cmds"] == []
    rig.commit(first)
    assert [command[0] for command in rig.sync()[1]["cmds"]] == [1, 2]


def test_updates_and_stops_follow(rig: Rig) -> None:
    rig.start()
    update = rig.link.order_update("x-aaaaa-1", index=1, parameter="{}")
    stop = rig.link.order_stop("x-aaaaa-1", grace=GRACE)
    assert update is not None and stop is not None
    assert rig.link.order_stop("x-aaaaa-1", grace=GRACE) is None
    assert rig.link.order_stop("x-zzzzz-1", grace=GRACE) is None
    rig.commit(update, stop)
    assert rig.sync(seen_cmd=1)[1]["cmds"] == [
        (2, "update", "x-aaaaa-1", {"index": 1, "parameter": "{}"}),
        (3, "stop", "x-aaaaa-1", {"grace": 5.0}),
    ]


def test_a_start_that_is_not_committed_is_withdrawn(rig: Rig) -> None:
    rig.link.order_start("x-aaaaa-1", "aaaaa", gpus=(), start=START)
    assert rig.link.order_stop("x-aaaaa-1", grace=GRACE) == StopOrdered(
        job_id="x-aaaaa-1", cmd_seq=None, grace=GRACE
    )
    assert rig.sync()[1]["cmds"] == []  # its number may be given again after a restart
    rig.start("x-bbbbb-1")
    assert [command[:3] for command in rig.sync()[1]["cmds"]] == [
        (1, "nop", "x-aaaaa-1"),
        (2, "start", "x-bbbbb-1"),
    ]


def test_an_undelivered_start_of_a_lost_job_becomes_a_nop(rig: Rig) -> None:
    placed = rig.start()
    assert rig.commit(JobLost(job_id=placed.job_id, reason="a user said so")) == []
    assert [command[1] for command in rig.sync()[1]["cmds"]] == ["nop"]
    rig.acknowledge(1)
    assert rig.sync()[0] == [KeeperAcknowledged(keeper_id="k", acked_cmd=1)]


def test_a_lost_job_without_commands_under_way_is_acknowledged_at_once(rig: Rig) -> None:
    placed = rig.start()
    rig.acknowledge(1)
    rig.sync()
    lost = JobLost(job_id=placed.job_id, reason="a user said so")
    assert rig.commit(lost) == [KeeperAcknowledged(keeper_id="k", acked_cmd=1)]
    assert rig.sync({placed.job_id: attempt()})[1]["kill"] == [placed.job_id]


def test_numbers_go_on_after_what_the_keeper_knows() -> None:
    rig = Rig(known(0))
    rig.acknowledge(41)
    rig.sync(all=True)
    assert rig.start().cmd_seq == 42


def test_numbers_that_nobody_uses_any_more_become_nops() -> None:
    rig = Rig(known(4))
    rig.link.adopt(adopted(seq=2), START)
    rig.acknowledge(1)
    events, answer = rig.sync(all=True)
    assert events == [KeeperAcknowledged(keeper_id="k", acked_cmd=1)]
    assert [command[:2] for command in answer["cmds"]] == [(2, "start"), (3, "nop"), (4, "nop")]
    rig.acknowledge(4)
    assert rig.sync()[0] == [KeeperAcknowledged(keeper_id="k", acked_cmd=4)]


def test_many_commands_leave_in_pieces(rig: Rig) -> None:
    for number in range(700):
        rig.start(f"x-a{number:04}-1")
    first = rig.sync()[1]["cmds"]
    assert (first[0][0], first[-1][0]) == (1, 500)
    rest = rig.sync(seen_cmd=500)[1]["cmds"]
    assert (rest[0][0], rest[-1][0]) == (501, 700)


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
    assert rig.link.jobs() == []
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


def test_a_lost_host_is_a_lost_job(rig: Rig) -> None:
    job = rig.start().job_id
    rig.acknowledge(1)
    events, answer = rig.sync({job: attempt(frames=[payload(0)], final=final(1, wire.HOST_LOST, None))})
    assert [type(event) for event in events] == [MetricReported, JobLost, KeeperAcknowledged]
    assert answer["done"] == [job]


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
    stop = rig.link.order_stop(job, grace=GRACE)
    assert stop is not None
    rig.acknowledge(1)
    request = rig.request({job: attempt(final=final(0))})
    received = rig.link.receive(request)
    rig.commit(stop, *received.events)
    assert [command[1] for command in rig.link.answer(request)["cmds"]] == ["stop"]
    rig.acknowledge(2)
    assert rig.sync()[0] == [KeeperAcknowledged(keeper_id="k", acked_cmd=2)]
    assert rig.link.forget_ended(job)


# ---- after a restart of the runner ------------------------------------------------------------------------


def test_an_adopted_job_goes_on_where_it_was() -> None:
    rig = Rig(known())
    rig.link.adopt(adopted(recorded=2, started=True), START)
    rig.acknowledge(1)
    events, answer = rig.sync({"x-aaaaa-1": attempt(first=4, started=True)}, all=True)
    assert events == [KeeperAcknowledged(keeper_id="k", acked_cmd=1)]
    assert (answer["rewind"], answer["cmds"]) == ({"x-aaaaa-1": 2}, [])
    events, _ = rig.sync({"x-aaaaa-1": attempt(first=2, frames=[payload(2), payload(3)])})
    assert [event.position for event in events if isinstance(event, MetricReported)] == [2, 3]


def test_what_an_adopted_job_still_has_to_be_told() -> None:
    rig = Rig(known(3))
    update = UpdateOrdered(job_id="x-aaaaa-1", index=1, cmd_seq=2)
    stop = StopOrdered(job_id="x-aaaaa-1", cmd_seq=3, grace=GRACE)
    rig.link.adopt(adopted(stop=stop, updates=((update, "{}"),)), START)
    assert rig.link.order_stop("x-aaaaa-1", grace=GRACE) is None
    _, answer = rig.sync(all=True)
    assert [command[1] for command in answer["cmds"]] == ["start", "update", "stop"]


@pytest.mark.parametrize("bound", [None, "i1", "i2"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_job_placed_on_a_new_instance_is_started_whatever_was_bound(
    bound: str | None, newest_first: bool
) -> None:
    rig = Rig(KnownKeeper(keeper_id="k", token_sha256="", instance=bound, boot_id="b1", last_cmd=1))
    jobs = [adopted(instance="i1"), adopted(instance="i2", trial="bbbbb")]  # both under number 1
    for job in reversed(jobs) if newest_first else jobs:
        rig.link.adopt(job, START)
    stop = rig.link.order_stop("x-bbbbb-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop)
    events, answer = rig.sync(instance="i2", all=True)
    assert [event.job_id for event in events if isinstance(event, JobLost)] == ["x-aaaaa-1"]
    told = [command[1:3] for command in answer["cmds"] if command[1] != "nop"]
    assert told == [("start", "x-bbbbb-1"), ("stop", "x-bbbbb-1")]
    assert [command[0] for command in answer["cmds"]] == list(range(1, len(answer["cmds"]) + 1))


def test_a_late_word_from_a_replaced_directory_is_refused_by_the_next_runner_too() -> None:
    rig = Rig(replace(known(), retired=("i0",)))
    rig.link.adopt(adopted(instance="i1"), START)
    with pytest.raises(Refused) as refusal:
        rig.link.receive(rig.request(all=True, instance="i0", boot_id="b0"))
    assert refusal.value.reason == "instance"
    assert rig.link.is_open("x-aaaaa-1")


def test_a_job_missing_from_the_inventory_is_asked_for_once_more_and_then_lost() -> None:
    rig = Rig(known())
    rig.link.adopt(adopted(), START)
    assert not any(isinstance(event, JobLost) for event in rig.sync(all=True)[0])
    rig.acknowledge(1)
    events, answer = rig.sync(all=True)
    assert not any(isinstance(event, JobLost) for event in events)
    assert [command[:3] for command in answer["cmds"]] == [(2, "start", adopted().id)]
    rig.acknowledge(2)
    assert any(isinstance(event, JobLost) for event in rig.sync(all=True)[0])


def test_a_keeper_that_acknowledges_less_than_before_is_sent_the_commands_again() -> None:
    rig = Rig(known())
    rig.link.adopt(adopted(), START)
    rig.acknowledge(1)
    rig.sync()
    events, answer = rig.sync(all=True, k_epoch=2, acked_cmd=0, seen_cmd=0)
    assert not any(isinstance(event, JobLost) for event in events)
    assert any(
        isinstance(event, JobNoted) and "lost the end of its journal" in event.note for event in events
    )
    assert [command[:3] for command in answer["cmds"]] == [(1, "start", adopted().id)]


def test_a_call_that_was_overtaken_does_not_count_as_a_loss() -> None:
    rig = Rig(known())
    rig.link.adopt(adopted(), START)
    rig.sync(all=True)
    rig.acknowledge(1)
    rig.sync()
    events, _ = rig.sync(wait=True, acked_cmd=0, seen_cmd=0)
    assert not any(isinstance(event, JobNoted) for event in events)


def test_unknown_attempts_are_killed_or_let_go(rig: Rig) -> None:
    _, answer = rig.sync({"x-lives-1": attempt(), "x-ended-1": attempt(final=final(0))}, all=True)
    assert (answer["kill"], answer["done"]) == (["x-lives-1"], ["x-ended-1"])


def test_a_keeper_that_has_not_met_this_runner_is_answered_at_once(rig: Rig) -> None:
    assert rig.link.has_word(rig.request(wait=True, m_epoch_seen=2), arrived=True)
    assert rig.link.has_word(rig.request(wait=True, db_id_seen=None), arrived=True)
    assert not rig.link.has_word(rig.request(wait=True), arrived=True)


def test_a_link_asks_once_for_what_was_said_before_it_was_there() -> None:
    """The keeper has obeyed this server, which closed the experiment's service and opened it again."""
    rig = Rig()
    assert rig.link.has_word(rig.request(wait=True), arrived=True)
    _, answer = rig.sync(wait=True)
    assert answer["all"]
    assert not rig.link.has_word(rig.request(wait=True), arrived=True)  # one of before: no haste
    assert rig.sync()[1]["all"]
    assert not rig.sync(all=True)[1]["all"]
    assert not rig.sync()[1]["all"]


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
    assert link.receive(request).gpus is None  # doubled
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


# ---- the lease, and what is given up ----------------------------------------------------------------------


def leased() -> Rig:
    rig = Rig()
    keeper = KnownKeeper(keeper_id="k", token_sha256="", instance=None, boot_id=None, last_cmd=0)
    rig.link = KeeperLink(keeper, db_id="db", m_epoch=3, backlog=rig.backlog, lease=timedelta(minutes=5))
    rig.sync(all=True)
    return rig


def test_each_answer_names_the_lease_and_each_start_wants_one() -> None:
    rig = leased()
    rig.start()
    _, answer = rig.sync(wait=True)
    assert answer["lease_s"] == 300.0
    assert [command[3]["lease"] for command in answer["cmds"]] == [True]


def test_what_is_given_up_by_its_lease_is_lost_and_its_start_never_leaves() -> None:
    rig = leased()
    rig.start()
    rig.sync(wait=True)
    rig.acknowledge(1)
    rig.sync(wait=True)
    rig.start("x-bbbbb-1")
    events = rig.link.give_up("silent for too long")
    assert [event for event in events if isinstance(event, JobLost)] == [
        JobLost(job_id=job, reason="silent for too long") for job in ("x-aaaaa-1", "x-bbbbb-1")
    ]
    assert rig.link.give_up("again") == []
    request = rig.request({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert rig.link.receive(request).needs == {("ended", "x-aaaaa-1")}  # else it would not be told to kill it
    rig.commit(*events)
    answer = rig.link.answer(request)
    assert answer["kill"] == ["x-aaaaa-1"]
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(2, "nop")]


def test_a_stop_reaches_what_a_user_has_given_up(rig: Rig) -> None:
    rig.start()
    rig.sync(wait=True)
    rig.acknowledge(1)
    rig.sync(wait=True)
    stop = rig.link.order_stop("x-aaaaa-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop, JobLost(job_id="x-aaaaa-1", reason="a user says so"))
    assert rig.link.is_astray("x-aaaaa-1")
    events, answer = rig.sync({"x-aaaaa-1": attempt(started=True)})
    assert events == [] and answer["kill"] == ["x-aaaaa-1"]
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(2, "stop")]
    rig.acknowledge(2)
    events, answer = rig.sync({"x-aaaaa-1": attempt(final=final(0, "stopped"))})
    assert events == [KeeperAcknowledged(keeper_id="k", acked_cmd=2)] and answer["done"] == ["x-aaaaa-1"]
    assert rig.link.forget_ended("x-aaaaa-1")


# ---- a database older than its keeper ---------------------------------------------------------------------


def test_what_was_ordered_before_the_first_call_is_given_again_to_a_keeper_that_is_ahead() -> None:
    rig = Rig(known())
    rig.link.adopt(adopted(started=True), START)
    update = rig.link.order_update("x-aaaaa-1", index=1, parameter="{}")
    stop = rig.link.order_stop("x-aaaaa-1", grace=GRACE)
    assert update is not None and stop is not None and (update.cmd_seq, stop.cmd_seq) == (2, 3)
    rig.commit(update)
    rig.acknowledge(5)
    _, answer = rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(6, "update")]
    rig.commit(stop)  # under its old number
    assert [(seq, kind) for seq, kind, *_ in rig.sync(seen_cmd=6)[1]["cmds"]] == [(7, "stop")]
    assert not rig.link.forget_ended("x-aaaaa-1")
    rig.acknowledge(7)
    rig.sync({"x-aaaaa-1": attempt(final=final(0, "stopped"))})
    assert rig.link.forget_ended("x-aaaaa-1")


def test_a_stop_that_was_stored_under_a_used_number_is_given_again_after_a_restart() -> None:
    rig = Rig(known(last_cmd=3))
    ordered = StopOrdered(job_id="x-aaaaa-1", cmd_seq=3, grace=GRACE)
    rig.link.adopt(adopted(started=True, stop=ordered), START)
    rig.acknowledge(5)
    _, answer = rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(6, "stop")]


def test_a_keeper_that_is_not_ahead_is_given_nothing_again() -> None:
    rig = Rig(known(last_cmd=3))
    ordered = StopOrdered(job_id="x-aaaaa-1", cmd_seq=3, grace=GRACE)
    rig.link.adopt(adopted(started=True, stop=ordered), START)
    rig.acknowledge(3)
    assert rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)[1]["cmds"] == []


def test_a_withdrawn_start_never_leaves_though_its_number_was_acknowledged_and_forgotten(rig: Rig) -> None:
    placed = rig.link.order_start("x-aaaaa-1", "aaaaa", gpus=(), start=START)
    rig.link.order_stop("x-aaaaa-1", grace=GRACE)
    rig.commit(placed)
    assert [(seq, kind) for seq, kind, *_ in rig.sync(wait=True)[1]["cmds"]] == [(1, "nop")]
    rig.acknowledge(1)
    rig.sync(wait=True)
    rig.acknowledge(0)  # the keeper was restarted, and the end of its journal is lost
    _, answer = rig.sync(k_epoch=2, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(1, "nop")]
