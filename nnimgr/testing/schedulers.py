"""Tests that every scheduler should pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.testing.population import Disturbances, HostedScheduler, Population
from nnimgr.testing.record import Record

__all__ = ["SchedulerConformance"]

_RESTARTS = 24  # number of facts after which the scheduler is restarted in a test
_EVERYTHING = Disturbances(
    fails=0.01, is_lost=0.03, is_silent=0.02, user_pauses=0.03, user_stops=0.01, odd_results=0.05, saves=0.8
)

Make = Callable[..., Population]


class SchedulerConformance:
    """Base class for the tests of a scheduler. Override ``make`` to return the scheduler.

    The tests run experiments whose trials obey the scheduler. It passes if it raises no exception, decides
    only about trials that have not ended, gives a reason for each decision, lets every experiment end, and
    makes the same decisions after a restart of its process.
    """

    builtin: ClassVar[bool] = False  # True only for built-in schedulers, which use numbers only
    trials: ClassVar[int] = 12  # number of trials in most experiments
    slots: ClassVar[int] = 4  # number of trials that run at the same time
    length: ClassVar[int] = 12  # number of results after which a trial ends
    search_space: ClassVar[dict[str, Any]] = {
        "uniform": {"_type": "uniform", "_value": [0, 1]},
        "log": {"_type": "loguniform", "_value": [1e-5, 1]},
        "step": {"_type": "quniform", "_value": [0, 10, 0.5]},
        "integer": {"_type": "randint", "_value": [1, 100]},
        "choice": {"_type": "choice", "_value": ["a", "b", "c"]},
        "nested": {
            "_type": "choice",
            "_value": [{"_name": "x", "inner": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "y"}],
        },
    }

    def make(self) -> Any:
        """Return a new scheduler with the arguments to test. This method is called several times."""
        raise NotImplementedError("override make() to return the scheduler under test")

    def test_all_trials_end(self, population: Make) -> None:
        population().run()

    def test_more_trials_run_than_there_are_slots_for_others(self, population: Make) -> None:
        for slots in (1, self.trials):
            population(slots=slots).run()

    def test_a_single_trial_ends(self, population: Make) -> None:
        population(count=1).run()

    def test_trials_fail(self, population: Make) -> None:
        """Let many trials fail, at any time. No other trial may wait for them for ever."""
        population(disturbances=Disturbances(fails=0.08)).run()

    def test_trials_are_lost(self, population: Make) -> None:
        """Let trials continue from checkpoints or start again, and report some results again."""
        population(disturbances=Disturbances(is_lost=0.15, saves=0.5)).run()

    def test_hosts_are_silent(self, population: Make) -> None:
        population(disturbances=Disturbances(is_silent=0.1)).run()

    def test_users_pause_and_stop_trials(self, population: Make) -> None:
        population(disturbances=Disturbances(user_pauses=0.1, user_stops=0.03)).run()

    def test_trials_never_save(self, population: Make) -> None:
        """Trials without checkpoints: they cannot be paused, and none can continue from them."""
        population(disturbances=Disturbances(saves=0.0)).run()

    def test_results_come_in_every_form(self, population: Make) -> None:
        """Results may be mappings, texts or numbers that are not finite."""
        population(disturbances=Disturbances(odd_results=0.4)).run()

    def test_the_search_space_changes(self, population: Make) -> None:
        life = population()
        for _ in range(3):
            life.round()
        life.change_space({"uniform": {"_type": "uniform", "_value": [2, 3]}})
        life.run()

    def test_trials_are_added_when_there_were_no_more(self, population: Make) -> None:
        life = population()
        for _ in range(3 * self.trials):
            life.round()
        life.add_trials(self.trials // 2)
        life.run()

    def test_it_may_leave_at_any_time(self, population: Make) -> None:
        life = population()
        life.round()
        life.scheduler.leave()

    def test_rebuilt_it_decides_the_same(self, population: Make, tmp_path: Path) -> None:
        """Restart the scheduler after facts of an experiment in which everything happens."""
        life = population(disturbances=_EVERYTHING)
        life.run()
        last = life.record.number
        for up_to in range(1, last, max(1, last // _RESTARTS)):
            copy = tmp_path / f"{up_to}.sqlite"
            life.record.copy(copy, up_to=up_to)
            again = HostedScheduler(
                self.make, copy, self.search_space, builtin=self.builtin, rebuild_to=up_to
            )
            _check_sent_again(life, again, up_to)
            before = len(again.decided)
            for message in life.events.sent:
                if _number(message) > up_to:
                    again.send(message)
            then = [each for each in life.scheduler.decided if each.cause > up_to]
            assert again.decided[before:] == then, f"other decisions after a restart at fact {up_to}"

    @pytest.fixture
    def population(self, tmp_path: Path) -> Iterator[Make]:
        """Return a function that makes an experiment with the scheduler under test."""
        records: list[Record] = []

        def make(**more: Any) -> Population:
            records.append(Record(tmp_path / f"record-{len(records)}.sqlite", self.search_space))
            fields = {"count": self.trials, "slots": self.slots, "length": self.length, **more}
            return Population(self.make, records[-1], self.search_space, builtin=self.builtin, **fields)

        yield make
        for record in records:
            record.close()


def _check_sent_again(life: Population, again: HostedScheduler, up_to: int) -> None:
    """Check that a scheduler that was restarted has sent exactly the decisions that were not recorded.

    Decisions that a later event or a later decision about the same trial has made obsolete need not be sent.
    """
    open_ = [
        each
        for each in life.scheduler.decided
        if each.cause <= up_to < life.recorded[each.cause, each.trial_id]
    ]
    assert [each for each in again.decided if each not in open_] == [], f"other decisions until fact {up_to}"
    later = {
        message.trial_id: _number(message)
        for message in life.events.sent
        if _number(message) <= up_to and hasattr(message, "trial_id")
    }
    for each in life.scheduler.decided:
        if each.cause <= up_to:
            later[each.trial_id] = max(later.get(each.trial_id, 0), each.cause)
    for each in open_:
        if later.get(each.trial_id, 0) <= each.cause:
            assert each in again.decided, f"{each} was not sent again after a restart at fact {up_to}"


def _number(message: Any) -> int:
    """Return the number of the fact that a message reports."""
    return message.numbers[0] if isinstance(message, m.Metrics) else message.number
