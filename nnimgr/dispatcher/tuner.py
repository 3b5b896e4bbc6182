"""Child process that hosts a tuner: constructs it, restores its state, passes events to it, and asks it
for parameter sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

from nnimgr.algorithm import NoMoreTrialError, Past
from nnimgr.dispatcher.abilities import Abilities
from nnimgr.dispatcher.calls import Calls
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.enforcement import Enforcement
from nnimgr.dispatcher.history import Event, History, PastSuggestion, Reported
from nnimgr.dispatcher.messages import (
    Answered,
    Ask,
    CatchUp,
    Failed,
    Imported,
    Judged,
    Leave,
    Metrics,
    Ready,
    ResultReported,
    RolledBack,
    SetDiscarded,
    SetTried,
    SpaceChanged,
    Start,
    Suggestion,
    ToChild,
    TrialFinished,
)
from nnimgr.dispatcher.multi_phase import FurtherSets
from nnimgr.dispatcher.rebuilding import Rebuild
from nnimgr.dispatcher.results import Results
from nnimgr.dispatcher.serialization import is_deep, json_text
from nnimgr.dispatcher.tuner_feed import TunerFeed

__all__ = ["TunerHost"]


class TunerHost:
    """Host of one tuner in its child process.

    Call ``build`` first, then ``handle`` for each message of the server, and ``leave`` at the end. ``calls``:
    object that calls the tuner's methods; None: create the object.
    """

    def __init__(self, channel: Channel, start: Start, calls: Calls | None = None) -> None:
        self._channel, self._start = channel, start
        self._calls = Calls(channel, "tuner") if calls is None else calls
        self._tuner: Any = None
        # ids for which the tuner still owes a set -> trial, if the set is a further set of a multi-phase
        # trial
        self._open: dict[int, str | None] = {}
        self._phases = FurtherSets()
        # Requests to send to the tuner again, by parameter id: the tuner has sent an unacceptable set for the
        # id through st_callback (NNI's function for sets that are sent later).
        self._refused: dict[int, Ask] = {}
        self._owing: Answered | None = None  # last message Answered that was sent

    def build(self) -> None:
        """Construct the tuner, restore its state, then send Ready. Raise Doomed if this process must end."""
        self._tuner, self._builtin = self._calls.build(self._start)
        if hasattr(self._tuner, "handle_request_trial_jobs"):
            self._tuner = self._host_advisor(self._tuner)
        self._abilities = Abilities.of(self._tuner)
        set_objectives = self._abilities.set_objectives
        if self._start.objectives and set_objectives is not None:
            objectives = dict(self._start.objectives)
            self._calls.must("set_objectives", lambda: set_objectives(objectives), hopeless=True)
        self._enforcement = self._enforce()
        self._feed = TunerFeed(
            self._tuner,
            self._abilities,
            self._calls,
            results=Results(self._start.objectives, builtin=self._builtin),
            enforcement=self._enforcement,
            phases=self._phases,
            open_history=self._open_history,
        )
        note = Rebuild(self._start, self._feed, self._generate).run()
        wants_metrics = self._abilities.wants_metrics
        self._channel.send(Ready(learns=self._abilities.learns, note=note, wants_metrics=wants_metrics))

    def handle(self, message: ToChild) -> None:
        """Call the methods of the tuner that a message of the server requires. Raise Doomed if this process
        must end.
        """
        self._handle(message)
        while self._refused:
            self._answer(self._refused.pop(next(iter(self._refused))))

    def _handle(self, message: ToChild) -> None:
        match message:
            case Ask():
                self._answer(message)
            case (
                TrialFinished()
                | ResultReported()
                | SetDiscarded()
                | SetTried()
                | Imported()
                | SpaceChanged()
                | RolledBack()
            ):
                self._feed.tell(message)
                self._ask_again()
            case Metrics(items=items, numbers=numbers) if self._abilities.wants_metrics:
                for number, metric in zip(numbers, items, strict=True):
                    self._feed.tell(Reported(number, metric))
                self._ask_again()
            case CatchUp(number=number):
                self._catch_up(number)
                self._ask_again()
            case _:
                pass

    def leave(self) -> None:
        self._calls.report("_on_exit", getattr(self._tuner, "_on_exit", _nothing))

    def fail(self) -> None:
        """Call the tuner's ``_on_error``, because its exception is about to end the process."""
        self._calls.attempt("_on_error", getattr(self._tuner, "_on_error", _nothing))

    def _host_advisor(self, advisor: Any) -> Any:
        """Wrap a user's own advisor, so that it can be used as a tuner."""
        from nnimgr.dispatcher.advisor import AdvisorTuner  # costs time at the start of every child

        def stop(trial_id: str) -> None:
            attempt, position = self._feed.intermediates.last_metric(trial_id)
            self._channel.send(Judged(trial_id=trial_id, attempt=attempt, position=position))

        return AdvisorTuner(advisor, stop=stop)

    def _enforce(self) -> Enforcement:
        """Build the check of parameter sets.

        Pass the constraints and the policy for duplicates to a tuner with ``obey``, before any other call.
        """
        obey = self._abilities.obey

        def complain(sentence: str) -> None:
            if not self._calls.collecting:
                self._channel.send(Failed(call="generate_parameters", sentence=sentence, traceback=""))

        found = self._calls.must(
            "constraints",
            lambda: Enforcement(
                self._start.constraints, self._start.duplicates, obeyed=obey is not None, complain=complain
            ),
            hopeless=True,
        )
        if obey is not None:
            self._calls.must("obey", lambda: obey(found.rules), hopeless=True)
        return found

    def _open_history(self) -> History:
        return History(self._start.database, self._start.experiment_id)

    def _catch_up(self, number: int) -> None:
        """Read the events after the last fact that the tuner knows, up to fact ``number``, from the database,
        and pass them to the tuner.
        """
        after = self._feed.fed_to
        if number <= after:
            return
        past = Past.ALL if self._abilities.wants_metrics else Past.ALL & ~Past.INTERMEDIATES
        with closing(self._open_history()) as history, self._feed.intermediates.reading(history):
            events: Iterable[Event] = history.events(after=after, up_to=number, past=past)
            if self._abilities.wants_metrics:
                events = history.with_metrics(events, after=after, up_to=number)
            for event in events:
                if not isinstance(event, PastSuggestion):
                    self._feed.tell(event)

    # ---- parameter sets -----------------------------------------------------------------------------------

    def _answer(self, ask: Ask, *, again: bool = False) -> None:
        """Ask the tuner for parameter sets and send them to the server, then the message Answered.

        ``again``: repeat earlier requests, without a new request of the server. The message Answered is then
        sent only if it differs from the last one.
        """
        self._open.update(dict.fromkeys(ask.parameter_ids, ask.trial_id))
        ids = list(ask.parameter_ids)
        if self._abilities.waits:  # the ids of earlier requests are served first
            ids = [each for each, wanted_by in self._open.items() if wanted_by == ask.trial_id]
        batches = [ids] if self._abilities.suggests_many else [[parameter_id] for parameter_id in ids]
        exhausted = False
        while batches and not exhausted:
            batch = batches.pop(0)
            call = "generate_multiple_parameters" if self._abilities.suggests_many else "generate_parameters"
            exhausted = not self._calls.must(
                call,
                lambda batch=batch: self._serve(batch, ask),  # type: ignore[misc]
                meanwhile=None if self._builtin else self._meanwhile,
            )
            rest = [parameter_id for parameter_id in batch if parameter_id in self._open]
            if self._abilities.waits and 0 < len(rest) < len(batch):
                batches.append(rest)  # the tuner waits for results, or has no more sets
        missing = tuple(parameter_id for parameter_id in ids if parameter_id in self._open)
        exhausted = exhausted and bool(missing)
        why = self._why_waiting() if missing and not exhausted else ""
        fed_to = max(ask.fed_to, self._feed.fed_to)
        answer = Answered(missing=missing, exhausted=exhausted, fed_to=fed_to, why=why)
        if exhausted and self._abilities.waits:
            for parameter_id in missing:
                del self._open[parameter_id]
        if not again or replace(answer, fed_to=0) != self._owing:
            self._channel.send(answer)
        self._owing = replace(answer, fed_to=0)

    def _why_waiting(self) -> str:
        why = self._abilities.why_waiting
        said = self._calls.attempt("why_waiting", why) if why is not None else ""
        return said if isinstance(said, str) else ""

    def _ask_again(self) -> None:
        """If the tuner was waiting for results, ask it again, because its missing sets may be ready now."""
        if not self._abilities.waits:
            return
        for trial_id in dict.fromkeys(self._open.values()):
            self._answer(Ask(parameter_ids=(), fed_to=self._feed.fed_to, trial_id=trial_id), again=True)

    def _meanwhile(self, message: ToChild) -> bool:
        """Process a message while a user's tuner waits for results inside a call.

        Return False for a request (Ask or Leave), which is processed after the call.
        """
        if isinstance(message, Ask | Leave):
            return False
        self._handle(message)
        return True

    def _serve(self, ids: list[int], ask: Ask) -> bool:
        """Generate parameter sets for these ids, and send the sets that are ready to the server.

        Return False if the tuner has no more sets.

        A tuner that generates sets for many ids at once may return fewer sets, even none, and send the others
        later.
        """
        found, more = self._generate(ids, ask.trial_id)
        for parameter_id, parameters in found.items():
            self._suggest(parameter_id, parameters, max(ask.fed_to, self._feed.fed_to))
        return more

    def _generate(self, ids: list[int], trial_id: str | None = None) -> tuple[dict[int, Any], bool]:
        """Ask the tuner for parameter sets, until the sets obey the experiment's constraints and policy for
        duplicates.

        Return the sets that are ready, by id, and whether the tuner has more sets.
        """
        given = self._call(ids, trial_id)
        found = dict(zip(ids, given or (), strict=False))
        settled = self._enforcement.settle(found, lambda parameter_id: self._call([parameter_id], trial_id))
        return found, settled and given is not None

    def _call(self, ids: list[int], trial_id: str | None) -> list[Any] | None:
        """Call the tuner and return its sets, for the first ids in the list; None if it has no more sets.

        ``trial_id``: multi-phase trial for which a further set is requested; None for a new trial.
        """
        more = {"st_callback": self._suggest_late, **({"trial_job_id": trial_id} if trial_id else {})}
        try:
            if not self._abilities.suggests_many:
                return [self._tuner.generate_parameters(ids[0], **more)]
            found = self._tuner.generate_multiple_parameters(ids, **more)
        except NoMoreTrialError:
            return None
        if not isinstance(found, list | tuple):
            raise TypeError(f"the result must be a list of parameter sets, not {found!r:.100}")
        if len(found) > len(ids):
            raise ValueError(f"the tuner returned {len(found)} parameter sets, but {len(ids)} were requested")
        return list(found)

    def _suggest_late(self, parameter_id: int, parameters: Any) -> None:
        """Process a parameter set that the tuner sends later, for an id that an earlier call left open.

        The tuner calls this function under NNI's name ``st_callback``.
        """
        if parameter_id not in self._open:
            raise ValueError(
                f"the tuner called st_callback for parameter id {parameter_id}, for which no set is requested"
            )
        if (admitted := self._enforcement.admits(parameter_id, parameters)) is False:
            trial_id = self._open[parameter_id]
            self._refused[parameter_id] = Ask(
                parameter_ids=(parameter_id,), fed_to=self._feed.fed_to, trial_id=trial_id
            )
        elif admitted:
            self._suggest(parameter_id, parameters, self._feed.fed_to)
        else:
            self._channel.send(Answered(missing=(parameter_id,), exhausted=True, fed_to=self._feed.fed_to))

    def _suggest(self, parameter_id: int, parameters: Any, fed_to: int) -> None:
        if parameters is None:
            raise TypeError(f"parameter set {parameter_id} is None")
        text = json_text(parameters, f"parameter set {parameter_id}")
        if is_deep(parameters):
            raise ValueError(f"parameter set {parameter_id} is nested too deeply")
        state = self._dumped() if self._abilities.dumps_state else None
        self._feed.suggested(parameter_id, parameters)
        trial_id = self._open.pop(parameter_id, None)
        if trial_id is not None:
            self._phases.add(trial_id, parameter_id, text)
        reuse = None if trial_id is not None else self._enforcement.result_of(text)
        self._channel.send(
            Suggestion(parameter_id=parameter_id, parameters=text, fed_to=fed_to, state=state, reuse=reuse)
        )

    def _dumped(self) -> str:
        """Return the tuner's state as JSON. Raise Doomed if the tuner cannot say it, because without a state
        it would give the same sets again after a restart.
        """
        return self._calls.must(
            "dump_state", lambda: json_text(self._tuner.dump_state(), "the result of dump_state")
        )


def _nothing() -> None:
    pass
