"""What the tuner was asked for and has not given, and what its answers become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, trial_id_of

__all__ = ["Asking", "bind", "exhausted", "suggest"]

_Facts = Callable[[ExperimentState], Sequence[f.Fact]]


@dataclass(slots=True)
class Asking:
    """Suggestions that were asked for and have not come."""

    ids: dict[int, None] = field(default_factory=dict)
    further: dict[int, tuple[str, int]] = field(default_factory=dict)  # id -> multi-phase trial, set number
    refused: set[int] = field(default_factory=set)  # it had none for these, but may think again
    urgent: bool = True  # a slot waits for them
    since: float | None = None
    last_answer_s: float = 0.0
    freed: int = 0  # slots that fell free during the answer under way
    last_freed: int = 0

    @property
    def idle(self) -> bool:
        """Whether the tuner owes nothing and has nothing to add to an earlier answer."""
        return not (self.ids or self.further or self.refused)

    def next_id(self, state: ExperimentState) -> int:
        """The lowest parameter id that was never used."""
        used = max((*self.ids, *self.further, *self.refused), default=-1)
        return max(state.next_parameter_id, used + 1)


def suggest(asking: Asking, message: m.Suggestion) -> _Facts:
    """A new trial; nothing if the tuner that gave the set was replaced meanwhile."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        # Outstanding until the turn that takes it, or the plan would ask for another in its place.
        asking.ids.pop(message.parameter_id, None)
        asking.refused.discard(message.parameter_id)
        if message.fed_to < state.tuner_number:
            return ()
        return (
            f.Suggested(
                trial_id=trial_id_of(state.id, state.next_sequence),
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


def bind(asking: Asking, parameter_id: int, given: m.Suggestion | None, *, fed_to: int) -> _Facts:
    """A further parameter set for the trial that it was asked for; None: the tuner has no more."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        # Outstanding until the turn that takes it, or the plan would ask for it again.
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


def exhausted(fed_to: int) -> _Facts:
    """The tuner has no more, unless it said so before it knew of the search space that holds now, or was
    replaced meanwhile.
    """
    return lambda state: () if fed_to < max(state.space_number, state.tuner_number) else (f.TunerExhausted(),)


def _reuse(trial_id: str, text: str, value: float) -> f.Reuse:
    return f.Reuse(trial_id=trial_id, text=text, value=value)
