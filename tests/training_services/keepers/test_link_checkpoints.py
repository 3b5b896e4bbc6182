"""Tests of jobs that continue from a checkpoint, of stops that let a trial save its state, and of orders to
delete checkpoints.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

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
    CheckpointLost,
    CheckpointReported,
    CheckpointsDeleted,
    CheckpointsPruned,
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobStarted,
    KeptCopy,
    MetricReported,
    Origin,
    StopOrdered,
)
from training_services.keepers.gone import HostGone
from training_services.keepers.host import attempt_folder
from training_services.keepers.link import Refused
from training_services.keepers.prunes import MAX_UNREPORTED
from training_services.keepers.request import Request
from trial_keeper import wire

JOB = "x-aaaaa-1"
ORIGIN = Origin(attempt=1, number=3, keeper_id="k", step=30, position=10, reports=7)
SAVE = timedelta(seconds=30)


def checkpoint(number: int) -> bytes:
    fields = {"type": "CHECKPOINT", "trial_job_id": "aaaaa", "sequence": number, "step": 40}
    return json.dumps({**fields, "size": 5, "files": 1, "asked": False}).encode()


def numbers(events: list[JobEvent]) -> list[tuple[int, int]]:
    """Return position and sequence number of each intermediate result."""
    return [(event.position, event.sequence) for event in events if isinstance(event, MetricReported)]


# ---- a job that continues from a checkpoint ---------------------------------------------------------------


def test_the_numbers_of_a_job_begin_after_its_checkpoint(rig: Rig) -> None:
    """The keeper counts the frames of the attempt's own file, and hears only these numbers."""
    assert rig.start(origin=ORIGIN).job_id == JOB
    rig.acknowledge(1)
    request = rig.request({JOB: attempt(frames=[payload(0), payload(1), checkpoint(1)], started=True)})
    received = rig.link.receive(request)
    assert [type(event) for event in received.events] == [
        JobStarted,
        MetricReported,
        MetricReported,
        CheckpointReported,
    ]
    assert numbers(received.events) == [(10, 7), (11, 8)]
    saved = received.events[-1]
    assert isinstance(saved, CheckpointReported) and (saved.position, saved.number) == (12, 1)
    assert rig.backlog.frames == 3
    assert rig.link.answer(request)["acks"] == {JOB: 0}
    rig.commit(*received.events)
    answer = rig.link.answer(request)
    assert (answer["acks"], answer["rewind"]) == ({JOB: 3}, {})
    assert rig.backlog.frames == 0


