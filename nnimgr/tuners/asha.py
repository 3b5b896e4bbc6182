"""ASHA, asynchronous successive halving (Li, Jamieson, Rostamizadeh, Gonina and others, MLSys 2020)."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from nnimgr.tuners.bohb import ModelTuner
from nnimgr.tuners.bohb_arguments import ModelArguments
from nnimgr.tuners.budgets import Configuration, Schedule, Slot

__all__ = ["ASHA", "Promotions"]


class ASHA(ModelTuner):
    """Tuner that adds the parameter ``TRIAL_BUDGET``, which tells a trial how much it may spend, for example
    in epochs.

    ``mode`` decides how the budget is chosen. With ``promotion``, each configuration begins with
    ``min_budget``. Of all trials that have ended with the same budget, the best 1 / ``eta`` run again with
    ``eta`` times that budget. The tuner never waits: if no trial can be promoted, it begins a new
    configuration. With ``stopping``, the budget is always ``max_budget``, and an assessor of the same name is
    added. The assessor compares the trials after ``min_budget`` reports, ``eta`` times that number, and so
    on, and stops all but the best 1 / ``eta``.

    ``searcher``: where new configurations come from. ``random`` draws them; ``bohb``, only for promotion,
    uses the model of the advisor BOHB.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        mode: str = "promotion",
        min_budget: int = 1,
        max_budget: int = 81,
        eta: int = 3,
        searcher: str = "random",
        seed: int | None = None,
    ) -> None:
        schedule = (
            Promotions(min_budget, max_budget, eta)
            if mode == "promotion"
            else Promotions(max_budget, max_budget, eta)
        )
        arguments = ModelArguments(random_fraction=1.0) if searcher == "random" else ModelArguments()
        super().__init__(schedule, optimize_mode, seed, max_budget, arguments)


_Entry = tuple[float, int]  # loss (infinite without a result), and a number that counts the ended trials


@dataclass(slots=True, eq=False)
class _Rung:
    """The ended trials that had the same budget, and those of them that wait for promotion."""

    budget: int
    ended: list[_Entry] = field(default_factory=list)  # all ended trials, sorted
    waiting: list[_Entry] = field(default_factory=list)  # trials with a result that were not promoted, sorted
    # waiting trial -> its configuration
    configurations: dict[_Entry, Configuration] = field(default_factory=dict)

    def first(self, eta: int) -> _Entry | None:
        """Return the best trial that waits for promotion, or None if it is not among the best 1 / ``eta`` of
        all ended trials.
        """
        if self.waiting and bisect_left(self.ended, self.waiting[0]) < len(self.ended) // eta:
            return self.waiting[0]
        return None


@dataclass(slots=True, kw_only=True)
class _Run:
    """Running trial: its rung and configuration.

    ``origin``: for a promoted trial, the rung from which it was promoted, and its entry in that rung.
    """

    rung: _Rung
    configuration: Configuration
    origin: tuple[_Rung, _Entry] | None


class Promotions(Schedule):
    """Schedule in which a configuration is promoted to the next budget as soon as it is among the best.

    The budgets are ``lowest``, ``lowest * eta``, ``lowest * eta ** 2`` and so on up to ``highest``.
    """

    def __init__(self, lowest: int, highest: int, eta: int) -> None:
        self._eta = eta
        self._budgets = []
        while lowest < highest:
            self._budgets.append(lowest)
            lowest *= eta
        self._budgets.append(highest)
        self._ends = 0
        self._rungs = [_Rung(budget) for budget in self._budgets]
        self._runs: dict[int, _Run] = {}
        self._failed: dict[int, tuple[_Run, _Entry]] = {}  # failed trials, which users may run again
        self._none_new = False

    def next(self) -> Slot | None:
        for rung, above in zip(self._rungs[-2::-1], self._rungs[:0:-1], strict=True):
            entry = rung.first(self._eta)
            if entry is not None:
                return Slot(
                    budget=above.budget, configuration=rung.configurations[entry], place=(rung, entry, above)
                )
        return None if self._none_new else Slot(budget=self._budgets[0])

    def give(self, parameter_id: int, slot: Slot, configuration: Configuration) -> None:
        rung, origin = self._rungs[0], None
        if slot.place is not None:
            below, entry, rung = slot.place
            below.waiting.remove(entry)
            origin = below, entry
        self._runs[parameter_id] = _Run(rung=rung, configuration=configuration, origin=origin)

    def end(self, parameter_id: int, loss: float | None) -> None:
        if parameter_id in self._runs:
            run = self._runs.pop(parameter_id)
        elif loss is not None and parameter_id in self._failed:
            run, failure = self._failed.pop(parameter_id)
            run.rung.ended.remove(failure)
        else:
            return
        self._ends += 1
        entry = (float("inf") if loss is None else loss, self._ends)
        insort(run.rung.ended, entry)
        if loss is None:
            self._failed[parameter_id] = run, entry
        elif run.rung is not self._rungs[-1]:
            insort(run.rung.waiting, entry)
            run.rung.configurations[entry] = run.configuration

    def take_back(self, parameter_id: int) -> bool:
        run = self._runs.pop(parameter_id, None)
        self._none_new = False
        if run is None or run.origin is None:
            return True
        rung, entry = run.origin
        insort(rung.waiting, entry)
        return False

    def no_more_new(self) -> None:
        self._none_new = True

    def restart(self) -> None:
        self._rungs = [_Rung(budget) for budget in self._budgets]
        self._none_new = False

    @property
    def busy(self) -> bool:
        """True if the result of a running trial can lead to a promotion, even if other trials of its rung
        still run.
        """
        return any(run.rung in self._rungs[:-1] for run in self._runs.values())

    def why_waiting(self) -> str:
        return "it waits for a result: every parameter set of the search space has been suggested"
