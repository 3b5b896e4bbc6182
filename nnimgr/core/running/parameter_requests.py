"""Pending requests to the tuner for parameter sets, and the facts that follow from its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nnimgr.core.running.mailbox import Builder
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState

__all__ = ["Asking", "bind", "exhausted", "suggest"]


@dataclass(slots=True)
class Asking:
    """Pending requests to the tuner for parameter sets."""

    ids: dict[int, None] = field(default_factory=dict)
    # requests for further sets of multi-phase trials: parameter id -> (trial, number of the parameter set)
    further: dict[int, tuple[str, int]] = field(default_factory=dict)
    # requested ids for which the tuner had no parameter set yet
    refused: set[int] = field(default_factory=set)
    urgent: bool = True  # True: a slot waits for an answer
    since: float | None = None
    last_answer_s: float = 0.0
    freed: int = 0  # number of slots that became free during the current answer
    last_freed: int = 0

    @property
    def idle(self) -> bool:
        """Return whether the tuner owes no parameter set.

        It owes a set for each pending request, and for each request for which it had no set yet.
        """
        return not (self.ids or self.further or self.refused)

    def next_id(self, state: ExperimentState) -> int:
        """Return the lowest parameter id that was never used."""
        used = max((*self.ids, *self.further, *self.refused), default=-1)
        return max(state.next_parameter_id, used + 1)


def suggest(asking: Asking, message: m.Suggestion) -> Builder:
    """Return a function that builds the fact of a new trial from a suggestion of the tuner.

    The function returns no fact if the tuner was replaced meanwhile.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        # The request stays pending until the turn that records the trial. Otherwise the plan would request
        # another set.
        asking.ids.pop(message.parameter_id, None)
        asking.refused.discard(message.parameter_id)
        if message.fed_to < state.tuner_number:
            return ()
        return (
            f.Suggested(
                trial_id=state.trial_id(state.next_sequence),
                sequence=state.next_sequence,
                source=f.SuggestionSource.ALGORITHM,
                parameter_id=message.parameter_id,
                parameters=message.parameters,
                fed_to=message.fed_to,
                tuner_state=message.state,
                reuse=None if message.reuse is None else _reuse(*message.reuse),
            ),
        )

    return build


def bind(asking: Asking, parameter_id: int, given: m.Suggestion | None, *, fed_to: int) -> Builder:
    """Return a function that builds the fact of a further parameter set for a multi-phase trial.

    ``given``: the set; None if the tuner has no more sets.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        # The request stays pending until the turn that records the set. Otherwise the plan would request the
        # set again.
        trial_id, index = asking.further.pop(parameter_id)
        trial = state.trials.get(trial_id)
        late = trial is None or index != len(trial.sets)
        if fed_to < state.tuner_number:
            return ()
        if given is None:
            refusal = f.FurtherSuggested(trial_id=trial_id, index=index, parameter_id=None, parameters=None)
            return () if late else (refusal,)
        return (
            f.FurtherSuggested(
                trial_id=trial_id,
                index=index,
                parameter_id=parameter_id,
                parameters=given.parameters,
                fed_to=given.fed_to,
                tuner_state=given.state,
                late=late,
            ),
        )

    return build


def exhausted(fed_to: int) -> Builder:
    """Return a function that builds the fact that the tuner has no more parameter sets.

    The function returns no fact if the answer predates the current search space or the current tuner.
    """
    return lambda state: () if fed_to < max(state.space_number, state.tuner_number) else (f.TunerExhausted(),)


def _reuse(trial_id: str, text: str, value: float) -> f.Reuse:
    return f.Reuse(trial_id=trial_id, text=text, value=value)
