"""A scheduler in its process: the calls it gets, what becomes of its decisions, and its rebuild."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.scheduler import Continue, Decisions, Exploit, Pause, Scheduler, Stop, Trial
from nnimgr.testing.population import HostedScheduler
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.past import Past

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}

ABOVE = """
    from nnimgr.scheduler import Pause, Scheduler

    class Mine(Scheduler):
        def __init__(self, limit=1):
            self.limit = limit

        def result_reported(self, trial):
            print("result", trial.id, trial.results, trial.numbers)
            if trial.results[-1] == "raise":
                raise ValueError("what is that?")
            if trial.numbers[-1] is not None and trial.numbers[-1] > self.limit:
                return Pause(trial, f"above {self.limit}", rung=trial.reports, better=["x"] * 9)
"""


def created(number: int, trial_id: str, **parameters: Any) -> m.TrialCreated:
    return m.TrialCreated(number=number, trial_id=trial_id, parameters=json.dumps(parameters))


def reports(first: int, trial_id: str, *values: Any) -> m.Metrics:
    """Return the message about results, whose facts are numbered from ``first``."""
    items = tuple((trial_id, 1, at, at, json.dumps(value)) for at, value in enumerate(values))
    return m.Metrics(items=items, numbers=tuple(range(first, first + len(values))))


def ended(number: int, trial_id: str) -> m.TrialFinished:
    fields: dict[str, Any] = {"parameter_id": None, "parameters": "{}", "text": None, "success": False}
    return m.TrialFinished(number=number, trial_id=trial_id, status="FAILED", **fields)


class Saying(Scheduler):
    """Scheduler that makes the decisions that a test has prepared, and keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answer: Any = None

    def result_reported(self, trial: Trial) -> Decisions:
        answer = self.answer
        return answer(trial) if callable(answer) else answer  # type: ignore[no-any-return]

    def decision_refused(self, decision: Any, reason: str) -> None:
        self.calls.append(f"refused {type(decision).__name__} of {decision.trial.id}: {reason}")

    def leg_began(self, trial: Trial) -> None:
        self.calls.append(f"leg {trial.leg} of {trial.id}: {trial.parameters} {trial.results}")

    def all_paused(self) -> Decisions:
        self.calls.append("all paused")
        return self.answer if isinstance(self.answer, Continue) else None


class Stage:
    """Host of a scheduler that makes prepared decisions."""

    def __init__(self, *, constraints: tuple[str, ...] = ()) -> None:
        self.scheduler = Saying()
        self.hosted = HostedScheduler(lambda: self.scheduler, Path("none"), SPACE, builtin=False)
        self.number = 0
        for trial_id in ("a", "b"):
            self.tell(m.TrialCreated, trial_id=trial_id, parameters='{"x": 1}')
        if constraints:
            self.tell(m.SpaceChanged, search_space=SPACE, constraints=constraints)

    @property
    def trials(self) -> dict[str, Trial]:
        return self.scheduler.experiment.trials

    def tell(self, kind: Any, /, **fields: Any) -> list[m.Decided]:
        before, self.number = len(self.hosted.decided), self.number + 1
        self.hosted.send(kind(number=self.number, **fields))
        return self.hosted.decided[before:]

    def report(self, answer: Any, trial_id: str = "a", value: Any = 0.5) -> list[m.Decided]:
        self.scheduler.answer = answer
        before, self.number = len(self.hosted.decided), self.number + 1
        item = (trial_id, 1, 0, 0, json.dumps(value))
        self.hosted.send(m.Metrics(items=(item,), numbers=(self.number,)))
        self.scheduler.answer = None
        return self.hosted.decided[before:]

    def save(self, trial_id: str, number: int = 1) -> None:
        reports = self.trials[trial_id].reports
        self.tell(m.CheckpointSaved, trial_id=trial_id, attempt=1, checkpoint=number, reports=reports)

    def refuse(self, decided: m.Decided, reason: str = "no") -> list[m.Decided]:
        fields = {"cause": decided.cause, "kind": decided.kind, "reason": reason}
        return self.tell(m.DecisionRefused, trial_id=decided.trial_id, **fields)


# ---- in a process -----------------------------------------------------------------------------------------


