"""The experiment's tuner and assessor as the runner sees them: children, fed and asked, made anew at a crash.

A child holds nothing that must survive. It is built from the log up to a fact number, then fed what is
committed after it; the assessor is fed on arrival instead, because its opinion is no act (its verdict is a
fact that lies behind the metric in the mailbox).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nnimgr.core.running.parameter_requests import Asking, bind, exhausted, suggest
from nnimgr.core.running.resting import RestTimer
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.history import constraints_of
from nnimgr.dispatcher.registry import is_builtin
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, Touched, trial_of_job

logger = logging.getLogger(__name__)

SLOW_ANSWER_S = 0.02  # a tuner slower than this is asked ahead
RESTART_DELAYS_S = (0.1, 30.0)  # first and longest pause before a child is made anew
SILENT_AFTER_S = 5.0  # a child whose call takes long says so itself long before
PROOF_OF_LIFE_S = 1.0  # a child with nothing to answer has recovered when it has lived so long

Builder = Callable[[ExperimentState], Sequence[f.Fact]]
Item = f.Fact | Builder


class Child(Protocol):
    """A dispatcher child (``nnimgr.dispatcher.process.DispatcherChild``); keeps lines sent before it runs."""

    async def start(self) -> None: ...
    def send(self, message: m.ToChild) -> bool: ...
    def catch_up(self, number: int) -> bool: ...
    async def close(self) -> None: ...


class Post(Protocol):
    """Puts something into the runner's mailbox; what is not urgent waits a little for company."""

    def __call__(self, item: Item, *, urgent: bool = True) -> None: ...


