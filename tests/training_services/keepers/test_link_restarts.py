"""Tests of links after a restart of the runner, with a lease, and with a restored older database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.training_services.keepers.link_rig import (
    GRACE,
    START,
    Rig,
    adopted,
    attempt,
    final,
    known,
    payload,
    unplaced,
)
from training_services.base import (
    JobEnded,
    JobLost,
    JobNoted,
    KeeperAcknowledged,
    KnownKeeper,
    MetricReported,
    SaveOrdered,
    StopOrdered,
    UpdateOrdered,
)
from training_services.keepers.caller import Refused
from training_services.keepers.link import KeeperLink

# ---- after a restart of the runner ------------------------------------------------------------------------


def test_an_adopted_job_goes_on_where_it_was() -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(recorded=2, started=True), START)
    rig.acknowledge(1)
    events, answer = rig.sync({"x-aaaaa-1": attempt(first=4, started=True)}, all=True)
    assert events == [KeeperAcknowledged(keeper_id="k", acked_cmd=1)]
    assert (answer["rewind"], answer["cmds"]) == ({"x-aaaaa-1": 2}, [])
    events, _ = rig.sync({"x-aaaaa-1": attempt(first=2, frames=[payload(2), payload(3)])})
    assert [event.position for event in events if isinstance(event, MetricReported)] == [2, 3]


def test_what_an_adopted_job_still_has_to_be_told() -> None:
    rig = Rig(known(4))
    update = UpdateOrdered(job_id="x-aaaaa-1", index=1, cmd_seq=2)
    save = SaveOrdered(job_id="x-aaaaa-1", cmd_seq=3, within=GRACE)
    stop = StopOrdered(job_id="x-aaaaa-1", cmd_seq=4, grace=GRACE)
    rig.link.jobs.adopt(adopted(stop=stop, save=save, updates=((update, "{}"),)), START)
    assert rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE) is None
    _, answer = rig.sync(all=True)
    assert [command[1] for command in answer["cmds"]] == ["start", "update", "save", "stop"]


@pytest.mark.parametrize("bound", [None, "i1", "i2"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_job_placed_on_a_new_instance_is_started_whatever_was_bound(
    bound: str | None, newest_first: bool
) -> None:
    rig = Rig(KnownKeeper(keeper_id="k", token_sha256="", instance=bound, boot_id="b1", last_cmd=1))
    jobs = [adopted(instance="i1"), adopted(instance="i2", trial="bbbbb")]  # both starts have number 1
    for job in reversed(jobs) if newest_first else jobs:
        rig.link.jobs.adopt(job, START)
    stop = rig.link.jobs.order_stop("x-bbbbb-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop)
    events, answer = rig.sync(instance="i2", all=True)
    assert [event.job_id for event in events if isinstance(event, JobLost)] == ["x-aaaaa-1"]
    told = [command[1:3] for command in answer["cmds"] if command[1] != "nop"]
    assert told == [("start", "x-bbbbb-1"), ("stop", "x-bbbbb-1")]
    assert [command[0] for command in answer["cmds"]] == list(range(1, len(answer["cmds"]) + 1))


def test_a_late_word_from_a_replaced_directory_is_refused_by_the_next_runner_too() -> None:
    rig = Rig(replace(known(), retired=("i0",)))
    rig.link.jobs.adopt(adopted(instance="i1"), START)
    with pytest.raises(Refused) as refusal:
        rig.link.receive(rig.request(all=True, instance="i0", boot_id="b0"))
    assert refusal.value.reason == "instance"
    assert rig.link.jobs.is_open("x-aaaaa-1")


def test_a_job_missing_from_the_inventory_is_asked_for_once_more_and_then_lost() -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(), START)
    assert not any(isinstance(event, JobLost) for event in rig.sync(all=True)[0])
    rig.acknowledge(1)
    events, answer = rig.sync(all=True)
    assert not any(isinstance(event, JobLost) for event in events)
    assert [command[:3] for command in answer["cmds"]] == [(2, "start", adopted().id)]
    rig.acknowledge(2)
    assert any(isinstance(event, JobLost) for event in rig.sync(all=True)[0])


def test_a_keeper_that_acknowledges_less_than_before_is_sent_the_commands_again() -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(), START)
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
    rig.link.jobs.adopt(adopted(), START)
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
    """The keeper knows this server, which closed the experiment's service and opened it again."""
    rig = Rig()
    assert rig.link.has_word(rig.request(wait=True), arrived=True)
    _, answer = rig.sync(wait=True)
    assert answer["all"]
    # this call began before the service was opened: it need not be answered at once
    assert not rig.link.has_word(rig.request(wait=True), arrived=True)
    assert rig.sync()[1]["all"]
    assert not rig.sync(all=True)[1]["all"]
    assert not rig.sync()[1]["all"]


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
    events = rig.link.jobs.give_up("silent for too long")
    assert [event for event in events if isinstance(event, JobLost)] == [
        JobLost(job_id=job, reason="silent for too long") for job in ("x-aaaaa-1", "x-bbbbb-1")
    ]
    assert rig.link.jobs.give_up("again") == []
    request = rig.request({"x-aaaaa-1": attempt(started=True)}, all=True)
    # otherwise the keeper would not be told to kill the attempt
    assert rig.link.receive(request).needs == {("ended", "x-aaaaa-1")}
    rig.commit(*events)
    answer = rig.link.answer(request)
    assert answer["kill"] == ["x-aaaaa-1"]
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(2, "nop")]