async def test_decisions_name_the_fact_that_caused_them(host: Host) -> None:
    scheduler = await host("scheduler", code=ABOVE, class_args={"limit": 2})
    assert await scheduler.expect(m.Ready) == m.Ready(learns=True, wants_metrics=True)
    scheduler.send(created(3, "a"))
    assert await scheduler.expect(m.Answered) == m.Answered(missing=(), exhausted=False, fed_to=3)
    scheduler.send(reports(4, "a", 1.0, 3.0, "x"))
    assert await scheduler.expect(m.Decided) == m.Decided(
        cause=5, kind="pause", trial_id="a", reason="above 2", rung=2, better=("x", "x", "x")
    )
    scheduler.send(reports(5, "a", 9.0))  # it is known already
    scheduler.send(reports(9, "unknown", 9.0))
    scheduler.send(ended(10, "a"))
    scheduler.send(reports(11, "a", 9.0))
    await scheduler.child.close()
    assert len(scheduler.of_kind(m.Decided)) == 1 and len(scheduler.of_kind(m.Answered)) == 1
    assert scheduler.log.read_text().splitlines()[-1] == "result a [1.0, 3.0, 'x'] [1.0, 3.0, None]"


async def test_an_exception_is_told_once_and_the_trial_goes_on(host: Host) -> None:
    scheduler = await host("scheduler", code=ABOVE)
    scheduler.send(created(1, "a"))
    scheduler.send(reports(2, "a", "raise", "raise", 3.0))
    failed = await scheduler.expect(m.Failed)
    assert (failed.sentence, failed.trial_id, failed.fatal) == (
        "the scheduler's result_reported raised ValueError: what is that?",
        "a",
        False,
    )
    assert "mine.py" in failed.traceback
    assert (await scheduler.expect(m.Decided)).cause == 4
    assert len(scheduler.of_kind(m.Failed)) == 1


async def test_another_class_is_refused(host: Host) -> None:
    scheduler = await host("scheduler", code="class Mine: pass")
    failed = await scheduler.expect(m.Failed)
    assert failed.sentence == (
        "the scheduler's constructor raised TypeError: Mine must be a subclass of nnimgr.scheduler.Scheduler"
    )
    assert failed.hopeless


async def test_a_built_in_scheduler_notes_a_result_without_a_number_once(host: Host) -> None:
    scheduler = await host("scheduler", goal="minimize", class_args={"min_budget": 3})
    scheduler.send(created(1, "a"))
    scheduler.send(reports(2, "a", float("nan"), {"loss": 1}, {"default": 2}))
    noted = await scheduler.expect(m.Noted)
    assert noted.note == (
        "its intermediate result 1 is nan, which is not finite: the scheduler counts results like this as "
        "the worst"
    )
    assert (await scheduler.expect(m.Decided)).reason.startswith("rung 3: rank 1 of 1")
    assert len(scheduler.of_kind(m.Noted)) == 1


async def test_the_main_objective_counts(host: Host) -> None:
    fields: dict[str, Any] = {"objectives": {"loss": "minimize", "time": "minimize"}, "goal": "minimize"}
    scheduler = await host("scheduler", class_args={"eta": 2}, **fields)
    for number, trial_id in enumerate("ab", 1):
        scheduler.send(created(number, trial_id))
    scheduler.send(reports(3, "a", {"loss": 2, "time": 1}))
    scheduler.send(reports(4, "b", {"loss": 1, "time": 2}))
    assert (await scheduler.expect(m.Decided)).trial_id == "a"
    await scheduler.child.close()
    assert len(scheduler.of_kind(m.Decided)) == 1  # b is the best of two


# ---- rebuilding -------------------------------------------------------------------------------------------


async def test_only_decisions_that_are_not_recorded_are_sent_again(host: Host, make_past: MakePast) -> None:
    past = make_past()
    recorded, refused, stopped, lost, over = (past.suggested(None, {"x": 0}) for _ in range(5))
    causes = {}
    for trial_id in (recorded, refused, stopped, lost, over):
        causes[trial_id] = past.reported(trial_id, 9.0).numbers[0]
    past.named("Decided", recorded, kind="pause", cause=causes[recorded])
    past.named("DecisionRefused", refused, kind="pause", cause=causes[refused], reason="no")
    past.named("Verdict", stopped, by="scheduler", cause=causes[stopped])
    past.ended(over)
    scheduler = await host("scheduler", code=ABOVE, past=past)
    ready = await scheduler.expect(m.Ready)
    assert ready.note is None
    (decided,) = scheduler.of_kind(m.Decided)
    assert (decided.trial_id, decided.cause) == (lost, causes[lost])


