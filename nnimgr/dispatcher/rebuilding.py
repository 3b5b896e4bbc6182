"""Restores a tuner's state in a new process, from the tuner's own past or from the past of a replaced
tuner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from nnimgr.algorithm import Past, Tuner
from nnimgr.dispatcher.abilities import Way
from nnimgr.dispatcher.calls import Doomed
from nnimgr.dispatcher.history import Event, History, PastSuggestion
from nnimgr.dispatcher.messages import (
    Failed,
    Imported,
    ResultReported,
    SpaceChanged,
    Start,
    TrialFinished,
)
from nnimgr.dispatcher.serialization import json_text
from nnimgr.dispatcher.tuner_feed import TunerFeed

__all__ = ["Rebuild"]

Generate = Callable[[list[int], "str | None"], "tuple[dict[int, Any], bool]"]
WithMetrics = Callable[[Sequence[Event], int], Iterable[Event]]  # adds metrics after a fact's number


class Rebuild:
    """Restores the state of one newly constructed tuner from the log. ``feed`` passes past events to the
    tuner.

    ``generate`` asks the tuner for parameter sets in the same way as the tuner's host.
    """

    def __init__(self, start: Start, feed: TunerFeed, generate: Generate) -> None:
        self._start, self._feed, self._generate = start, feed, generate
        self._tuner, self._abilities, self._calls = feed.tuner, feed.abilities, feed.calls
        self._enforcement, self._phases = feed.enforcement, feed.phases

    def run(self) -> str | None:
        """Restore the tuner's state.

        Return one sentence if the state cannot be exactly as before. Raise Doomed if this process must end.
        """
        up_to = self._start.rebuild_to
        space = dict(self._start.search_space)
        if not up_to:
            self._feed.update_space(space)
            return None
        with closing(History(self._start.database, self._start.experiment_id)) as history:
            last = history.last(up_to=up_to, metrics=self._abilities.wants_metrics)
            first, constraints = history.first() or (space, self._start.constraints)
            spaces = history.spaces(up_to=last, since=self._start.since) or [space]
            needs = self._needs(spaces) | self._enforcement.needs
            events = history.events(after=0, up_to=last, past=needs)
            years = Years.of(events, since=self._start.since, space=first, constraints=constraints)
            self._enforcement.change(years.constraints)

            def with_metrics(events: Sequence[Event], after: int) -> Iterable[Event]:
                if Past.INTERMEDIATES not in needs:
                    return events
                return history.with_metrics(events, after=after, up_to=last)

            with self._feed.intermediates.reading(history):
                note = self._restore(years, spaces[0], with_metrics)
        self._feed.fed_to = last
        return note

    def _restore(self, years: Years, space: dict[str, Any], with_metrics: WithMetrics) -> str | None:
        """Restore the tuner's state in the way that its class allows. ``space``: the first search space of
        the tuner.
        """
        if self._abilities.way is Way.RECALL:
            return self._replay(with_metrics(years.as_one, 0), space)
        self._feed.first_own = years.first_own
        if self._abilities.way is Way.IMPORT:
            return self._import_past(years)
        return self._replay_own(years, with_metrics)

    def _needs(self, spaces: list[dict[str, Any]]) -> Past:
        needs, way = self._abilities.needs, self._abilities.way
        found = Past.ALL
        if way is Way.RECALL and needs is not None:
            found = self._calls.must("needs", lambda: Past(needs(spaces)))
        if way is Way.IMPORT or not self._abilities.wants_metrics:
            found &= ~Past.INTERMEDIATES
        return found

    def _replay_own(self, years: Years, with_metrics: WithMetrics) -> str | None:
        """Load the tuner's last recorded state, and replay the events after it.

        Without a recorded state, import an earlier tuner's past and replay all events since the change of
        tuners.
        """
        records = self._records_of(years.before)
        first, state, space, after = 0, None, years.space, self._start.since
        if self._abilities.way is Way.STATE:
            first, last, changed = last_state(years.own)
            space = space if changed is None else dict(changed.search_space)
            if last is not None:
                state, after = last.state, max(last.fed_to, after)
        for event in years.own[:first]:
            self._enforcement.hear(event)
            self._phases.hear(event)
        if state is not None:  # the state contains these records already
            records = []
        events = with_metrics(years.own[first:], after)
        note = self._replay(events, space, state=state, records=records)
        if note is not None or not records:
            return note
        return f"the tuner replaces another one. It got {_finished(len(records))} through import_data"

    def _replay(
        self,
        events: Iterable[Event],
        space: dict[str, Any],
        *,
        state: str | None = None,
        records: Sequence[Any] = (),
    ) -> str | None:
        """Repeat the tuner's calls for these events. Return one sentence if some of the calls raised an
        exception.
        """
        self._feed.update_space(space)
        if state is not None:
            self._calls.must("load_state", lambda: self._tuner.load_state(json.loads(state)))
        with self._calls.collect() as failures:
            self._feed.import_data(list(records))
            # Report all these calls to the server as one long call, because there may be very many.
            with self._calls.channel.calling("rebuild"):
                for event in events:
                    if isinstance(event, PastSuggestion):
                        self._suggest_again(event)
                    else:
                        self._feed.tell(event)
        if not failures:
            return None
        return f"{len(failures)} calls raised an exception again while the tuner was rebuilt: {failures[0]}"

    def _suggest_again(self, past: PastSuggestion) -> None:
        """Call ``recall``, or generate the set again, for a parameter set that an earlier process
        suggested.
        """
        way = self._abilities.way
        self._phases.hear(past)
        if way is not Way.REPLAY:  # a replay generates the set again and records it there
            self._enforcement.hear(past)
        if way is Way.RECALL:
            state = {"state": json.loads(past.state or "null")} if self._abilities.dumps_state else {}
            parameters = json.loads(past.parameters)
            self._calls.report("recall", lambda: self._tuner.recall(past.parameter_id, parameters, **state))
        elif way is Way.REPLAY:
            trial_id = past.trial_id if past.further else None
            given, _ = self._calls.must(
                "generate_parameters", lambda: self._generate([past.parameter_id], trial_id)
            )
            found = given.get(past.parameter_id)
            text = "none" if found is None else json_text(found, f"parameter set {past.parameter_id}")
            if found is None or json.loads(text) != json.loads(past.parameters):
                self._doom(
                    f"the tuner declares replayable = True, but for parameter set {past.parameter_id} it now "
                    f"gives {text:.200} where {past.parameters:.200} is recorded"
                )

    def _import_past(self, years: Years) -> str | None:
        """Pass the finished trials to the tuner as imported data, as NNI does on resume.

        Return one sentence about what the tuner knows of the earlier trials; None without earlier trials.
        """
        events = [*years.before, *years.own]
        load_checkpoint = self._abilities.load_checkpoint
        if load_checkpoint is not None and any(isinstance(event, PastSuggestion) for event in years.own):
            self._calls.report("load_checkpoint", load_checkpoint)
        self._feed.update_space(dict(self._start.search_space))
        records = self._records_of(events)
        self._feed.import_data(records)
        suggested = {event.parameter_id for event in events if isinstance(event, PastSuggestion)}
        suggested -= {
            event.parameter_id for event in events if isinstance(event, TrialFinished | ResultReported)
        }
        if not records and not suggested:
            return None
        replaces = bool(self._start.since and not years.own)
        return import_note(self._tuner, finished=len(records), open_=len(suggested), replaces=replaces)

    def _records_of(self, events: Sequence[Event]) -> list[Any]:
        """Return records for ``import_data`` from past events: results of trials, and data that was
        imported.
        """
        records: list[Any] = []
        for event in events:
            self._enforcement.hear(event)
            if isinstance(event, Imported):
                records += self._feed.results.usable(json.loads(event.records))[0]
            elif isinstance(event, TrialFinished | ResultReported):
                if isinstance(event, ResultReported) or not self._phases.of(event.trial_id).told:
                    records += self._feed.results.records_of(event)
            self._phases.hear(event)
        return records

    def _doom(self, sentence: str) -> None:
        failed = Failed(call="rebuild", sentence=sentence, traceback="", fatal=True, hopeless=True)
        self._calls.channel.send(failed)
        raise Doomed


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """Past of an experiment, split at the start of its present tuner.

    ``before``: events before the present tuner replaced another tuner. ``own``: events since then. ``space``
    and ``constraints`` were valid at the change of tuners.
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
        """Split the events at fact ``since``, at which the present tuner replaced another tuner.

        ``space`` and ``constraints``: those with which the experiment was created. A suggestion belongs to
        the present tuner if that tuner knew fact ``since`` when it suggested the set.
        """
        at = next((index for index, event in enumerate(events) if _is_own(event, since)), len(events))
        for event in events[:at]:
            if isinstance(event, SpaceChanged):
                space = dict(event.search_space)
                constraints = constraints if event.constraints is None else event.constraints
        return cls(before=events[:at], own=events[at:], space=space, constraints=constraints)

    @property
    def first_own(self) -> int:
        """Lowest parameter id that may belong to the present tuner."""
        ids = [event.parameter_id for event in self.before if isinstance(event, PastSuggestion)]
        return max(ids, default=-1) + 1

    @property
    def as_one(self) -> list[Event]:
        """All events of the past, for a tuner with ``recall``.

        The present tuner's search space applies from the start. States of other tuners are removed.
        """
        told: list[Event] = []
        for event in self.before:
            if isinstance(event, PastSuggestion):
                told.append(replace(event, state=None))
            elif not isinstance(event, SpaceChanged):
                told.append(event)
        return [*told, *self.own]


