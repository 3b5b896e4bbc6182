"""Tests of when a keeper exits, and what it stops before that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trial_keeper.core.rig import JOB, Rig, running, start, stop
from trial_keeper.attempt import claim
from trial_keeper.core.effects import Channel, Send


def test_it_leaves_only_without_attempts(rig: Rig) -> None:
    running(rig)
    rig.answer(Channel.WAIT, leave=True)
    assert rig.left is None
    rig.exit(JOB)
    rig.answer(done=[JOB], leave=True)
    assert rig.left is not None


def test_it_leaves_after_ten_minutes_without_server_and_attempt(rig: Rig) -> None:
    calls: list[Send] = []
    rig.fail(Channel.WAIT)
    while rig.left is None and rig.now < 700:
        rig.wait(1)
        calls += rig.calls.values()
        for channel in list(rig.calls):
            rig.fail(channel)
    assert rig.left is not None and 599 <= rig.now <= 602
    assert len(calls) > 100


def test_it_stays_while_an_attempt_lives(rig: Rig) -> None:
    running(rig)
    rig.fail(Channel.WAIT)
    rig.wait(3600)
    assert rig.left is None


def test_where_all_goes_with_it_it_waits_longer_with_what_the_server_has_not_heard_of(rig: Rig) -> None:
    rig.unreported_s = 3600.0
    rig.start()
    rig.greet()
    running(rig)
    rig.fail(Channel.WAIT)
    ended_at = rig.now
    rig.exit(JOB, 0)
    while rig.left is None:
        for channel in list(rig.calls):
            rig.fail(channel)
        rig.wait(10)
    assert 3590 <= rig.now - ended_at <= 3620


def test_orphans_are_stopped_when_so_wanted_and_the_keeper_leaves(rig: Rig) -> None:
    rig.orphan_s = 3600.0
    rig.start()
    rig.greet()
    running(rig)
    rig.order(start(2, "exp-bbbb2-1"))
    rig.fail(Channel.WAIT)
    rig.wait(3590)
    assert rig.signalled == [] and rig.left is None
    rig.wait(20)
    assert rig.signalled == [(JOB, 10.0)]
    assert [record["orphaned"] for record in rig.journal if record["k"] == "stop"] == [True, True]
    rig.start()  # it was killed meanwhile; running effects are still completed
    rig.exit(JOB, None, signalled=True)
    ends = [record["final"] for record in rig.journal if record["k"] == "final"]
    assert [end["reason"] for end in ends] == ["lease", "lease"]
    assert ends[1]["message"] == "the keeper had not heard from the server for too long"
    for channel in list(rig.calls):
        rig.fail(channel)
    rig.wait(700)
    assert rig.left == "its trials were stopped, because the server had not answered for 3600 s"


def ends(rig: Rig) -> dict[str, tuple[str | None, str | None]]:
    finals = [record for record in rig.journal if record["k"] == "final"]
    return {each["job"]: (each["final"]["reason"], each["final"]["message"]) for each in finals}


def test_on_a_host_that_ends_everything_is_stopped_and_counts_as_lost(rig: Rig) -> None:
    running(rig)
    rig.order(start(2, "exp-stopped-1"), start(3, "exp-waiting-1"), start(4, "exp-over-1"))
    rig.claim("exp-stopped-1")
    rig.claim("exp-over-1")
    rig.order(stop(5, "exp-stopped-1", 30.0))
    rig.shut_down(7.0)
    rig.shut_down(1.0)  # no news
    assert rig.signalled == [("exp-stopped-1", 30.0), (JOB, 7.0), ("exp-over-1", 7.0)]
    rig.write(JOB, b"last")
    rig.exit(JOB, 0, signalled=True)
    rig.exit("exp-stopped-1", 0, signalled=True)
    rig.exit("exp-over-1", 4)  # by itself, just before
    why = "its host was stopped"
    assert ends(rig) == {
        "exp-waiting-1": ("host_lost", why),
        JOB: ("host_lost", why),
        "exp-stopped-1": ("stopped", None),
        "exp-over-1": ("exited", None),
    }
    finals = [record["final"] for record in rig.journal if record["k"] == "final"]
    assert {each.get("cause") for each in finals if each["reason"] == "host_lost"} == {"preempted"}
    assert {each.get("cause") for each in finals if each["reason"] != "host_lost"} == {None}
    while rig.left is None:
        entries = rig.call()["attempts"]
        rig.answer(done=[job for job, entry in entries.items() if entry["final"] is not None])
    assert rig.left == "the host is about to shut down" and rig.core.attempts == {}


def test_what_is_to_start_on_a_host_that_ends_does_not(rig: Rig) -> None:
    running(rig)
    rig.shut_down(7.0)
    rig.order(start(2, "e-b-1"))
    assert rig.spawned == [JOB]
    assert ends(rig) == {"e-b-1": ("host_lost", "its host was stopped")}


def test_a_keeper_started_anew_on_a_host_that_ends_goes_on_with_that(rig: Rig) -> None:
    running(rig)
    rig.shut_down(7.0)
    rig.order(start(2, "e-b-1"))
    rig.start()
    rig.greet()
    assert rig.signalled == [(JOB, 7.0), (JOB, 7.0)]
    rig.exit(JOB, None, signalled=True)
    assert [reason for reason, _ in ends(rig).values()] == ["host_lost", "host_lost"]


def test_a_host_that_ends_is_left_in_time_without_the_server(rig: Rig) -> None:
    running(rig)
    rig.shut_down(7.0)
    rig.wait(6.0)
    rig.exit(JOB, None, signalled=True)
    ended_at = rig.now
    while rig.left is None:
        for channel in list(rig.calls):
            rig.fail(channel)
        rig.wait(0.5)
    assert 19.0 <= rig.now - ended_at <= 20.0  # 5 s before the host kills all
    assert "has not received" in rig.left


def test_a_host_that_ends_is_left_when_a_server_that_comes_back_has_all(rig: Rig) -> None:
    running(rig)
    rig.shut_down(7.0, whole=90.0)
    rig.exit(JOB, None, signalled=True)
    for channel in list(rig.calls):
        rig.fail(channel)
    rig.wait(60.0)
    assert rig.left is None
    while rig.left is None:
        entries = rig.call()["attempts"]
        rig.answer(done=[job for job, entry in entries.items() if entry["final"] is not None])
    assert rig.left == "the host is about to shut down"


def felled(rig: Rig, code: int | None = 143, **changes: Any) -> None:
    """Let SIGTERM end the attempt on a host that a batch system or a container runtime may end."""
    rig.may_end = True
    rig.start()
    rig.greet()
    running(rig)
    rig.exit(JOB, code, **changes)


@pytest.mark.parametrize("changes", [{}, {"code": 1, "signalled": True}])
def test_an_end_by_sigterm_waits_for_the_news_that_the_host_ends(rig: Rig, changes: dict[str, Any]) -> None:
    felled(rig, **changes)
    rig.wait(1.9)
    assert ends(rig) == {}
    rig.shut_down(7.0)
    assert ends(rig) == {JOB: ("host_lost", "its host was stopped")}


def test_an_end_by_sigterm_is_remembered_when_its_record_is_overwritten(rig: Rig) -> None:
    felled(rig)
    rig.claims[JOB] = claim.damaged()
    rig.kill_shim(JOB)  # its keeper looks again
    assert ends(rig) == {}
    rig.shut_down(7.0)
    rig.wait(1.0)
    assert ends(rig) == {JOB: ("host_lost", "its host was stopped")}


def test_an_end_by_sigterm_is_reported_as_it_is_if_the_host_goes_on(rig: Rig) -> None:
    felled(rig)
    rig.wait(2.1)
    assert ends(rig) == {JOB: ("exited", None)}


def test_a_new_keeper_waits_again_before_it_reports_an_end_by_sigterm(rig: Rig) -> None:
    felled(rig)
    rig.wait(1.0)
    rig.start()
    rig.greet()
    rig.wait(1.5)
    assert ends(rig) == {}
    rig.shut_down(7.0)
    assert ends(rig) == {JOB: ("host_lost", "its host was stopped")}


def test_other_ends_are_reported_at_once_on_a_host_that_may_end(rig: Rig) -> None:
    felled(rig, 1)
    assert ends(rig) == {JOB: ("exited", None)}


def leave_with_an_end(rig: Rig, *, stay: bool) -> None:
    """Shut the host down, end its attempt, and let the server answer to the report of that end."""
    running(rig)
    rig.shut_down(7.0, whole=30.0)
    assert rig.call()["ending"] == {"stays": False}
    rig.answer()
    rig.exit(JOB, None, signalled=True)
    assert rig.call()["attempts"][JOB]["final"] is not None
    rig.answer(done=[JOB], stay=stay)


def test_an_idle_host_that_ends_is_left_when_the_server_needs_nothing_from_there(rig: Rig) -> None:
    rig.answer(Channel.WAIT)  # this call did not say that the host ends
    rig.shut_down()
    assert rig.left is None and rig.call()["ending"] == {"stays": False}
    rig.answer()
    assert rig.left == "the host is about to shut down"


def test_an_idle_host_that_ends_is_left_in_time_without_the_server(rig: Rig) -> None:
    rig.shut_down()
    rig.wait(24.9)
    assert rig.left is None  # a server that comes back may need checkpoints from there
    rig.wait(0.2)
    assert rig.left == "the host is about to shut down, and the server does not answer"


def test_a_host_that_ends_is_left_when_its_checkpoints_are_copied(rig: Rig) -> None:
    leave_with_an_end(rig, stay=True)
    rig.wait(20.0)
    assert rig.left is None
    rig.answer(Channel.WAIT, stay=True)
    assert rig.call(Channel.WAIT)["ending"] == {"stays": True}
    rig.answer(Channel.WAIT)
    assert rig.left == "the host is about to shut down"
    assert "the server copies checkpoints from this host, and has 25 s for that" in rig.said


def test_a_host_that_ends_is_left_at_once_if_nothing_is_to_be_copied(rig: Rig) -> None:
    leave_with_an_end(rig, stay=False)
    assert rig.left == "the host is about to shut down"


def test_a_host_that_ends_is_left_before_its_time_is_used_up(rig: Rig) -> None:
    leave_with_an_end(rig, stay=True)
    rig.wait(24.9)
    assert rig.left is None
    rig.wait(0.2)
    assert rig.left == (
        "the host is about to shut down, before the server has copied all checkpoints that it needs from here"
    )


def test_a_server_that_is_gone_during_the_copies_does_not_hold_the_keeper_for_ever(rig: Rig) -> None:
    leave_with_an_end(rig, stay=True)
    for _ in range(24):
        for channel in list(rig.calls):
            rig.fail(channel)
        rig.wait(1.0)
    assert rig.left is None
    rig.wait(1.1)
    assert rig.left is not None and rig.core.deadline(rig.now) is None


def test_a_keeper_started_anew_asks_whether_it_still_has_to_stay(rig: Rig) -> None:
    leave_with_an_end(rig, stay=True)
    rig.start()
    assert rig.left is None and rig.call()["ending"] == {"stays": False}
    rig.greet(stay=True)
    rig.wait(10.0)
    assert rig.left is None
    rig.answer(Channel.WAIT)
    assert rig.left == "the host is about to shut down"


def test_an_order_to_exit_needs_no_copies(rig: Rig) -> None:
    leave_with_an_end(rig, stay=True)
    rig.answer(Channel.WAIT, leave=True, stay=True)
    assert rig.left == "no attempt is left and none will come"


def test_a_host_that_stays_does_not_wait_for_copies(rig: Rig) -> None:
    rig.answer(Channel.WAIT, leave=True, stay=True)
    assert rig.left is not None


def test_a_replaced_keeper_ends_everything_and_leaves(rig: Rig) -> None:
    running(rig)
    rig.order(start(2, "e-b-1"))  # not claimed yet
    rig.fail(Channel.WAIT, "409", "instance")
    assert rig.signalled == [(JOB, 10.0)]
    assert rig.left is None
    rig.wait(5)
    assert rig.calls == {}
    rig.exit(JOB, None, signalled=True)
    assert rig.left is not None and rig.core.deadline(rig.now) is None


def test_a_replaced_keeper_obeys_no_late_answer(rig: Rig) -> None:
    running(rig)
    rig.write(JOB, b"1")
    rig.fail(Channel.REPORT, "409", "instance")
    rig.answer(Channel.WAIT, cmds=[start(2, "e-b-1")])
    assert rig.spawned == [JOB]