async def test_exceptions_of_the_past_are_a_note(host: Host, make_past: MakePast) -> None:
    past = make_past()
    trial = past.suggested(None, {})
    past.reported(trial, "raise", 0.5)
    scheduler = await host("scheduler", code=ABOVE, past=past)
    ready = await scheduler.expect(m.Ready)
    assert ready.note == (
        "1 calls raised an exception again while the scheduler was rebuilt: the scheduler's result_reported "
        "raised ValueError: what is that?"
    )
    assert scheduler.of_kind(m.Failed) == []


async def test_a_slow_child_reads_what_was_not_sent(host: Host, make_past: MakePast) -> None:
    past = make_past()
    scheduler = await host("scheduler", code=ABOVE, database=str(past.path))
    trial = past.suggested(None, {})
    past.reported(trial, 0.5)
    cause = past.reported(trial, 3.0, first=1).numbers[0]
    scheduler.send(m.CatchUp(number=past.number))
    assert (await scheduler.expect(m.Decided)).cause == cause
    scheduler.send(m.CatchUp(number=past.number))
    scheduler.send(reports(cause, trial, 3.0))
    await scheduler.child.close()
    assert len(scheduler.of_kind(m.Decided)) == 1


# ---- decisions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda trial: "pause", "must return decisions or None, not 'pause'"),
        (lambda trial: 3, "must return decisions or None, not 3"),
        (
            lambda trial: [trial],
            "a decision must be one of Pause, Continue, Stop, Exploit, Resize, not Trial(",
        ),
        (lambda trial: Stop(trial, " "), "Stop of trial a has no reason"),
        (lambda trial: Stop(trial.id, "x"), "Stop of trial 'a' is about a trial that has ended"),
        (lambda trial: Pause(Trial("a", {}), "x"), "Pause of trial a is about a trial that has ended, or"),
        (lambda trial: [Pause(trial, "x"), Stop(trial, "x")], "there are two decisions about trial a"),
        (
            lambda trial: Stop(trial, "x", rung=cast("int", 1.5)),
            "Stop of trial a: rung must be an integer or None, not 1.5",
        ),
        (
            lambda trial: Stop(trial, "x", better=(trial,)),
            "Stop of trial a: better must be ids of trials, not",
        ),
    ],
)
def test_what_is_no_decision_is_told(answer: Any, told: str) -> None:
    with pytest.raises(AssertionError) as caught:
        Stage().report(answer)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"donor": Trial("b", {})}, "Exploit of trial a has a donor that has ended, or that does not exist"),
        ({"checkpoint": 7}, "Exploit of trial a: 7 is not of its donor b"),
        ({"parameters": {"x": float("nan")}}, "x in the parameter set of Exploit of trial a is nan"),
        ({"parameters": {"x": object()}}, "has no JSON form"),
        ({"parameters": lambda: {"x": 0.1}}, "the constraint x > 0.5 is not met by x = 0.1"),
        ({"parameters": json.loads("[" * 200 + "]" * 200)}, "is nested too deeply"),
    ],
)
def test_what_is_no_exploit_is_told(more: dict[str, Any], told: str) -> None:
    stage = Stage(constraints=("x > 0.5",))
    stage.report(None, "b")
    stage.save("b")
    donor = stage.trials["b"]
    fields = {"donor": donor, "checkpoint": donor.checkpoint, "parameters": {"x": 1}, **more}
    with pytest.raises(AssertionError) as caught:
        stage.report(lambda trial: Exploit(trial, "because", **fields))
    assert told in str(caught.value)


def test_a_long_reason_is_cut_off() -> None:
    (decided,) = Stage().report(lambda trial: Stop(trial, "why \n" * 300))
    assert len(decided.reason) == 500 and decided.reason.startswith("why why why")


def test_a_leg_begins_with_the_results_of_the_donor() -> None:
    stage = Stage()
    for value in (0.1, 0.2):
        stage.report(None, "b", value)
    stage.save("b")
    stage.report(None, "b", 0.3)
    stage.report(None, "a", 0.9)
    donor = stage.trials["b"]
    (decided,) = stage.report(
        lambda trial: Exploit(trial, "because", donor, donor.checkpoints[0], {"x": 0.7}), "a", 0.8
    )
    assert (decided.kind, decided.donor, decided.checkpoint) == ("exploit", "b", (1, 1))
    fields = {"attempt": 2, "leg": 1, "parameters": decided.parameters, "position": 4}
    stage.tell(m.LegBegan, trial_id="a", reports=2, **fields)
    assert stage.scheduler.calls == ["leg 1 of a: {'x': 0.7} [0.1, 0.2]"]
    heir = stage.trials["a"]
    assert (heir.numbers, heir.checkpoints, heir.decided) == ([0.1, 0.2], [], None)
    stage.report(None, "a", 0.5)
    stage.tell(m.LegBegan, trial_id="a", reports=2, **{**fields, "attempt": 3})
    assert heir.results == [0.1, 0.2]
    stage.tell(m.LegBegan, trial_id="b", reports=3, **fields)  # a donor of which nothing is known
    assert donor.results == [None, None, None]