def test_what_was_committed_meanwhile_is_acknowledged_in_the_keepers_numbers(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    received = rig.link.receive(rig.request({JOB: attempt(frames=[payload(0), payload(1)])}))
    rig.commit(*received.events)
    assert rig.link.answer(rig.request(wait=True))["acks"] == {JOB: 2}  # the call does not name the job


def test_repeated_frames_of_a_job_are_taken_once_and_missing_ones_asked_for(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    rig.sync({JOB: attempt(frames=[payload(0), payload(1)])})
    events, answer = rig.sync({JOB: attempt(frames=[payload(0), payload(1), payload(2)])})
    assert (numbers(events), answer["rewind"]) == ([(12, 9)], {})
    events, answer = rig.sync({JOB: attempt(first=1, frames=[payload(1), payload(2)])})
    assert (events, answer["rewind"], answer["acks"]) == ([], {}, {JOB: 3})
    events, answer = rig.sync({JOB: attempt(first=5, frames=[payload(5)], final=final(6))})
    assert (events, answer["rewind"], answer["acks"]) == ([], {JOB: 3}, {JOB: 3})


def test_the_end_waits_for_the_frames_of_the_job(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    rig.acknowledge(1)
    events, answer = rig.sync({JOB: attempt(final=final(2))})
    assert (events, answer["rewind"], answer["done"]) == ([], {JOB: 0}, [])
    events, answer = rig.sync({JOB: attempt(frames=[payload(0), payload(1)], final=final(2))})
    end = events[-1]
    assert isinstance(end, JobEnded) and (end.reason, end.metrics) == (EndReason.EXITED, 2)
    assert not any(isinstance(event, JobNoted) for event in events)
    assert (answer["done"], rig.link.jobs.details(), rig.backlog.frames) == ([JOB], [], 0)


def test_the_end_of_a_job_without_any_frame_is_complete(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    events, answer = rig.sync({JOB: attempt(final=final(0))})
    assert [type(event) for event in events] == [JobEnded]
    assert (answer["rewind"], answer["done"]) == ({}, [JOB])


def test_frames_that_the_host_has_lost_are_counted_without_those_before_the_job(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    rig.sync({JOB: attempt(frames=[payload(0), payload(1)])})
    events, _ = rig.sync({JOB: attempt(first=1, final=final(1))})
    assert [type(event) for event in events] == [JobNoted, JobEnded]
    assert isinstance(events[0], JobNoted) and events[0].note.startswith("1 metrics were lost")


def test_a_host_that_ends_fails_its_job_without_a_note_of_losses(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    rig.sync({JOB: attempt(frames=[payload(0)])})
    (end,) = rig.link.jobs.fail(HostGone("its pod was killed"), datetime(2024, 1, 1, tzinfo=UTC))
    assert isinstance(end, JobEnded) and end.metrics == 1


def test_a_missing_checkpoint_ends_the_job(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    ended = {**final(0, wire.CHECKPOINT_LOST, None), "message": "checkpoint 3 is missing"}
    events, _ = rig.sync({JOB: attempt(final=ended)})
    lost, end = events
    assert lost == CheckpointLost(job_id=JOB, number=3, reason="checkpoint 3 is missing", keeper_id="k")
    assert isinstance(end, JobEnded)
    assert (end.reason, end.message) == (EndReason.CHECKPOINT_LOST, "checkpoint 3 is missing")


@pytest.mark.parametrize(("host", "places"), [("k", ["k", None]), ("other", [None])])
def test_a_missing_checkpoint_is_lost_wherever_the_attempt_has_looked(
    rig: Rig, host: str, places: list[str | None]
) -> None:
    kept = KeptCopy(digest="d", size=1)
    rig.start(origin=replace(ORIGIN, keeper_id=host), kept=kept)
    ended = {**final(0, wire.CHECKPOINT_LOST, None), "message": "checkpoint 3 is missing"}
    events, _ = rig.sync({JOB: attempt(final=ended)})
    assert [event.keeper_id for event in events if isinstance(event, CheckpointLost)] == places


# ---- after a restart of the server ------------------------------------------------------------------------


def test_an_adopted_job_continues_in_the_middle_of_its_frames() -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(recorded=12, started=True, origin=ORIGIN), START)
    rig.acknowledge(1)
    events, answer = rig.sync({JOB: attempt(first=4, started=True)}, all=True)
    assert not any(isinstance(event, JobStarted | JobLost) for event in events)
    assert (answer["rewind"], answer["acks"]) == ({JOB: 2}, {JOB: 2})
    frames = [payload(0), payload(1), payload(2), payload(3)]
    events, answer = rig.sync({JOB: attempt(frames=frames)})
    assert (numbers(events), answer["acks"]) == ([(12, 9), (13, 10)], {JOB: 4})
    assert rig.backlog.frames == 0


@pytest.mark.parametrize("recorded", [0, 10])
def test_an_adopted_job_without_a_recorded_frame_begins_after_its_checkpoint(recorded: int) -> None:
    rig = Rig(known())
    rig.link.jobs.adopt(adopted(recorded=recorded, origin=ORIGIN), START)
    rig.acknowledge(1)
    events, answer = rig.sync({JOB: attempt(frames=[payload(0)], started=True)}, all=True)
    assert (numbers(events), answer["acks"]) == ([(10, 7)], {JOB: 1})


def test_a_keeper_that_was_restarted_repeats_all_frames(rig: Rig) -> None:
    rig.start(origin=ORIGIN)
    rig.acknowledge(1)
    rig.sync({JOB: attempt(frames=[payload(0), payload(1)], started=True)})
    frames = [payload(0), payload(1), payload(2)]
    events, answer = rig.sync({JOB: attempt(frames=frames, started=True)}, k_epoch=2, all=True)
    assert numbers(events) == [(12, 9)]
    assert (answer["acks"], answer["rewind"]) == ({JOB: 3}, {})


# ---- stops that let the trial save its state --------------------------------------------------------------


def test_a_stop_brings_the_time_to_save(rig: Rig) -> None:
    rig.start()
    stop = rig.link.jobs.order_stop(JOB, grace=GRACE, save_within=SAVE)
    assert stop == StopOrdered(job_id=JOB, cmd_seq=2, grace=GRACE, save_within=SAVE)
    assert rig.link.jobs.order_stop(JOB, grace=GRACE) is None
    rig.commit(stop)
    assert rig.sync(seen_cmd=1)[1]["cmds"] == [(2, "stop", JOB, {"grace": 5.0, "save": 30.0})]


def test_a_job_that_is_not_placed_durably_has_nothing_to_save(rig: Rig) -> None:
    rig.link.jobs.order_start(unplaced(JOB), gpus=(), start=START)
    stop = rig.link.jobs.order_stop(JOB, grace=GRACE, save_within=SAVE)
    assert stop == StopOrdered(job_id=JOB, cmd_seq=None, grace=GRACE)


def test_the_stop_of_an_adopted_job_brings_the_time_to_save_again() -> None:
    rig = Rig(known(2))
    stop = StopOrdered(job_id=JOB, cmd_seq=2, grace=GRACE, save_within=SAVE)
    rig.link.jobs.adopt(adopted(stop=stop, started=True), START)
    rig.acknowledge(1)
    _, answer = rig.sync({JOB: attempt(started=True)}, all=True)
    assert answer["cmds"] == [(2, "stop", JOB, {"grace": 5.0, "save": 30.0})]


# ---- deletion of checkpoints ------------------------------------------------------------------------------


def pruned(number: int, up_to: int, keep: tuple[int, ...] = ()) -> CheckpointsPruned:
    """Return the fact about checkpoints of a trial's attempt with this number."""
    return CheckpointsPruned(job_id=f"exp-aaaaa-{number}", keeper_id="k", up_to=up_to, keep=keep)


def prunes(answer: Any) -> tuple[list[Any], int]:
    return answer["prunes"], answer["prune"]


FIRST, SECOND = ("/".join(attempt_folder("aaaaa", number)) for number in (1, 2))


def test_an_order_to_delete_checkpoints_is_repeated_until_it_is_carried_out(rig: Rig) -> None:
    rig.link.prunes.order(pruned(1, 2))
    rig.link.prunes.order(pruned(2, 5, (3,)))
    both = [(FIRST, 2, ()), (SECOND, 5, (3,))], 2
    assert prunes(rig.sync()[1]) == both
    assert prunes(rig.sync()[1]) == both
    assert prunes(rig.sync(pruned=1)[1]) == ([(SECOND, 5, (3,))], 2)
    assert prunes(rig.sync(pruned=2)[1]) == ([], 0)


def test_a_waiting_call_is_not_answered_for_a_deletion(rig: Rig) -> None:
    wait = rig.request(wait=True)
    rig.link.prunes.order(pruned(1, 1))
    assert not rig.link.has_word(wait, arrived=True)
    assert rig.link.answer(wait)["prunes"] == [(FIRST, 1, ())]


def test_a_later_order_for_a_folder_replaces_an_earlier_one(rig: Rig) -> None:
    rig.link.prunes.order(pruned(1, 4, (2,)))
    rig.link.prunes.order(pruned(1, 6, (5,)))
    assert prunes(rig.sync()[1]) == ([(FIRST, 6, (5,))], 2)


def test_an_order_up_to_a_lower_number_does_not_lose_the_numbers_above(rig: Rig) -> None:
    """The trial went back to checkpoint 3, and has saved two more since then in another folder."""
    for fact in (pruned(1, 5, (3,)), pruned(1, 3), pruned(2, 5, (1, 4)), pruned(2, 3, (2,))):
        rig.link.prunes.order(fact)
    assert prunes(rig.sync()[1]) == ([(FIRST, 5, ()), (SECOND, 5, (2, 4))], 4)


def test_a_restarted_server_repeats_what_may_not_be_deleted() -> None:
    rig = Rig(replace(known(0), prunes=9, unpruned=((9, pruned(2, 7)), (8, pruned(1, 4, (3,))))))
    assert prunes(rig.sync(all=True)[1]) == ([(FIRST, 4, (3,)), (SECOND, 7, ())], 9)
    rig.link.prunes.order(pruned(2, 8))
    assert prunes(rig.sync(pruned=8)[1]) == ([(SECOND, 8, ())], 10)


def test_the_core_hears_of_many_deletions_at_once(rig: Rig) -> None:
    for number in range(MAX_UNREPORTED):
        rig.link.prunes.order(pruned(1, number))
    rig.sync()
    early, _ = rig.sync(pruned=MAX_UNREPORTED - 1)
    late, _ = rig.sync(pruned=MAX_UNREPORTED)
    deleted = CheckpointsDeleted(keeper_id=rig.link.keeper_id, prunes=MAX_UNREPORTED)
    assert (early, late) == ([], [deleted])


# ---- a host that shuts down while its checkpoints are copied ----------------------------------------------


def ending(rig: Rig, *, stays: bool = False, wait: bool = True) -> Request:
    return rig.request(wait=wait, ending={"stays": stays})


def test_a_keeper_hears_whether_its_host_is_still_needed(rig: Rig) -> None:
    assert not rig.sync()[1]["stay"] and not rig.link.ending
    rig.needed = True
    assert rig.sync(ending={"stays": False})[1]["stay"] and rig.link.ending


def test_a_waiting_keeper_hears_at_once_that_its_host_is_not_needed_any_more(rig: Rig) -> None:
    rig.needed = True
    waiting = rig.request(wait=True)  # sent before the host began to shut down
    rig.sync(ending={"stays": False})
    assert not rig.link.has_word(waiting, arrived=True)
    rig.needed = False
    assert rig.link.has_word(waiting, arrived=False)
    assert not rig.link.answer(waiting)["stay"]
    assert not rig.link.has_word(ending(rig), arrived=True)


def test_a_waiting_call_that_was_overtaken_is_answered_as_well(rig: Rig) -> None:
    rig.needed = True
    waiting = ending(rig)  # sent before the keeper got the next answer
    rig.sync(ending={"stays": False})
    rig.needed = False
    assert rig.link.has_word(waiting, arrived=False)


def test_a_keeper_that_stays_without_need_is_answered_by_any_server(rig: Rig) -> None:
    """The answer of an earlier server, or one that was overtaken, has asked it to stay."""
    rig.sync(ending={"stays": True})
    assert rig.link.has_word(ending(rig, stays=True), arrived=True)
    rig.needed = True
    assert not rig.link.has_word(ending(rig, stays=True), arrived=True)


def test_a_host_that_stays_is_not_told_of_each_copy(rig: Rig) -> None:
    rig.needed = True
    rig.sync()
    rig.needed = False
    assert not rig.link.has_word(rig.request(wait=True), arrived=True)


def test_a_host_that_was_started_again_is_not_shutting_down(rig: Rig) -> None:
    rig.sync(ending={"stays": False})
    rig.header["boot_id"] = "b2"
    rig.sync(all=True)
    assert not rig.link.ending


def test_a_pod_that_replaces_another_one_is_refused_while_the_first_is_expected() -> None:
    rig = Rig()
    rig.header["instance"] = "uid-1.a"
    rig.sync(all=True)
    rig.header["instance"] = "uid-2.b"
    with pytest.raises(Refused) as refused:
        rig.sync(all=True)
    assert refused.value.reason == "pod"
    rig.header["instance"] = "uid-1.c"  # the first pod's directory was wiped
    rig.sync(all=True)
    assert rig.link.caller.instance == "uid-1.c"