Spawn = Callable[[m.Start, Callable[[m.FromChild], None], Callable[[str], None]], Child]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that is so at present and is not stored: one sentence, and a stack where there is one."""

    sentence: str
    detail: str = ""


@dataclass(slots=True)
class _Member:
    """One role and the child that plays it now."""

    start: m.Start
    child: Child | None = None
    generation: int = 0
    reported: bool = False  # the child has said itself why it dies
    ready: bool = False
    answered: bool = False  # since it began
    unanswered: bool = False  # it was asked something and has not answered
    deaths: int = 0  # in a row, none of them after a proof of life
    learns: bool = True


class Search:
    """Tuner and assessor of one experiment.

    ``post`` puts facts (or builders of facts) into the runner's mailbox; ``pending_metrics`` lists the
    metrics that have arrived and are not committed yet, for an assessor that is made anew. ``new_tuner``
    gives the start of a tuner that a user has put in place of ``tuner``; it may raise ValueError or OSError.
    """

    def __init__(
        self,
        *,
        tuner: m.Start,
        new_tuner: Callable[[ExperimentState], m.Start],
        assessor: m.Start | None,
        spawn: Spawn,
        post: Post,
        pending_metrics: Callable[[], Iterable[f.MetricReported]],
    ) -> None:
        self._members = {"tuner": _Member(tuner)}
        if assessor is not None:
            self._members["assessor"] = _Member(assessor)
        self._spawn, self._post, self._pending_metrics = spawn, post, pending_metrics
        self._new_tuner = new_tuner
        self._asking = Asking()
        self._rest_timer = RestTimer(idle=lambda: self._asking.idle, rest=self._rest)
        self._resting = False  # the tuner has no process until something is asked of it
        self._fed_to = 0
        self._judging: list[tuple[str, int, int, int, str]] = []
        self._commits_to_catch_up = 0  # until all that the assessor was too slow for is in the database
        self._restarts: set[asyncio.Task[None]] = set()
        self._leaving: list[Child] = []
        self._closed = False
        self.notices: dict[str, Notice] = {}

    @property
    def judges(self) -> bool:
        return "assessor" in self._members

    @property
    def outstanding(self) -> int:
        return len(self._asking.ids)

    @property
    def all_notices(self) -> dict[str, Notice]:
        """``notices``, and a tuner that cannot say itself that it hangs: stopped, say, or in native code."""
        since, tuner = self._asking.since, self._members["tuner"]
        if since is None or tuner.child is None or "tuner" in self.notices:
            return self.notices
        seconds = asyncio.get_running_loop().time() - since
        if seconds < SILENT_AFTER_S:
            return self.notices
        sentence = f"the tuner was asked for parameter sets {seconds:.0f} s ago and has not answered"
        return self.notices | {"tuner": Notice(sentence=sentence)}

    async def open(self, state: ExperimentState) -> None:
        """Start the children, built from everything committed so far."""
        self._fed_to = state.number
        await asyncio.gather(*(self._begin(role) for role in self._members))

    async def close(self) -> None:
        self._closed = True
        self._rest_timer.stop()
        for task in self._restarts:
            task.cancel()
        children = [member.child for member in self._members.values() if member.child is not None]
        children += self._leaving
        for member in self._members.values():
            member.child = None
        await asyncio.gather(*(child.close() for child in children))

    def ahead(self, limits: f.Limits) -> int:
        """How many suggestions to hold ready beyond the free slots."""
        if limits.suggestions_ahead is not None:
            return limits.suggestions_ahead
        if not self._members["tuner"].learns:
            return limits.trial_concurrency
        if self._asking.last_answer_s <= SLOW_ANSWER_S:
            return 0
        return min(self._asking.last_freed, limits.trial_concurrency)

    # ---- to the children ----------------------------------------------------------------------------------

    def ask(self, count: int, state: ExperimentState, *, urgent: bool) -> None:
        """See to it that ``count`` suggestions are on their way in all; ``urgent``: a slot waits for them."""
        asking = self._asking
        asking.urgent = urgent
        missing = count - len(asking.ids)
        if missing <= 0 or not self._has_tuner():
            return
        first = asking.next_id(state)
        ids = tuple(range(first, first + missing))
        asking.ids.update(dict.fromkeys(ids))
        if asking.since is None:
            asking.since, asking.freed = asyncio.get_running_loop().time(), 0
        self._ask(m.Ask(parameter_ids=ids, fed_to=self._fed_to))

    def ask_further(self, trial_id: str, index: int, state: ExperimentState) -> None:
        """See to it that parameter set number ``index`` of a multi-phase trial is on its way."""
        asking = self._asking
        if (trial_id, index) in asking.further.values() or not self._has_tuner():
            return
        parameter_id = asking.next_id(state)
        asking.further[parameter_id] = (trial_id, index)
        self._ask(m.Ask(parameter_ids=(parameter_id,), fed_to=self._fed_to, trial_id=trial_id))

    def _has_tuner(self) -> bool:
        """Check whether the tuner has a process. Start one if it rests; the runner plans again then."""
        if self._resting:
            self._resting = False
            self._later(self._follow("tuner", None), "wake-tuner")
        return self._members["tuner"].child is not None

    def _ask(self, ask: m.Ask) -> None:
        tuner = self._members["tuner"]
        assert tuner.child is not None
        tuner.unanswered = True
        tuner.child.send(ask)
        self._rest_timer.used()

    def judge(self, metric: f.MetricReported) -> None:
        """Feed a metric that has just arrived to the assessor; it leaves with the next ``flush``."""
        if metric.type == "PERIODICAL":
            trial_id, attempt = trial_of_job(metric.job_id)
            self._judging.append((trial_id, attempt, metric.position, metric.sequence, metric.text))

    def flush(self) -> None:
        if not self._judging:
            return
        items, self._judging = tuple(self._judging), []
        member = self._members["assessor"]
        if member.child is None:
            return
        member.unanswered = not member.answered  # good opinions are told once only
        if not member.child.send(m.Metrics(items=items)):
            self._commits_to_catch_up = 2  # the commit under way may have been begun without them

    def committed(self, turn: Sequence[f.Recorded], touched: Touched, state: ExperimentState) -> None:
        """Feed what is durable now, and make anew the children whose death is."""
        for number, _, fact in turn:
            match fact:
                case f.TrialEnded():
                    self._trial_ended(number, fact, touched)
                case f.ResultTaken():
                    self._tell("tuner", _result(number, fact))
                case f.FurtherSuggested(late=True, parameter_id=int(parameter_id), parameters=str(text)):
                    gone = m.SetDiscarded(
                        number=number, trial_id=fact.trial_id, parameter_id=parameter_id, parameters=text
                    )
                    self._tell("tuner", gone)
                case f.DataImported():
                    self._tell("tuner", m.Imported(number=number, records=fact.records))
                case f.Suggested(source=f.SuggestionSource.CUSTOMIZED, parameters=tried):
                    if self._members["tuner"].start.duplicates == "skip":
                        self._tell("tuner", m.SetTried(number=number, parameters=tried))
                case f.ConfigChanged():
                    self._config_changed(number, fact, state)
                case f.JobEnded() | f.JobLost():
                    self._asking.freed += 1
                case f.AlgorithmFailed():
                    self._failed(fact, state)
        self._fed_to = state.number
        self._catch_up()

    def _config_changed(self, number: int, fact: f.ConfigChanged, state: ExperimentState) -> None:
        if "tuner" in fact.changes:
            self._replace_tuner(state)
        if (space := fact.search_space) is not None:
            constraints = constraints_of(fact.changes)
            for member in self._members.values():
                kept = member.start.constraints if constraints is None else constraints
                member.start = replace(member.start, search_space=space, constraints=kept)
            changed = m.SpaceChanged(number=number, search_space=space, constraints=constraints)
            self._tell("tuner", changed)

    def _catch_up(self) -> None:
        if self._commits_to_catch_up == 0:
            return
        self._commits_to_catch_up -= 1
        child = self._members["assessor"].child
        if self._commits_to_catch_up == 0 and child is not None and not child.catch_up(self._fed_to):
            self._commits_to_catch_up = 1

    def _trial_ended(self, number: int, fact: f.TrialEnded, touched: Touched) -> None:
        trial = touched.trials[fact.trial_id]
        customised = trial.source is f.SuggestionSource.CUSTOMIZED
        message = m.TrialFinished(
            number=number,
            trial_id=trial.id,
            parameter_id=None if customised else trial.parameter_id,
            parameters=trial.parameters,
            text=trial.final_text,
            success=fact.status is f.TrialStatus.SUCCEEDED,
            value=trial.final_value,
            stand_in=fact.stand_in,
            untried=fact.untried,
            again=m.runs_again(fact.status, untried=fact.untried, customised=customised),
        )
        for role in self._members:
            self._tell(role, message)

    def _tell(self, role: str, message: m.ToChild) -> None:
        child = self._members[role].child
        if child is not None:
            child.send(message)

    # ---- from the children --------------------------------------------------------------------------------

    def _received(self, role: str, generation: int, message: m.FromChild) -> None:
        member = self._members[role]
        if generation != member.generation or self._closed:
            return
        match message:
            case m.Suggestion():
                self._suggested(message)
            case m.Answered():
                if not member.answered:
                    self._post(f.AlgorithmRecovered(role=role))
                member.answered, member.unanswered = True, False
                if role == "tuner":
                    self._answered(message)
            case m.Judged():
                self._post(
                    f.Verdict(
                        trial_id=message.trial_id,
                        attempt=message.attempt,
                        position=message.position,
                        reason=message.reason,
                        rung=message.rung,
                        better=message.better,
                    )
                )
            case m.Failed():
                member.reported = message.fatal or message.hopeless
                failure = f.AlgorithmFailed(
                    role=role,
                    call=message.call,
                    sentence=message.sentence,
                    traceback=message.traceback,
                    fatal=message.fatal,
                    hopeless=message.hopeless,
                    trial_id=message.trial_id,
                )
                self._post(_of_now(member, failure))
            case m.Noted():
                self._post(f.TrialNoted(trial_id=message.trial_id, note=message.note))
            case m.Busy():
                sentence = f"the {role}'s {message.call} has been running for {message.seconds:.0f} s"
                self.notices[role] = Notice(sentence=sentence, detail=message.stack)
            case m.Idle():
                self.notices.pop(role, None)
            case m.Ready():
                member.ready, member.learns = True, message.learns
                if role == "tuner" and member.start.name is not None and is_builtin(role, member.start.name):
                    self._rest_timer.ready()
                if message.note:
                    self.notices[f"{role} rebuilt"] = Notice(sentence=message.note)
                self._post(_nothing)
                loop = asyncio.get_running_loop()
                loop.call_later(PROOF_OF_LIFE_S, self._lived, role, generation)

    def _lived(self, role: str, generation: int) -> None:
        member = self._members[role]
        alive = generation == member.generation and member.child is not None
        if alive and not member.unanswered and not self._closed:
            member.deaths = 0
            self._post(f.AlgorithmRecovered(role=role))

    def _suggested(self, message: m.Suggestion) -> None:
        asking = self._asking
        if message.parameter_id in asking.further:
            self._post(bind(asking, message.parameter_id, message, fed_to=message.fed_to))
            return
        if message.parameter_id not in asking.ids and message.parameter_id not in asking.refused:
            logger.warning("suggestion %d was not asked for", message.parameter_id)
            return
        self.notices.pop("tuner owes", None)
        self._post(suggest(asking, message), urgent=asking.urgent)

    def _answered(self, message: m.Answered) -> None:
        asking = self._asking
        if asking.since is not None:
            now = asyncio.get_running_loop().time()
            asking.last_answer_s, asking.since = now - asking.since, None
            asking.last_freed, asking.freed = asking.freed, 0
        self.notices.pop("tuner owes", None)
        if message.missing and not message.exhausted:
            number = len(message.missing)
            owed = "a parameter set" if number == 1 else f"{number} parameter sets"
            why = message.why or "it may bring them by st_callback"
            self.notices["tuner owes"] = Notice(sentence=f"the tuner owes {owed}: {why}")
        if message.exhausted:
            for parameter_id in message.missing:
                if parameter_id in asking.further:
                    self._post(bind(asking, parameter_id, None, fed_to=message.fed_to))
                asking.ids.pop(parameter_id, None)
                asking.refused.add(parameter_id)
            self._post(exhausted(message.fed_to))

    # ---- life and death -----------------------------------------------------------------------------------

    async def _begin(self, role: str) -> None:
        member = self._members[role]
        member.generation += 1
        member.reported = member.ready = member.answered = member.unanswered = False
        generation = member.generation
        if role == "tuner":
            self._rest_timer.began()
        member.child = self._spawn(
            replace(member.start, rebuild_to=self._fed_to),
            lambda message: self._received(role, generation, message),
            lambda sentence: self._exited(role, generation, sentence),
        )
        if role == "assessor":
            self._judging = []
            for metric in self._pending_metrics():
                self.judge(metric)
            self.flush()
        await member.child.start()

    def _exited(self, role: str, generation: int, sentence: str) -> None:
        member = self._members[role]
        if generation != member.generation or self._closed:
            return
        member.child = None
        self.notices.pop(role, None)
        if role == "tuner":
            self._rest_timer.stop()
            self._asking = Asking(last_answer_s=self._asking.last_answer_s)
        if member.reported:
            self._post(_nothing)
        else:
            idle = member.ready and not member.unanswered
            failure = f.AlgorithmFailed(role=role, call="process", sentence=sentence, fatal=True, idle=idle)
            self._post(_of_now(member, failure))

    def _failed(self, fact: f.AlgorithmFailed, state: ExperimentState) -> None:
        if not fact.fatal or state.failed is not None or self._closed:
            return
        member, (first, longest) = self._members[fact.role], RESTART_DELAYS_S
        delay = min(first * 2**member.deaths, longest)
        member.deaths += 1
        self._later(self._restart(fact.role, delay), f"{state.id}:restart-{fact.role}")

    async def _restart(self, role: str, delay: float) -> None:
        member = self._members[role]
        generation = member.generation
        await asyncio.sleep(delay)  # back-off
        if member.generation == generation:  # else it was replaced meanwhile
            await self._follow(role, self._dismiss(role))

    def _replace_tuner(self, state: ExperimentState) -> None:
        """A user has chosen another tuner. The old one is not heard any more, and leaves before it comes."""
        tuner, old = self._members["tuner"], self._dismiss("tuner")
        tuner.deaths = 0
        self._asking.last_answer_s = 0.0
        for about in ("tuner", "tuner owes", "tuner rebuilt"):
            self.notices.pop(about, None)
        try:
            tuner.start = self._new_tuner(state)
        except (ValueError, OSError) as error:  # a secret that is not there any more, say
            sentence = f"the new tuner cannot be started: {error}"
            self._post(f.AlgorithmFailed(role="tuner", call="start", sentence=sentence, hopeless=True))
        else:
            self._later(self._follow("tuner", old), f"{state.id}:replace-tuner")

    def _dismiss(self, role: str) -> Child | None:
        """Neither hear nor ask the child of now, which is returned, any more."""
        member = self._members[role]
        old, member.child = member.child, None
        member.generation += 1
        if role == "tuner":
            self._rest_timer.stop()
            self._resting = False
            self._asking = Asking(last_answer_s=self._asking.last_answer_s)
        return old

    def _rest(self) -> None:
        """End the tuner's process until something is asked of it."""
        old = self._dismiss("tuner")
        self._resting = True
        self._later(self._see_off(old), "rest-tuner")

    async def _see_off(self, old: Child | None) -> None:
        if old is not None:
            self._leaving.append(old)
            await old.close()
            self._leaving.remove(old)

    async def _follow(self, role: str, old: Child | None) -> None:
        """Begin a new child once the old one has left, unless another one is to follow by then."""
        generation = self._members[role].generation
        await self._see_off(old)
        if self._members[role].generation == generation and not self._closed:
            await self._begin(role)
            self._post(_nothing)

    def _later(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)


def _of_now(member: _Member, fact: f.Fact) -> Builder:
    """What a child has said; nothing if it was the tuner's, which was replaced meanwhile."""
    since, role = member.start.since, member.start.role
    return lambda state: () if role == "tuner" and since < state.tuner_number else (fact,)


def _nothing(state: ExperimentState) -> Sequence[f.Fact]:
    """Makes the runner plan again."""
    return ()


def _result(number: int, fact: f.ResultTaken) -> m.ResultReported:
    return m.ResultReported(
        number=number,
        trial_id=fact.trial_id,
        parameter_id=fact.parameter_id,
        parameters=fact.parameters,
        text=fact.text,
    )