def test_a_fork_begins_with_results_that_are_not_known() -> None:
    stage = Stage()
    stage.tell(m.TrialCreated, trial_id="c", parameters="{}", reports=2)
    stage.report(None, "c", 0.5)
    assert stage.trials["c"].results == [None, None, 0.5]


def test_a_result_that_cannot_be_read_is_its_text() -> None:
    stage = Stage()
    stage.hosted.send(m.Metrics(items=(("a", 1, 0, 0, "1" * 5000),), numbers=(9,)))
    assert stage.trials["a"].results == ["1" * 5000] and stage.trials["a"].numbers == [None]


def test_a_refusal_is_told_once() -> None:
    stage = Stage()
    (decided,) = stage.report(lambda trial: Pause(trial, "x"))
    assert stage.trials["a"].decided is not None
    stage.refuse(decided)
    stage.refuse(decided)
    assert stage.scheduler.calls == ["refused Pause of a: no"] and stage.trials["a"].decided is None


def test_a_pause_that_did_not_happen_is_told() -> None:
    stage = Stage()
    stage.report(lambda trial: Pause(trial, "x"))
    stage.tell(m.RolledBack, trial_id="a", attempt=2, position=0, reports=0)
    assert stage.scheduler.calls == [
        "refused Pause of a: the trial had to continue before the decision was carried out"
    ]


def test_a_rollback_forgets_results_and_checkpoints() -> None:
    stage = Stage()
    for value in (0.1, 0.2, 0.3):
        stage.report(None, "a", value)
        stage.save("a")
    trial = stage.trials["a"]
    stage.tell(m.RolledBack, trial_id="a", attempt=2, position=4, reports=2)
    assert trial.results == [0.1, 0.2] and [each.reports for each in trial.checkpoints] == [1, 2]
    stage.tell(m.RolledBack, trial_id="a", attempt=3, position=0, reports=0)
    assert (trial.results, trial.checkpoint) == ([], None)


def test_random_numbers_depend_on_the_event_alone() -> None:
    drawn = []
    for _ in range(2):
        stage = Stage()
        stage.report(None)
        experiment = stage.scheduler.experiment
        drawn.append(experiment.generator().random())
    assert drawn[0] == drawn[1]
    assert experiment.generator("a").random() != experiment.generator("b").random()


# ---- the end of an experiment -----------------------------------------------------------------------------


def paused() -> Stage:
    """Return an experiment that creates no more trials, and whose only running trial is being paused."""
    stage = Stage()
    stage.report(lambda trial: Pause(trial, "rung 1: rank 2 of 2", 1, ("b",)), "a")
    stage.tell(m.TrialPaused, trial_id="a", by="scheduler")
    stage.tell(m.NoMoreTrials)
    stage.report(lambda trial: Pause(trial, "rung 1: rank 1 of 2", 1), "b")
    return stage


def test_trials_that_nobody_continues_are_stopped() -> None:
    stage = paused()
    first, second = stage.tell(m.TrialPaused, trial_id="b", by="scheduler")
    assert stage.scheduler.calls == ["all paused"]
    assert (first.kind, first.trial_id, first.rung, first.better) == ("stop", "a", 1, ("b",))
    assert first.reason == (
        "the scheduler did not continue it before the experiment's end; reason of its pause: rung 1: rank 2 "
        "of 2"
    )
    assert (second.kind, second.trial_id) == ("stop", "b")
    assert stage.refuse(first) == [] and stage.refuse(second) == []  # it is not tried again and again


def test_the_scheduler_may_continue_one_of_them() -> None:
    stage = paused()
    stage.scheduler.answer = Continue(stage.trials["a"], "the last one")
    (decided,) = stage.tell(m.TrialPaused, trial_id="b", by="scheduler")
    assert (decided.kind, decided.trial_id) == ("continue", "a")
    stage.tell(m.TrialContinued, trial_id="a")
    stage.scheduler.answer = None
    (left,) = stage.tell(m.TrialFinished, **_end("a"))
    assert (left.kind, left.trial_id) == ("stop", "b")