def last_state(events: Sequence[Event]) -> tuple[int, PastSuggestion | None, SpaceChanged | None]:
    """Return the last suggestion with which a state of the tuner was recorded.

    The result is the index of the first event after this suggestion, the suggestion, and the last change of
    the search space before the suggestion. Without a recorded state, return (0, None, None).
    """
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if isinstance(event, PastSuggestion) and event.state is not None:
            changes = [past for past in events[:index] if isinstance(past, SpaceChanged)]
            return index + 1, event, changes[-1] if changes else None
    return 0, None, None


def import_note(tuner: Any, *, finished: int, open_: int, replaces: bool) -> str:
    """Return a sentence that says what a tuner without stored state knows of the earlier trials.

    ``finished``, ``open_``: numbers of finished and of open trials. ``replaces``: the tuner replaces another
    tuner.
    """
    why = "replaces another one" if replaces else "was restarted, and keeps no state"
    past = _finished(finished)
    others = "the open one" if open_ == 1 else f"the {open_} open ones"
    if getattr(type(tuner), "import_data", Tuner.import_data) is Tuner.import_data:
        later = f", and will not get the results of {others}" if open_ else ""
        return (
            f"the tuner {why}. It has no import_data, so it knows nothing of {past}{later}. "
            "Give it import_data, or dump_state and load_state"
        )
    later = f"; it will get the results of {others} in the same way" if open_ else ""
    return f"the tuner {why}. It got {past} through import_data{later}"


def _finished(count: int) -> str:
    return "the finished trial" if count == 1 else f"the {count} finished trials"


def _is_own(event: Event, since: int) -> bool:
    if isinstance(event, PastSuggestion):
        return event.fed_to >= since
    return event.number > since