def test_a_stop_reaches_what_a_user_has_given_up(rig: Rig) -> None:
    rig.start()
    rig.sync(wait=True)
    rig.acknowledge(1)
    rig.sync(wait=True)
    stop = rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop, JobLost(job_id="x-aaaaa-1", reason="a user says so"))
    assert rig.link.jobs.is_astray("x-aaaaa-1")
    events, answer = rig.sync({"x-aaaaa-1": attempt(started=True)})
    assert events == [] and answer["kill"] == ["x-aaaaa-1"]
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(2, "stop")]
    rig.acknowledge(2)
    events, answer = rig.sync({"x-aaaaa-1": attempt(final=final(0, "stopped"))})
    assert events == [KeeperAcknowledged(keeper_id="k", acked_cmd=2)] and answer["done"] == ["x-aaaaa-1"]
    assert rig.link.jobs.forget_ended("x-aaaaa-1")


# ---- attempts that no job wants ---------------------------------------------------------------------------


def test_a_host_is_asked_until_attempts_of_no_job_have_ended(rig: Rig) -> None:
    _, answer = rig.sync({"x-old-1": attempt(started=True)}, all=True)
    assert rig.link.inventory.unwanted and answer["kill"] == ["x-old-1"] and not answer["all"]
    assert rig.link.has_word(rig.request(wait=True), arrived=False)
    _, answer = rig.sync(wait=True)
    assert answer["all"]
    assert not rig.link.has_word(rig.request(wait=True), arrived=False)  # asked again only when the call ends
    _, answer = rig.sync({"x-old-1": attempt(started=True)}, all=True)
    assert rig.link.inventory.unwanted and not answer["all"]
    assert rig.sync(wait=True)[1]["all"]
    rig.sync(all=True)
    assert not rig.link.inventory.unwanted and not rig.sync(wait=True)[1]["all"]


def test_an_attempt_of_no_job_is_over_with_its_end(rig: Rig) -> None:
    rig.sync({"x-old-1": attempt(started=True)}, all=True)
    rig.sync({"x-old-1": attempt(final=final(0, "stopped"))})
    assert not rig.link.inventory.unwanted


def test_attempts_of_a_directory_that_was_replaced_hinder_nothing(rig: Rig) -> None:
    rig.sync({"x-old-1": attempt(started=True)}, all=True)
    rig.sync(all=True, instance="i2", boot_id="b2")
    assert not rig.link.inventory.unwanted


def test_a_job_given_up_without_proof_keeps_its_place_until_it_has_ended(rig: Rig) -> None:
    rig.start()
    rig.sync(wait=True)
    rig.acknowledge(1)
    stop = rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop, JobLost(job_id="x-aaaaa-1", reason="a user says so"))
    rig.acknowledge(2)
    assert rig.sync(wait=True)[1]["all"]
    rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert not rig.link.jobs.forget_ended("x-aaaaa-1")
    rig.sync(all=True)
    assert rig.link.jobs.forget_ended("x-aaaaa-1")