def test_a_refused_continuation_is_a_stop() -> None:
    stage = paused()
    stage.scheduler.answer = Continue(stage.trials["a"], "the last one")
    (decided,) = stage.tell(m.TrialPaused, trial_id="b", by="scheduler")
    assert [each.kind for each in stage.refuse(decided)] == ["stop", "stop"]


@pytest.mark.parametrize("waits", ["a user", "more trials", "a running trial"])
def test_nothing_is_stopped_while_something_may_happen(waits: str) -> None:
    stage = paused()
    if waits == "a user":
        stage.tell(m.TrialPaused, trial_id="a", by="user")
    elif waits == "more trials":
        stage.tell(m.TrialsAgain)
    else:
        stage.tell(m.TrialCreated, trial_id="c", parameters="{}")
    assert stage.tell(m.TrialPaused, trial_id="b", by="scheduler") == []
    assert stage.scheduler.calls == []


def _end(trial_id: str) -> dict[str, Any]:
    fields = {"parameter_id": None, "parameters": "{}", "text": None, "success": True}
    return {"trial_id": trial_id, "status": "SUCCEEDED", **fields}


# ---- the past as it was told ------------------------------------------------------------------------------


def test_facts_of_the_log_are_told_as_they_were(make_past: MakePast) -> None:
    past = make_past()
    told = _everything(past)
    calls: list[Any] = []

    class Listening(Scheduler):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name.startswith("_") or not callable(found):
                return found
            return lambda *arguments: calls.append((name, *(getattr(each, "id", each) for each in arguments)))

        def _heard(self) -> None:
            pass

    for name in [each for each in vars(Scheduler) if not each.startswith("_") and each != "seed"]:
        if name != "experiment":
            setattr(Listening, name, getattr(Scheduler, name))
    HostedScheduler(Listening, past.path, SPACE, builtin=False, rebuild_to=past.number)
    assert calls == told


def _everything(past: Past) -> list[tuple[Any, ...]]:
    """Record every fact that a scheduler is told, and others. Return the calls that follow."""
    point = {"position": 2, "reports": 1}
    a, b = past.suggested(0, {"x": 0.5}), past.suggested(None, {"x": 1})
    past.reported(a, 0.5)
    past.named("CheckpointReported", a, job_id=f"conformance-{a}-1", number=1, step=7, reports=1)
    past.named("CheckpointReported", a, job_id=f"conformance-{a}-1", number=2, reports=1, usable=False)
    past.named("CheckpointReported", a, job_id=f"conformance-{a}-1", number=3)  # of an earlier version
    past.named("Suggested", "c", parameters="{}", reuse={"trial_id": a})
    past.named("StopRequested", a, kind="pause")  # TrialPaused follows
    past.named("TrialPaused", a)
    past.named("ResumeRequested", a)
    past.named("AttemptDue", a, attempt=2, origin=point, rolled_back=0)
    past.named("TrialPaused", a, by="scheduler")
    past.named("StopRequested", a, kind="user")
    past.named("TrialPaused", a)  # a user takes over the pause
    past.named("Decided", a, kind="pause", cause=1)
    past.named("Decided", a, kind="continue", cause=1)
    past.named("AttemptDue", a, attempt=3, origin=point, rolled_back=0, leg=1, parameters='{"x": 2}')
    past.named("AttemptDue", b, attempt=2, origin=None, rolled_back=0)
    past.named("TrialPaused", b, parked=True)
    past.named("SlotLent", b)
    past.named("ExperimentMoved", "", status="RUNNING")
    past.named("ExperimentMoved", "", status="DRAINING")
    past.named("ExperimentMoved", "", status="DRAINING")
    past.named("ExperimentMoved", "", status="RUNNING")
    past.space_changed({"y": {"_type": "choice", "_value": [1]}})
    past.ended(b)
    return [
        *(("trial_created", a), ("trial_created", b), ("result_reported", a), ("checkpoint_saved", a)),
        *(("trial_paused", a), ("trial_continued", a), ("trial_rolled_back", a)),
        *(("trial_paused", a), ("trial_paused", a), ("trial_continued", a), ("leg_began", a)),
        *(("trial_silent", b), ("no_more_trials",), ("trials_again",), ("search_space_changed",)),
        ("trial_ended", b),
    ]
