"""Hyperband (Li, Jamieson, DeSalvo and others, JMLR 2018): several runs (brackets) of successive halving."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from nnimgr.tuners.budgets import BudgetTuner, Configuration, Schedule, Slot

__all__ = ["Brackets", "Hyperband", "most_halvings"]


class Hyperband(BudgetTuner):
    """Tuner that adds the parameter ``TRIAL_BUDGET``, from 1 to ``R``: how much a trial may spend, for
    example in epochs.

    A bracket starts many configurations with a small budget, and gives the best ones a larger budget.
    ``exec_mode``: while a bracket waits for its trials, ``parallelism`` continues with the next bracket, and
    ``serial`` waits. Trials without a result count as the worst with their budget, and are not promoted.
    Brackets follow each other without end. A change of the search space ends the brackets in progress.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        R: int = 60,
        eta: int = 3,
        exec_mode: str = "parallelism",
        seed: int | None = None,
    ) -> None:
        brackets = Brackets(R, eta, most_halvings(1, R, eta), serial=exec_mode == "serial")
        super().__init__(brackets, optimize_mode, seed)


def most_halvings(lowest: int, highest: int, eta: int) -> int:
    """Return how often ``highest`` can be divided by ``eta`` without becoming less than ``lowest``."""
    times = 0
    while lowest * eta ** (times + 1) <= highest:
        times += 1
    return times


@dataclass(slots=True)
class _Rung:
    """The trials of a bracket that have the same budget. ``size``: the number of trials that are planned."""

    budget: int
    size: int
    # promoted configurations that do not run yet, with their ranks, best first
    waiting: list[tuple[int, Configuration]] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)  # id of a promoted trial -> its rank
    given: dict[int, Configuration] = field(default_factory=dict)
    losses: dict[int, float | None] = field(default_factory=dict)  # trial -> result; None without a result

    def best(self) -> list[int]:
        """Return the ids of the trials with a result, best first.

        Among equal results, the earlier suggestion comes first.
        """
        found = [
            (loss, at, each) for at, each in enumerate(self.given) if (loss := self.losses[each]) is not None
        ]
        return [each for _, _, each in sorted(found)]


@dataclass(slots=True, eq=False)
class _Bracket:
    """One run of successive halving. ``number`` counts the brackets from 1.

    New trials belong to the last of ``rungs``.
    """

    number: int
    budgets: list[int]
    rungs: list[_Rung]


class Brackets(Schedule):
    """Schedule of Hyperband, which starts one bracket of successive halving after the other.

    Brackets have a number s, which counts down from ``most`` to 0 and then begins again. Bracket s begins
    with ceil(eta^s (most + 1) / (s + 1)) configurations and a budget of ``highest`` / eta^s. The best 1 / eta
    of the trials run again with eta times the budget, and so on.
    """

    def __init__(self, highest: int, eta: int, most: int, *, serial: bool = False) -> None:
        self._eta, self._most, self._serial = eta, most, serial
        self._shapes = [
            (-(-(eta**s) * (most + 1) // (s + 1)), [highest * eta**i // eta**s for i in range(s + 1)])
            for s in range(most, -1, -1)
        ]
        self._opened = 0
        self._brackets: list[_Bracket] = []  # brackets in progress, oldest first
        # id of a trial whose result may still matter -> its bracket and rung
        self._where: dict[int, tuple[_Bracket, _Rung]] = {}
        self._none_new = False

    def next(self) -> Slot | None:
        for bracket in self._brackets:
            rung = bracket.rungs[-1]
            if rung.waiting:
                return Slot(budget=rung.budget, configuration=rung.waiting[0][1], place=bracket)
            if len(bracket.rungs) == 1 and len(rung.given) < rung.size and not self._none_new:
                return Slot(budget=rung.budget, place=bracket)
        if self._none_new or (self._serial and self._brackets):
            return None
        return Slot(budget=self._shapes[self._opened % len(self._shapes)][1][0])

    def give(self, parameter_id: int, slot: Slot, configuration: Configuration) -> None:
        bracket = slot.place or self._open()
        rung = bracket.rungs[-1]
        if slot.configuration is not None:
            rung.ranks[parameter_id], _ = rung.waiting.pop(0)
        rung.given[parameter_id] = configuration
        self._where[parameter_id] = bracket, rung

    def end(self, parameter_id: int, loss: float | None) -> None:
        if parameter_id not in self._where:
            return
        bracket, rung = self._where[parameter_id]
        if bracket not in self._brackets:
            del self._where[parameter_id]
            return
        if loss is not None or parameter_id not in rung.losses:
            rung.losses[parameter_id] = loss
        self._advance(bracket)

    def take_back(self, parameter_id: int) -> bool:
        bracket, rung = self._where.pop(parameter_id, (None, None))
        if bracket is None or rung is None:
            return True
        configuration = rung.given.pop(parameter_id)
        rung.losses.pop(parameter_id, None)
        self._none_new = False
        if rung is bracket.rungs[0]:
            return True
        insort(rung.waiting, (rung.ranks.pop(parameter_id), configuration))
        return False

    def no_more_new(self) -> None:
        self._none_new = True
        for bracket in list(self._brackets):
            self._advance(bracket)

    def restart(self) -> None:
        self._brackets.clear()
        self._none_new = False

    @property
    def busy(self) -> bool:
        return any(True for _ in self._awaited())

    def why_waiting(self) -> str:
        for bracket, rung, count in self._awaited():
            trials = "a trial" if count == 1 else f"{count} trials"
            return (
                f"it waits for {trials} of bracket {bracket.number}, rung {len(bracket.rungs)} (budget "
                f"{rung.budget}), to promote the best"
            )
        return "it does not wait for a trial"

    def _awaited(self) -> Iterator[tuple[_Bracket, _Rung, int]]:
        """Yield each bracket that has running trials, with its last rung and the number of these trials."""
        for bracket in self._brackets:
            rung = bracket.rungs[-1]
            if len(rung.given) > len(rung.losses):
                yield bracket, rung, len(rung.given) - len(rung.losses)

    def _open(self) -> _Bracket:
        size, budgets = self._shapes[self._opened % len(self._shapes)]
        self._opened += 1
        bracket = _Bracket(self._opened, budgets, [_Rung(budgets[0], size)])
        self._brackets.append(bracket)
        return bracket

    def _advance(self, bracket: _Bracket) -> None:
        """When all trials of a bracket's last rung have ended, promote the best ones, or end the bracket."""
        rung = bracket.rungs[-1]
        short = self._none_new and len(bracket.rungs) == 1
        if rung.waiting or len(rung.losses) < (len(rung.given) if short else rung.size):
            return
        for parameter_id in rung.given:
            del self._where[parameter_id]
        best = rung.best()
        size = min(max(1, len(rung.given) // self._eta), len(best))
        if size == 0 or len(bracket.rungs) == len(bracket.budgets):
            self._brackets.remove(bracket)
            return
        above = _Rung(bracket.budgets[len(bracket.rungs)], size)
        above.waiting.extend((rank, rung.given[each]) for rank, each in enumerate(best[:size]))
        bracket.rungs.append(above)