def test_a_job_given_up_while_its_end_was_on_the_way_has_no_command_under_way(rig: Rig) -> None:
    rig.start()
    rig.sync(wait=True)
    rig.acknowledge(1)
    stop = rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert stop is not None
    rig.commit(stop)
    rig.acknowledge(2)
    received = rig.link.receive(rig.request({"x-aaaaa-1": attempt(final=final(0, "stopped"))}))
    assert any(isinstance(event, JobEnded) for event in received.events)
    told = rig.link.jobs.end_committed("x-aaaaa-1", lost=True)  # the user has declared the job lost before
    assert told == [KeeperAcknowledged(keeper_id="k", acked_cmd=2)]


# ---- a database older than its keeper ---------------------------------------------------------------------


def test_what_was_ordered_before_the_first_call_is_given_again_to_a_keeper_that_is_ahead() -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(started=True), START)
    update = rig.link.jobs.order_update("x-aaaaa-1", index=1, parameter="{}")
    stop = rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    assert update is not None and stop is not None and (update.cmd_seq, stop.cmd_seq) == (2, 3)
    rig.commit(update)
    rig.acknowledge(5)
    _, answer = rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(6, "update")]
    rig.commit(stop)  # the commit has the stop's old number
    assert [(seq, kind) for seq, kind, *_ in rig.sync(seen_cmd=6)[1]["cmds"]] == [(7, "stop")]
    assert not rig.link.jobs.forget_ended("x-aaaaa-1")
    rig.acknowledge(7)
    rig.sync({"x-aaaaa-1": attempt(final=final(0, "stopped"))})
    assert rig.link.jobs.forget_ended("x-aaaaa-1")


def test_a_stop_that_was_stored_under_a_used_number_is_given_again_after_a_restart() -> None:
    rig = Rig(known(last_cmd=3))
    ordered = StopOrdered(job_id="x-aaaaa-1", cmd_seq=3, grace=GRACE)
    rig.link.jobs.adopt(adopted(started=True, stop=ordered), START)
    rig.acknowledge(5)
    _, answer = rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(6, "stop")]


def test_a_stop_is_given_again_behind_a_restored_database_though_its_number_was_seen() -> None:
    """The keeper may have obeyed another command of that number, unknown to the older database."""
    for restored, given in ((True, [(3, "stop")]), (False, [])):
        rig = Rig(known(), restored=restored)
        stop = StopOrdered(job_id="x-aaaaa-1", cmd_seq=2, grace=GRACE)
        rig.link.jobs.adopt(adopted(started=True, stop=stop), START)
        rig.acknowledge(2)
        _, answer = rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)
        assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == given


def test_a_keeper_that_is_not_ahead_is_given_nothing_again() -> None:
    rig = Rig(known(last_cmd=3))
    ordered = StopOrdered(job_id="x-aaaaa-1", cmd_seq=3, grace=GRACE)
    rig.link.jobs.adopt(adopted(started=True, stop=ordered), START)
    rig.acknowledge(3)
    assert rig.sync({"x-aaaaa-1": attempt(started=True)}, all=True)[1]["cmds"] == []


def test_a_withdrawn_start_never_leaves_though_its_number_was_acknowledged_and_forgotten(rig: Rig) -> None:
    placed = rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start=START)
    rig.link.jobs.order_stop("x-aaaaa-1", grace=GRACE)
    rig.commit(placed)
    assert [(seq, kind) for seq, kind, *_ in rig.sync(wait=True)[1]["cmds"]] == [(1, "nop")]
    rig.acknowledge(1)
    rig.sync(wait=True)
    rig.acknowledge(0)  # the keeper was restarted after it had lost the end of its journal
    _, answer = rig.sync(k_epoch=2, all=True)
    assert [(seq, kind) for seq, kind, *_ in answer["cmds"]] == [(1, "nop")]


def test_a_start_that_was_carried_out_and_forgotten_starts_nothing_once_its_job_is_lost(rig: Rig) -> None:
    rig.commit(rig.link.jobs.order_start(unplaced("x-aaaaa-1"), gpus=(), start=START))
    rig.sync(wait=True)
    rig.acknowledge(1)
    rig.sync(wait=True)
    rig.link.jobs.give_up("silent for too long")
    rig.acknowledge(0)  # the keeper was restarted after it had lost the end of its journal
    ((seq, kind, _, body),) = rig.sync(k_epoch=2, all=True)[1]["cmds"]
    assert (seq, kind, body) == (1, "start", {**START, "boot_id": body["boot_id"], "sought": True})
