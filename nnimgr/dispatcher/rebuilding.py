"""How a tuner whose process is new is brought to where it was, or to where another one was."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from nnimgr.algorithm import Tuner
from nnimgr.dispatcher.history import Event, PastSuggestion
from nnimgr.dispatcher.messages import SpaceChanged

__all__ = ["Way", "Years", "import_note", "last_state", "recalls_state", "way_of"]


class Way(Enum):
    """How a tuner is brought up to date after its process died (see ``nnimgr.algorithm``)."""

    RECALL = auto()
    STATE = auto()
    REPLAY = auto()
    IMPORT = auto()


def way_of(tuner: Any) -> Way:
    if callable(getattr(tuner, "recall", None)):
        return Way.RECALL
    if callable(getattr(tuner, "dump_state", None)) and callable(getattr(tuner, "load_state", None)):
        return Way.STATE
    return Way.REPLAY if getattr(tuner, "replayable", False) else Way.IMPORT


def recalls_state(tuner: Any) -> bool:
    """Whether what it dumps with a set is given back as ``recall(..., state=...)``."""
    recall = getattr(tuner, "recall", None)
    if not callable(recall) or not callable(getattr(tuner, "dump_state", None)):
        return False
    takes = inspect.signature(recall).parameters.values()
    return any(each.name == "state" or each.kind is each.VAR_KEYWORD for each in takes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """The past of an experiment, as its tuner of now has to go through it.

    ``before`` it took another one's place, and since then (``own``). ``space`` and ``constraints`` held when
    it came.
    """

    before: Sequence[Event]
    own: Sequence[Event]
    space: dict[str, Any]
    constraints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        events: Sequence[Event],
        *,
        since: int,
        space: dict[str, Any],
        constraints: tuple[str, ...] = (),
    ) -> Years:
        """``space``, ``constraints``: the experiment's first. A suggestion is of the tuner fed so far."""
        at = next((index for index, event in enumerate(events) if _is_own(event, since)), len(events))
        for event in events[:at]:
            if isinstance(event, SpaceChanged):
                space = dict(event.search_space)
                constraints = constraints if event.constraints is None else event.constraints
        return cls(before=events[:at], own=events[at:], space=space, constraints=constraints)

    @property
    def first_own(self) -> int:
        """The lowest parameter id that may be of this tuner."""
        ids = [event.parameter_id for event in self.before if isinstance(event, PastSuggestion)]
        return max(ids, default=-1) + 1

    @property
    def as_one(self) -> list[Event]:
        """All of it for one that recalls: in its space from the start, without what others have kept."""
        told: list[Event] = []
        for event in self.before:
            if isinstance(event, PastSuggestion):
                told.append(replace(event, state=None))
            elif not isinstance(event, SpaceChanged):
                told.append(event)
        return [*told, *self.own]


def last_state(events: Sequence[Event]) -> tuple[int, str | None, SpaceChanged | None]:
    """Behind which event the last recorded state stands, that state, and the last change of space before."""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if isinstance(event, PastSuggestion) and event.state is not None:
            changes = [past for past in events[:index] if isinstance(past, SpaceChanged)]
            return index + 1, event.state, changes[-1] if changes else None
    return 0, None, None


def import_note(tuner: Any, *, finished: int, open_: int, replaces: bool) -> str:
    """Say what a tuner that keeps no state knows of the trials before it.

    ``finished``, ``open_``: how many of these there are; ``replaces``: it takes another tuner's place.
    """
    why = "has taken another one's place" if replaces else "keeps no state"
    if getattr(type(tuner), "import_data", Tuner.import_data) is Tuner.import_data:
        restarted = "" if replaces else " was restarted and"
        return (
            f"the tuner {why} and has no import_data, so it{restarted} knows nothing of {finished} finished "
            f"trials and will not hear of {open_} open ones; "
            "give it import_data, or dump_state and load_state"
        )
    given = "was" if replaces else "was restarted and"
    return (
        f"the tuner {why}, so it {given} given {finished} finished trials through import_data; {open_} "
        "open ones will reach it the same way"
    )


def _is_own(event: Event, since: int) -> bool:
    if isinstance(event, PastSuggestion):
        return event.fed_to >= since
    return event.number > since
