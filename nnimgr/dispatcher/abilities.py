"""Optional methods and properties of a tuner, beyond the methods that every tuner has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from nnimgr.algorithm import Tuner

__all__ = ["Abilities", "Way", "way_of"]

Method = Callable[..., Any]


class Way(Enum):
    """Way to restore a tuner's state after the end of its process (see ``nnimgr.algorithm``)."""

    RECALL = auto()
    STATE = auto()
    REPLAY = auto()
    IMPORT = auto()


def way_of(tuner: Any) -> Way:
    """Return the most exact way that the tuner's methods offer to restore its state in a new process."""
    if callable(getattr(tuner, "recall", None)):
        return Way.RECALL
    if callable(getattr(tuner, "dump_state", None)) and callable(getattr(tuner, "load_state", None)):
        return Way.STATE
    return Way.REPLAY if getattr(tuner, "replayable", False) else Way.IMPORT


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """Optional methods and properties of one tuner; None for a method that the tuner lacks."""

    way: Way
    # True: each parameter set is stored with the tuner's state. ``recall`` gets a set with the set's state,
    # ``load_state`` gets the last state.
    dumps_state: bool
    suggests_many: bool  # True: one call generates sets for many ids
    waits: bool  # True: the tuner waits for results before it suggests more sets
    learns: bool
    wants_status: bool  # True: ``trial_end`` takes the trial's last status
    set_objectives: Method | None
    obey: Method | None
    needs: Method | None
    take_back: Method | None
    why_waiting: Method | None
    receive_intermediate_result: Method | None
    intermediate_rolled_back: Method | None
    load_checkpoint: Method | None

    @classmethod
    def of(cls, tuner: Any) -> Abilities:
        """Return the abilities of a tuner whose constructor has returned."""
        way = way_of(tuner)
        several = getattr(type(tuner), "generate_multiple_parameters", None)
        return cls(
            way=way,
            dumps_state=way is Way.STATE or _recalls_state(tuner),
            suggests_many=several is not None and several is not Tuner.generate_multiple_parameters,
            waits=bool(getattr(tuner, "waits", False)),
            learns=bool(getattr(tuner, "learns", True)),
            wants_status=bool(getattr(tuner, "wants_status", False)),
            set_objectives=_method(tuner, "set_objectives"),
            obey=_method(tuner, "obey"),
            needs=_method(tuner, "needs"),
            take_back=_method(tuner, "take_back"),
            why_waiting=_method(tuner, "why_waiting"),
            receive_intermediate_result=_method(tuner, "receive_intermediate_result"),
            intermediate_rolled_back=_method(tuner, "intermediate_rolled_back"),
            load_checkpoint=_method(tuner, "load_checkpoint"),
        )

    @property
    def wants_metrics(self) -> bool:
        """True: the tuner wants intermediate results."""
        return self.receive_intermediate_result is not None


def _method(tuner: Any, name: str) -> Method | None:
    found = getattr(tuner, name, None)
    return found if callable(found) else None


def _recalls_state(tuner: Any) -> bool:
    """Return whether the tuner's ``recall`` has the argument ``state``, and so gets the state stored with
    each set.
    """
    recall = _method(tuner, "recall")
    if recall is None or _method(tuner, "dump_state") is None:
        return False
    takes = inspect.signature(recall).parameters.values()
    return any(each.name == "state" or each.kind is each.VAR_KEYWORD for each in takes)
