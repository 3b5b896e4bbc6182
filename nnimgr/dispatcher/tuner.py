"""The child that hosts a tuner: builds it, brings it up to date, and makes the calls the lines stand for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from nnimgr.algorithm import NoMoreTrialError, Past, Tuner
from nnimgr.dispatcher.calls import Calls, Doomed
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.enforcement import Enforcement
from nnimgr.dispatcher.further import FurtherSets
from nnimgr.dispatcher.history import Event, History, PastSuggestion, Told
from nnimgr.dispatcher.messages import (
    Answered,
    Ask,
    CatchUp,
    Failed,
    Imported,
    Leave,
    Noted,
    Ready,
    ResultReported,
    SetDiscarded,
    SetTried,
    SpaceChanged,
    Start,
    Suggestion,
    ToChild,
    TrialFinished,
)
from nnimgr.dispatcher.plain import is_deep, json_text
from nnimgr.dispatcher.rebuilding import Way, Years, import_note, last_state, recalls_state, way_of
from nnimgr.dispatcher.results import Results

__all__ = ["TunerHost"]


class TunerHost:
    """Serves one tuner. ``build`` first, then ``handle`` for each line, ``leave`` at the end.

    ``calls`` has the tuner made; by default as ``start`` says.
    """

    def __init__(self, channel: Channel, start: Start, calls: Calls | None = None) -> None:
        self._channel, self._start = channel, start
        self._calls = Calls(channel, "tuner") if calls is None else calls
        self._tuner: Any = None
        self._builtin = False
        self._results = Results(start.objectives, builtin=False)
        self._way = Way.IMPORT
        self._dumps_state = False  # with every set; it comes back with the set, or the last one alone
        self._asked_at_once = False  # whether the class answers for many ids in one call
        self._own: dict[int, Any] = {}  # what this object generated, until the trial's end
        self._first_own = 0  # parameter ids below are of a tuner whose place this one has taken
        self._open: dict[int, str | None] = {}  # asked for and not suggested; the trial of a further set
        self._phases = FurtherSets()
        self._refused: dict[int, Ask] = {}  # ids whose sets, brought by st_callback, would not do
        self._owing: Answered | None = None  # the last answer
        self._fed_to = 0  # the highest fact number it was told
        self._quiet: list[str] | None = None  # sentences of failures while the past is gone through again

    def build(self) -> None:
        """Construct and rebuild the tuner, then say Ready. Raises Doomed."""
        self._tuner, self._builtin = self._calls.build(self._start)
        self._results = Results(self._start.objectives, builtin=self._builtin)
        self._way = way_of(self._tuner)
        set_objectives = getattr(self._tuner, "set_objectives", None)
        if self._start.objectives and callable(set_objectives):
            objectives = dict(self._start.objectives)
            self._calls.must("set_objectives", lambda: set_objectives(objectives), hopeless=True)
        self._dumps_state = self._way is Way.STATE or recalls_state(self._tuner)
        self._enforcement = self._enforce()
        several = getattr(type(self._tuner), "generate_multiple_parameters", None)
        self._asked_at_once = several is not None and several is not Tuner.generate_multiple_parameters
        note = self._rebuild()
        self._channel.send(Ready(learns=bool(getattr(self._tuner, "learns", True)), note=note))

    def handle(self, message: ToChild) -> None:
        """Make the calls of one line. Raises Doomed."""
        self._handle(message)
        while self._refused:
            self._answer(self._refused.pop(next(iter(self._refused))))

    def _handle(self, message: ToChild) -> None:
        match message:
            case Ask():
                self._answer(message)
            case (
                TrialFinished() | ResultReported() | SetDiscarded() | SetTried() | Imported() | SpaceChanged()
            ):
                self._feed(message)
                self._ask_again()
            case CatchUp(number=number):
                for event in self._events(up_to=number):
                    if not isinstance(event, PastSuggestion):
                        self._feed(event)
                self._ask_again()
            case _:
                pass

    def leave(self) -> None:
        self._try("_on_exit", getattr(self._tuner, "_on_exit", _nothing))

    def fail(self) -> None:
        """The process is about to end because of an exception in the tuner."""
        self._calls.attempt("_on_error", getattr(self._tuner, "_on_error", _nothing))

    def _enforce(self) -> Enforcement:
        """What the experiment asks of parameter sets; a tuner that obeys is told before anything else."""
        obey = getattr(self._tuner, "obey", None)

        def complain(sentence: str) -> None:
            if self._quiet is None:
                self._channel.send(Failed(call="generate_parameters", sentence=sentence, traceback=""))

        found = self._calls.must(
            "constraints",
            lambda: Enforcement(
                self._start.constraints, self._start.duplicates, obeyed=callable(obey), complain=complain
            ),
            hopeless=True,
        )
        if callable(obey):
            self._calls.must("obey", lambda: obey(found.rules), hopeless=True)
        return found

    # ---- rebuilding ---------------------------------------------------------------------------------------

    def _events(self, *, up_to: int) -> list[Event]:
        """What has happened since the last fact that the tuner was told of."""
        if up_to <= self._fed_to:
            return []
        with closing(History(self._start.database, self._start.experiment_id)) as history:
            return history.events(after=self._fed_to, up_to=up_to)

    def _rebuild(self) -> str | None:
        """Go through the past; one sentence if the tuner cannot be exactly what it was."""
        up_to = self._start.rebuild_to
        space = dict(self._start.search_space)
        if not up_to:
            self._update_space(space)
            return None
        with closing(History(self._start.database, self._start.experiment_id)) as history:
            last = history.last(up_to=up_to)
            first, constraints = history.first() or (space, self._start.constraints)
            spaces = history.spaces(up_to=last, since=self._start.since) or [space]
            needs = self._needs(spaces) | self._enforcement.needs
            events = history.events(after=0, up_to=last, past=needs)
        years = Years.of(events, since=self._start.since, space=first, constraints=constraints)
        self._enforcement.change(years.constraints)
        if self._way is Way.RECALL:
            note = self._go_through(years.as_one, spaces[0])
        else:
            self._first_own = years.first_own
            note = self._import_past(years) if self._way is Way.IMPORT else self._go_on(years)
        self._fed_to = last
        return note

    def _needs(self, spaces: list[dict[str, Any]]) -> Past:
        needs = getattr(self._tuner, "needs", None)
        if self._way is not Way.RECALL or needs is None:
            return Past.ALL
        return self._calls.must("needs", lambda: Past(needs(spaces)))

    def _go_on(self, years: Years) -> str | None:
        """From its last state, or from the beginning, with the past of another one imported before."""
        records = self._records_of(years.before)
        first, state, space = 0, None, years.space
        if self._way is Way.STATE:
            first, state, changed = last_state(years.own)
            space = space if changed is None else dict(changed.search_space)
        for event in years.own[:first]:
            self._enforcement.hear(event)
            self._phases.hear(event)
        if state is not None:  # it knows of them
            records = []
        note = self._go_through(years.own[first:], space, state=state, records=records)
        if note is not None or not records:
            return note
        return (
            f"the tuner has taken another one's place: {len(records)} finished trials of before were given "
            "to it through import_data"
        )

    def _go_through(
        self,
        events: Sequence[Event],
        space: dict[str, Any],
        *,
        state: str | None = None,
        records: Sequence[Any] = (),
    ) -> str | None:
        self._update_space(space)
        if state is not None:
            self._calls.must("load_state", lambda: self._tuner.load_state(json.loads(state)))
        self._quiet = []
        if records:
            self._try("import_data", lambda: self._tuner.import_data(list(records)))
        with self._channel.calling("rebuild"):  # as one call: there may be very many
            for event in events:
                if isinstance(event, PastSuggestion):
                    self._pass_again(event)
                else:
                    self._feed(event)
        failures, self._quiet = self._quiet, None
        if not failures:
            return None
        return f"{len(failures)} calls raised again while the tuner was rebuilt: {failures[0]}"

    def _pass_again(self, past: PastSuggestion) -> None:
        """A suggestion of an earlier process, in its place among the results."""
        self._phases.hear(past)
        if self._way is not Way.REPLAY:  # there it is generated, and noted, again
            self._enforcement.hear(past)
        if self._way is Way.RECALL:
            state = {"state": json.loads(past.state or "null")} if self._dumps_state else {}
            parameters = json.loads(past.parameters)
            self._try("recall", lambda: self._tuner.recall(past.parameter_id, parameters, **state))
        elif self._way is Way.REPLAY:
            trial_id = past.trial_id if past.further else None
            given, _ = self._calls.must(
                "generate_parameters", lambda: self._generate([past.parameter_id], trial_id)
            )
            found = given.get(past.parameter_id)
            text = "none" if found is None else json_text(found, f"parameter set {past.parameter_id}")
            if found is None or json.loads(text) != json.loads(past.parameters):
                self._doom(
                    f"the tuner is called replayable, but for parameter set {past.parameter_id} it now gives "
                    f"{text:.200} where {past.parameters:.200} is recorded"
                )

    def _import_past(self, years: Years) -> str | None:
        """As NNI resumes: the tuner learns of finished trials as if they had been run elsewhere."""
        events = [*years.before, *years.own]
        if any(isinstance(event, PastSuggestion) for event in years.own):
            self._try("load_checkpoint", getattr(self._tuner, "load_checkpoint", _nothing))
        self._update_space(dict(self._start.search_space))
        records = self._records_of(events)
        if records:
            self._try("import_data", lambda: self._tuner.import_data(records))
        suggested = {event.parameter_id for event in events if isinstance(event, PastSuggestion)}
        suggested -= {
            event.parameter_id for event in events if isinstance(event, TrialFinished | ResultReported)
        }
        if not records and not suggested:
            return None
        replaces = bool(self._start.since and not years.own)
        return import_note(self._tuner, finished=len(records), open_=len(suggested), replaces=replaces)

    def _records_of(self, events: Sequence[Event]) -> list[Any]:
        """What import_data takes of these events: results of trials, and what was imported."""
        records: list[Any] = []
        for event in events:
            self._enforcement.hear(event)
            if isinstance(event, Imported):
                records += self._results.usable(json.loads(event.records))[0]
            elif isinstance(event, TrialFinished | ResultReported):
                if isinstance(event, ResultReported) or not self._phases.of(event.trial_id).told:
                    records += self._results.records_of(event)
            self._phases.hear(event)
        return records

    # ---- what it is told ----------------------------------------------------------------------------------

    def _feed(self, event: Told) -> None:
        # What the database had at the rebuild may come by line once more.
        if self._quiet is None and event.number <= self._fed_to:
            return
        self._fed_to = event.number
        self._enforcement.hear(event)
        match event:
            case TrialFinished():
                self._finished(event)
            case ResultReported():
                self._receive(event)
                self._phases.hear(event)
            case SetDiscarded():
                if event.parameter_id in self._phases.of(event.trial_id).sets:
                    self._end(event.parameter_id, event.trial_id, success=False)
                self._take_back(event.parameter_id, event.parameters, trial_id=event.trial_id)
                self._phases.hear(event)
            case Imported(records=records):
                self._imported(json.loads(records))
            case SpaceChanged(search_space=space):
                self._try("update_search_space", lambda: self._tuner.update_search_space(dict(space)))

    def _finished(self, trial: TrialFinished) -> None:
        """The result, if there is one, then the end: of each parameter set of a multi-phase trial."""
        phases = self._phases.of(trial.trial_id)
        if phases.told:  # they have got their results; what stands in for one is for those without
            trial = replace(trial, text=None)
        usable = trial.parameter_id in phases.told or self._receive(trial)
        success = trial.success and usable
        more = _more(trial) if self._way is Way.RECALL else {}
        self._end(trial.parameter_id, trial.trial_id, success=success, **more)
        for parameter_id, parameters in phases.sets.items():
            if parameter_id not in phases.told:
                further = replace(trial, parameter_id=parameter_id, parameters=parameters, text=None)
                self._receive(further)
            self._end(parameter_id, trial.trial_id, success=success, **more)
        if trial.untried:
            for untried, parameters in [(trial.parameter_id, trial.parameters), *phases.sets.items()]:
                if untried is not None and untried not in phases.told:
                    self._take_back(untried, parameters, trial_id=trial.trial_id)
        self._phases.hear(trial)

    def _hears_of(self, parameter_id: int | None) -> bool:
        """Whether this object takes calls about the parameter set: None is a customised trial's."""
        if parameter_id is None:
            return bool(getattr(self._tuner, "_accept_customized", False))
        if self._way is Way.IMPORT:
            return parameter_id in self._own
        return parameter_id >= self._first_own

    def _end(self, parameter_id: int | None, trial_id: str, *, success: bool, **more: bool) -> None:
        """``more``: what only some tuners are told."""
        if self._hears_of(parameter_id):
            self._own.pop(-1 if parameter_id is None else parameter_id, None)
            self._try(
                "trial_end",
                lambda: self._tuner.trial_end(parameter_id, success, trial_job_id=trial_id, **more),
                trial_id=trial_id,
            )

    def _take_back(self, parameter_id: int, parameters: str, *, trial_id: str) -> None:
        take_back = getattr(self._tuner, "take_back", None)
        if callable(take_back) and parameter_id >= self._first_own:
            self._try("take_back", lambda: take_back(parameter_id, json.loads(parameters)), trial_id=trial_id)

    def _receive(self, trial: TrialFinished | ResultReported) -> bool:
        """Pass the result on, or what stands in for it; False: its own is none that a tuner can use."""
        parameter_id, trial_id = trial.parameter_id, trial.trial_id
        if not self._hears_of(parameter_id):
            records = self._results.records_of(trial) if parameter_id is not None else []
            if records:
                self._try("import_data", lambda: self._tuner.import_data(records), trial_id=trial_id)
            return True
        text, value, fault = self._results.of(trial)
        if text is not None:
            own = self._own.get(-1 if parameter_id is None else parameter_id)
            parameters = json.loads(trial.parameters) if own is None else own
            self._try(
                "receive_trial_result",
                lambda: self._tuner.receive_trial_result(
                    parameter_id, parameters, value, customized=parameter_id is None, trial_job_id=trial_id
                ),
                trial_id=trial_id,
            )
        if fault is not None and self._quiet is None:
            note = f"its final result {fault}: the tuner takes it as a failed trial"
            note += f" and is given {text} for a result" if text is not None else ""
            self._channel.send(Noted(trial_id=trial_id, note=note))
        return fault is None

    def _imported(self, records: list[Any]) -> None:
        good, faults = self._results.usable(records)
        if faults and self._quiet is None:
            sentence = (
                f"{len(faults)} of {len(records)} imported results were left out: the first {faults[0]}"
            )
            self._channel.send(Failed(call="import_data", sentence=sentence, traceback=""))
        if good:
            self._try("import_data", lambda: self._tuner.import_data(good))

    def _update_space(self, space: dict[str, Any]) -> None:
        self._calls.must("update_search_space", lambda: self._tuner.update_search_space(space), hopeless=True)

    # ---- what it is asked ---------------------------------------------------------------------------------

    def _answer(self, ask: Ask, *, again: bool = False) -> None:
        """``again``: nobody has asked for more, and what was said already is not repeated."""
        self._open.update(dict.fromkeys(ask.parameter_ids, ask.trial_id))
        ids = list(ask.parameter_ids)
        if self._waits:  # what it owes first
            ids = [each for each, wanted_by in self._open.items() if wanted_by == ask.trial_id]
        batches = [ids] if self._asked_at_once else [[parameter_id] for parameter_id in ids]
        exhausted = False
        while batches and not exhausted:
            batch = batches.pop(0)
            call = "generate_multiple_parameters" if self._asked_at_once else "generate_parameters"
            exhausted = not self._calls.must(
                call,
                lambda batch=batch: self._serve(batch, ask),  # type: ignore[misc]
                meanwhile=None if self._builtin else self._meanwhile,
            )
            rest = [parameter_id for parameter_id in batch if parameter_id in self._open]
            if self._waits and 0 < len(rest) < len(batch):
                batches.append(rest)  # it waits with these, or has no more
        missing = tuple(parameter_id for parameter_id in ids if parameter_id in self._open)
        exhausted = exhausted and bool(missing)
        why = self._why_waiting() if missing and not exhausted else ""
        fed_to = max(ask.fed_to, self._fed_to)
        answer = Answered(missing=missing, exhausted=exhausted, fed_to=fed_to, why=why)
        if exhausted and self._waits:
            for parameter_id in missing:
                del self._open[parameter_id]
        if not again or replace(answer, fed_to=0) != self._owing:
            self._channel.send(answer)
        self._owing = replace(answer, fed_to=0)

    @property
    def _waits(self) -> bool:
        return bool(getattr(self._tuner, "waits", False))

    def _why_waiting(self) -> str:
        why = getattr(self._tuner, "why_waiting", None)
        said = self._calls.attempt("why_waiting", why) if callable(why) else ""
        return said if isinstance(said, str) else ""

    def _ask_again(self) -> None:
        """What a tuner that waits has left over may be there by now."""
        if not self._waits:
            return
        for trial_id in dict.fromkeys(self._open.values()):
            self._answer(Ask(parameter_ids=(), fed_to=self._fed_to, trial_id=trial_id), again=True)

    def _meanwhile(self, message: ToChild) -> bool:
        """Feed a tuner that waits for results before it gives a set; what it is asked has to wait."""
        if isinstance(message, Ask | Leave):
            return False
        self._handle(message)
        return True

    def _serve(self, ids: list[int], ask: Ask) -> bool:
        """Generate for these ids and send what there is; False if there are no more trials.

        A class that answers for many ids at once may return fewer, even none, and bring the rest later.
        """
        found, more = self._generate(ids, ask.trial_id)
        for parameter_id, parameters in found.items():
            self._suggest(parameter_id, parameters, max(ask.fed_to, self._fed_to))
        return more

    def _generate(self, ids: list[int], trial_id: str | None = None) -> tuple[dict[int, Any], bool]:
        """Parameter sets that will do, by id, as far as there are any yet; and whether there are more."""
        given = self._call(ids, trial_id)
        found = dict(zip(ids, given or (), strict=False))
        settled = self._enforcement.settle(found, lambda parameter_id: self._call([parameter_id], trial_id))
        return found, settled and given is not None

    def _call(self, ids: list[int], trial_id: str | None) -> list[Any] | None:
        """Parameter sets for the first of these ids; None: no more. A further set names its trial."""
        more = {"st_callback": self._suggest_late, **({"trial_job_id": trial_id} if trial_id else {})}
        try:
            if not self._asked_at_once:
                return [self._tuner.generate_parameters(ids[0], **more)]
            found = self._tuner.generate_multiple_parameters(ids, **more)
        except NoMoreTrialError:
            return None
        if not isinstance(found, list | tuple):
            raise TypeError(f"it must return a list of parameter sets, not {found!r:.100}")
        if len(found) > len(ids):
            raise ValueError(f"it returned {len(found)} parameter sets where {len(ids)} were asked for")
        return list(found)

    def _suggest_late(self, parameter_id: int, parameters: Any) -> None:
        """NNI's st_callback: a set for an id that an earlier call left over."""
        if parameter_id not in self._open:
            raise ValueError(f"st_callback was given parameter id {parameter_id}, for which no set is wanted")
        if (admitted := self._enforcement.admits(parameter_id, parameters)) is False:
            trial_id = self._open[parameter_id]
            self._refused[parameter_id] = Ask(
                parameter_ids=(parameter_id,), fed_to=self._fed_to, trial_id=trial_id
            )
        elif admitted:
            self._suggest(parameter_id, parameters, self._fed_to)
        else:
            self._channel.send(Answered(missing=(parameter_id,), exhausted=True, fed_to=self._fed_to))

    def _suggest(self, parameter_id: int, parameters: Any, fed_to: int) -> None:
        if parameters is None:
            raise TypeError(f"parameter set {parameter_id} is None")
        text = json_text(parameters, f"parameter set {parameter_id}")
        if is_deep(parameters):
            raise ValueError(f"parameter set {parameter_id} is nested too deeply")
        state = json_text(self._tuner.dump_state(), "what dump_state gave") if self._dumps_state else None
        if self._way is Way.IMPORT:
            self._own[parameter_id] = parameters
        trial_id = self._open.pop(parameter_id, None)
        if trial_id is not None:
            self._phases.add(trial_id, parameter_id, text)
        reuse = None if trial_id is not None else self._enforcement.result_of(text)
        self._channel.send(
            Suggestion(parameter_id=parameter_id, parameters=text, fed_to=fed_to, state=state, reuse=reuse)
        )

    # ---- calls --------------------------------------------------------------------------------------------

    def _try(self, call: str, run: Any, *, trial_id: str | None = None) -> None:
        """A call whose exception is told and changes nothing else."""
        result = self._calls.attempt(call, run, trial_id=trial_id)
        if isinstance(result, Failed):
            if self._quiet is None:
                self._channel.send(result)
            else:
                self._quiet.append(result.sentence)

    def _doom(self, sentence: str) -> None:
        self._channel.send(Failed(call="rebuild", sentence=sentence, traceback="", fatal=True, hopeless=True))
        raise Doomed


def _more(trial: TrialFinished) -> dict[str, bool]:
    """What only tuners that recall are told of an end, where it is so."""
    if not (trial.untried or trial.again):
        return {}
    return {name: True for name in ("untried", "again") if getattr(trial, name)}


def _nothing() -> None:
    pass
