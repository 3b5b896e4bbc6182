"""The experiment's tuner and assessor as the runner sees them: children, fed and asked, made anew at a crash.

A child holds nothing that must survive. It is built from the log up to a fact number, then fed what is
committed after it; the assessor is fed on arrival instead, because its opinion is no act (its verdict is a
fact that lies behind the metric in the mailbox).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nnimgr.core import facts as f
from nnimgr.core.state import ExperimentState, Touched, trial_id_of, trial_of_job
from nnimgr.dispatcher import messages as m

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


@dataclass(slots=True)
class _Asking:
    """Suggestions that were asked for and have not come."""

    ids: dict[int, None] = field(default_factory=dict)
    further: dict[int, tuple[str, int]] = field(default_factory=dict)  # id -> multi-phase trial, set number
    refused: set[int] = field(default_factory=set)  # it had none for these, but may think again
    urgent: bool = True  # a slot waits for them
    since: float | None = None
    last_answer_s: float = 0.0
    freed: int = 0  # slots that fell free during the answer under way
    last_freed: int = 0

    def next_id(self, state: ExperimentState) -> int:
        """The lowest parameter id that was never used."""
        used = max((*self.ids, *self.further, *self.refused), default=-1)
        return max(state.next_parameter_id, used + 1)


class Search:
    """Tuner and assessor of one experiment.

    ``post`` puts facts (or builders of facts) into the runner's mailbox; ``pending_metrics`` lists the
    metrics that have arrived and are not committed yet, for an assessor that is made anew.
    """

    def __init__(
        self,
        *,
        tuner: m.Start,
        assessor: m.Start | None,
        spawn: Spawn,
        post: Post,
        pending_metrics: Callable[[], Iterable[f.MetricReported]],
    ) -> None:
        self._members = {"tuner": _Member(tuner)}
        if assessor is not None:
            self._members["assessor"] = _Member(assessor)
        self._spawn, self._post, self._pending_metrics = spawn, post, pending_metrics
        self._asking = _Asking()
        self._fed_to = 0
        self._judging: list[tuple[str, int, int, int, str]] = []
        self._commits_to_catch_up = 0  # until all that the assessor was too slow for is in the database
        self._restarts: set[asyncio.Task[None]] = set()
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
        for task in self._restarts:
            task.cancel()
        children = [member.child for member in self._members.values() if member.child is not None]
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
        tuner, asking = self._members["tuner"], self._asking
        asking.urgent = urgent
        missing = count - len(asking.ids)
        if missing <= 0 or tuner.child is None:
            return
        first = asking.next_id(state)
        ids = tuple(range(first, first + missing))
        asking.ids.update(dict.fromkeys(ids))
        if asking.since is None:
            asking.since, asking.freed = asyncio.get_running_loop().time(), 0
        tuner.unanswered = True
        tuner.child.send(m.Ask(parameter_ids=ids, fed_to=self._fed_to))

    def ask_further(self, trial_id: str, index: int, state: ExperimentState) -> None:
        """See to it that parameter set number ``index`` of a multi-phase trial is on its way."""
        tuner, asking = self._members["tuner"], self._asking
        if tuner.child is None or (trial_id, index) in asking.further.values():
            return
        parameter_id = asking.next_id(state)
        asking.further[parameter_id] = (trial_id, index)
        tuner.unanswered = True
        tuner.child.send(m.Ask(parameter_ids=(parameter_id,), fed_to=self._fed_to, trial_id=trial_id))

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
                case f.ConfigChanged(search_space=space) if space is not None:
                    for member in self._members.values():
                        member.start = replace(member.start, search_space=space)
                    self._tell("tuner", m.SpaceChanged(number=number, search_space=space))
                case f.JobEnded() | f.JobLost():
                    self._asking.freed += 1
                case f.AlgorithmFailed():
                    self._failed(fact, state)
        self._fed_to = state.number
        self._catch_up()

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
            stand_in=fact.stand_in,
            untried=fact.untried,
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
                    f.Verdict(trial_id=message.trial_id, attempt=message.attempt, position=message.position)
                )
            case m.Failed():
                member.reported = message.fatal or message.hopeless
                self._post(
                    f.AlgorithmFailed(
                        role=role,
                        call=message.call,
                        sentence=message.sentence,
                        traceback=message.traceback,
                        fatal=message.fatal,
                        hopeless=message.hopeless,
                        trial_id=message.trial_id,
                    )
                )
            case m.Noted():
                self._post(f.TrialNoted(trial_id=message.trial_id, note=message.note))
            case m.Busy():
                sentence = f"the {role}'s {message.call} has been running for {message.seconds:.0f} s"
                self.notices[role] = Notice(sentence=sentence, detail=message.stack)
            case m.Idle():
                self.notices.pop(role, None)
            case m.Ready():
                member.ready, member.learns = True, message.learns
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
            self._post(_bind(asking, message.parameter_id, message))
            return
        if message.parameter_id not in asking.ids and message.parameter_id not in asking.refused:
            logger.warning("suggestion %d was not asked for", message.parameter_id)
            return

        self.notices.pop("tuner owes", None)

        def build(state: ExperimentState) -> Sequence[f.Fact]:
            # Outstanding until the turn that takes it, or the plan would ask for another in its place.
            asking.ids.pop(message.parameter_id, None)
            asking.refused.discard(message.parameter_id)
            return (
                f.Suggested(
                    trial_id=trial_id_of(state.id, state.next_sequence),
                    sequence=state.next_sequence,
                    source=f.SuggestionSource.ALGORITHM,
                    parameter_id=message.parameter_id,
                    parameters=message.parameters,
                    fed_to=message.fed_to,
                    tuner_state=message.state,
                ),
            )

        self._post(build, urgent=asking.urgent)

    def _answered(self, message: m.Answered) -> None:
        asking = self._asking
        if asking.since is not None:
            now = asyncio.get_running_loop().time()
            asking.last_answer_s, asking.since = now - asking.since, None
            asking.last_freed, asking.freed = asking.freed, 0
        if message.missing and not message.exhausted:
            number = len(message.missing)
            sentence = f"the tuner owes {number} parameter sets: it may bring them by st_callback"
            self.notices["tuner owes"] = Notice(sentence=sentence)
        if message.exhausted:
            for parameter_id in message.missing:
                if parameter_id in asking.further:
                    self._post(_bind(asking, parameter_id, None))
                asking.ids.pop(parameter_id, None)
                asking.refused.add(parameter_id)
            self._post(_exhausted(message.fed_to))

    # ---- life and death -----------------------------------------------------------------------------------

    async def _begin(self, role: str) -> None:
        member = self._members[role]
        member.generation += 1
        member.reported = member.ready = member.answered = member.unanswered = False
        generation = member.generation
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
            self._asking = _Asking(last_answer_s=self._asking.last_answer_s)
        if member.reported:
            self._post(_nothing)
        else:
            idle = member.ready and not member.unanswered
            self._post(f.AlgorithmFailed(role=role, call="process", sentence=sentence, fatal=True, idle=idle))

    def _failed(self, fact: f.AlgorithmFailed, state: ExperimentState) -> None:
        if not fact.fatal or state.failed is not None or self._closed:
            return
        member, (first, longest) = self._members[fact.role], RESTART_DELAYS_S
        delay = min(first * 2**member.deaths, longest)
        member.deaths += 1
        task = asyncio.get_running_loop().create_task(
            self._restart(fact.role, delay), name=f"{state.id}:restart-{fact.role}"
        )
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _restart(self, role: str, delay: float) -> None:
        await asyncio.sleep(delay)  # back-off
        old = self._members[role].child
        if old is not None:
            self._members[role].generation += 1
            self._members[role].child = None
            await old.close()
        await self._begin(role)
        self._post(_nothing)


def _nothing(state: ExperimentState) -> Sequence[f.Fact]:
    """Makes the runner plan again."""
    return ()


def _exhausted(fed_to: int) -> Builder:
    """The tuner has no more, unless it said so before it knew of the search space that holds now."""
    return lambda state: () if fed_to < state.space_number else (f.TunerExhausted(),)


def _bind(asking: _Asking, parameter_id: int, given: m.Suggestion | None) -> Builder:
    """A further parameter set for the trial that it was asked for; None: the tuner has no more."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        # Outstanding until the turn that takes it, or the plan would ask for it again.
        trial_id, index = asking.further.pop(parameter_id)
        trial = state.trials.get(trial_id)
        late = trial is None or index != len(trial.sets)
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


def _result(number: int, fact: f.ResultTaken) -> m.ResultReported:
    return m.ResultReported(
        number=number,
        trial_id=fact.trial_id,
        parameter_id=fact.parameter_id,
        parameters=fact.parameters,
        text=fact.text,
    )
