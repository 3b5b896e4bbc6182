"""Checks the parameter sets of a tuner against the experiment's constraints and its policy for duplicates.

A tuner with the method ``obey`` gets both and follows them itself. Any other tuner is asked again for
the same id until it gives an acceptable set, and later it gets results only for that set. The outcome depends
only on the calls to the tuner, so that replaying the calls gives the same outcome.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnimgr.algorithm import Past, Rules
from nnimgr.dispatcher.history import Event, PastSuggestion
from nnimgr.dispatcher.messages import SetDiscarded, SetTried, SpaceChanged, TrialFinished
from nnimgr.dispatcher.serialization import json_text
from nnimgr.identity import identity

if TYPE_CHECKING:
    from nnimgr.constraints import Constraints

__all__ = ["Enforcement"]

MOST_REFUSED = 1000  # refused sets for one id, after which the tuner counts as exhausted
SKIP, REUSE, REPLICATE = "skip", "reuse", "replicate"

# Function that asks the tuner again for one id. It returns a list of at most one set, or None if the tuner
# has no more sets.
Again = Callable[[int], "list[Any] | None"]


class Enforcement:
    """Checks each parameter set against the constraints and the policy for duplicates.

    ``obeyed``: the tuner follows both itself. ``duplicates``: skip, reuse, replicate or None.
    ``complain`` is called with one sentence when a tuner gives no acceptable set. The constructor raises
    ExpressionError.
    """

    def __init__(
        self,
        constraints: Sequence[str],
        duplicates: str | None,
        *,
        obeyed: bool,
        complain: Callable[[str], None],
    ) -> None:
        self._duplicates, self._obeyed, self._complain = duplicates, obeyed, complain
        self._constraints: Constraints | None = None
        self._known: Counter[int] = Counter()  # hash of a set's identity -> number of times it was tried
        self._by_hand: set[int] = set()  # hashes of the tried sets that users have submitted
        # hash of a set -> result of an earlier trial with this set, as in Suggestion.reuse
        self._results: dict[int, tuple[str, str, float]] = {}
        self._refusals: Counter[int] = Counter()  # parameter id -> number of refused sets
        self.change(constraints)

    @property
    def rules(self) -> Rules:
        """Constraints and policy in the form for the tuner's method ``obey``.

        The returned object also checks constraints that change later.
        """
        return Rules(
            feasible=self._feasible,
            may_repeat=self._duplicates in (REUSE, REPLICATE),
            never_repeat=self._duplicates == SKIP,
        )

    @property
    def needs(self) -> Past:
        """Part of the experiment's past that must be passed to ``hear`` after a restart."""
        if self._duplicates == SKIP:
            return Past.SUGGESTIONS
        return Past.RESULTS if self._duplicates == REUSE else Past.NOTHING

    def change(self, constraints: Sequence[str]) -> None:
        """Replace the constraints on parameter sets."""
        if not constraints:
            self._constraints = None
            return
        # Imported here, because the module imports ast, which would slow the start of a child without
        # constraints.
        from nnimgr.constraints import Constraints

        self._constraints = Constraints(constraints)

    def hear(self, event: Event) -> None:
        """Record which sets were tried, and their results, from a new or past event."""
        if isinstance(event, SpaceChanged):
            if event.constraints is not None:
                self.change(event.constraints)
        elif self._duplicates in (SKIP, REUSE):
            self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case PastSuggestion() if self._duplicates == SKIP:
                self._known[_key(event.parameters)] += 1
            case SetTried() if self._duplicates == SKIP:
                self._by_hand.add(_key(event.parameters))
            case SetDiscarded() if self._duplicates == SKIP:
                self._forget(event.parameters)
            case TrialFinished(untried=True) if self._duplicates == SKIP:
                self._forget(event.parameters)
            case TrialFinished(success=True, text=str(text), value=float(value)) if self._duplicates == REUSE:
                self._results.setdefault(_key(event.parameters), (event.trial_id, text, value))

    def result_of(self, parameters: str) -> tuple[str, str, float] | None:
        """Return the earlier trial's result to reuse for this set (see ``Suggestion.reuse``), or None.

        ``parameters``: the set as JSON text.
        """
        return self._results.get(_key(parameters)) if self._results else None

    # ---- for tuners without ``obey`` ----------------------------------------------------------------------

    def settle(self, given: dict[int, Any], again: Again) -> bool:
        """Replace the unacceptable sets in ``given`` by asking the tuner again. Remove sets without a
        replacement.

        ``given``: sets by parameter id. Return False if the tuner has no more sets.
        """
        return all([self._settle_one(parameter_id, given, again) for parameter_id in list(given)])

    def admits(self, parameter_id: int, parameters: Any) -> bool | None:
        """Return whether a set is acceptable. An acceptable set then counts as tried.

        Return None if too many sets for this id were refused, so that the tuner must not be asked again.
        """
        if self._obeyed or (self._constraints is None and self._duplicates != SKIP):
            return True
        text = json_text(parameters, f"parameter set {parameter_id}")
        why = self._fault_of(text)
        if why is None:
            self._refusals.pop(parameter_id, None)
            if self._duplicates == SKIP:
                self._known[_key(text)] += 1
            return True
        self._refusals[parameter_id] += 1
        if self._refusals[parameter_id] < MOST_REFUSED:
            return False
        del self._refusals[parameter_id]
        self._complain(
            f"none of the last {MOST_REFUSED:,} parameter sets can be used: the tuner counts as exhausted; "
            f"the last set was refused because {why}"
        )
        return None

    def _settle_one(self, parameter_id: int, given: dict[int, Any], again: Again) -> bool:
        while not (admitted := self.admits(parameter_id, given[parameter_id])):
            del given[parameter_id]
            found = None if admitted is None else again(parameter_id)
            if not found:
                return found is not None
            (given[parameter_id],) = found
        return True

    def _fault_of(self, text: str) -> str | None:
        if self._constraints is not None:
            complaint = self._constraints.complaint(json.loads(text))
            if complaint is not None:
                return complaint
        if self._duplicates == SKIP and ((key := _key(text)) in self._known or key in self._by_hand):
            return f"{text:.200} was tried before"
        return None

    # ---- beneath ------------------------------------------------------------------------------------------

    def _feasible(self, parameters: Any) -> bool:
        if self._by_hand and hash(identity(parameters)) in self._by_hand:
            return False
        return self._constraints is None or self._constraints.feasible(parameters)

    def _forget(self, parameters: str) -> None:
        key = _key(parameters)
        self._known[key] -= 1
        if self._known[key] <= 0:
            del self._known[key]


def _key(parameters: str) -> int:
    return hash(identity(json.loads(parameters)))
