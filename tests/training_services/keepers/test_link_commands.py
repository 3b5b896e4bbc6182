"""Tests of the binding of a keeper and of the commands for it."""

from __future__ import annotations

import pytest

from tests.training_services.keepers.link_rig import (
    GRACE,
    START,
    Rig,
    adopted,
    attempt,
    known,
    unplaced,
)
from training_services.base import (
    JobLost,
    KeeperAcknowledged,
    KeeperBound,
    Place,
    StopOrdered,
)
from training_services.keepers.caller import Refused
from training_services.keepers.link import Received

# ---- binding ----------------------------------------------------------------------------------------------


def test_the_first_sync_binds_and_waits_for_the_commit() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match="has not called"):
        rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start=START)
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
    assert rig.link.caller.boot_id == "b2"


def test_a_directory_made_anew_loses_the_jobs_of_the_old_one(rig: Rig) -> None:
    rig.start()
    rig.start("x-bbbbb-1")
    rig.acknowledge(2)
    rig.sync()
    rig.acknowledge(0)
    events, answer = rig.sync(instance="i2", all=True)
    assert tuple(map(type, events)) == (JobLost, JobLost, KeeperBound)
    assert answer["cmds"] == []
    placed = rig.link.jobs.order_start(unplaced("x-ccccc-1"), gpus=(), start=START)
    assert (placed.cmd_seq, placed.place.instance) == (1, "i2")
    with pytest.raises(Refused) as refused:
        rig.link.receive(rig.request())
    assert refused.value.reason == "instance"


def test_a_keeper_that_nobody_knows_has_to_have_read_the_newest_manager_json(rig: Rig) -> None:
    """Otherwise a late first call of a deleted directory would replace the directory that followed it."""
    rig.sync(all=True)
    assert rig.link.receive(rig.request(wait=True), newest=False) == Received([], set(), [])
    with pytest.raises(Refused) as refused:
        rig.link.receive(rig.request(instance="i0", all=True), newest=False)
    assert refused.value.reason == "turn" and rig.link.caller.instance == "i1"


def test_foreign_keepers_are_refused(rig: Rig) -> None:
    for more, reason in (({"db_id_seen": "other"}, "database"), ({"m_epoch_seen": 4}, "fenced")):
        with pytest.raises(Refused) as refused:
            rig.link.receive(rig.request(**more))
        assert refused.value.reason == reason


# ---- commands ---------------------------------------------------------------------------------------------


def test_a_start_leaves_once_it_is_committed_and_until_it_has_arrived(rig: Rig) -> None:
    placed = rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(1,), start=START)
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
    first = rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start=START)
    second = rig.link.jobs.order_start(unplaced("x-bbbbb-1"), gpus=(), start=START)
    rig.commit(second)
    assert rig.sync()[1]["cmds"] == []
    rig.commit(first)
    assert [command[0] for command in rig.sync()[1]["cmds"]] == [1, 2]


def test_updates_and_stops_follow(rig: Rig) -> None:
    rig.start()
    update = rig.link.jobs.order_update("x-aaaaa-1", index=1, parameter="{}")
    stop = rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert update is not None and stop is not None
    assert rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE) is None
    assert rig.link.jobs.order_stop("x-zzzzz-1", grace=GRACE) is None
    rig.commit(update, stop)
    assert rig.sync(seen_cmd=1)[1]["cmds"] == [
        (2, "update", "x-aaaaa-1", {"index": 1, "parameter": "{}"}),
        (3, "stop", "x-aaaaa-1", {"grace": 5.0}),
    ]


def test_a_running_job_is_asked_to_save(rig: Rig) -> None:
    rig.start()
    save = rig.link.jobs.order_save("x-aaaaa-1", within=GRACE)
    assert save is not None
    assert rig.sync(seen_cmd=1)[1]["cmds"] == []
    rig.commit(save)
    assert rig.sync(seen_cmd=1)[1]["cmds"] == [(2, "save", "x-aaaaa-1", {"within": 5.0})]
    rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert rig.link.jobs.order_save("x-aaaaa-1", within=GRACE) is None
    assert rig.link.jobs.order_save("x-zzzzz-1", within=GRACE) is None


def test_a_start_that_is_not_committed_is_withdrawn(rig: Rig) -> None:
    rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start=START)
    assert rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE) == StopOrdered(
        job_id="x-aaaaa-1", cmd_seq=None, grace=GRACE
    )
    assert rig.sync()[1]["cmds"] == []  # this number may be given again after a restart
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
    rig.link.jobs.adopt(adopted(seq=2), START)
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
