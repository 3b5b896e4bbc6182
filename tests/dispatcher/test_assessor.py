"""An assessor in its process: the calls it gets, the effect of its answers, and its rebuild."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host, MakePast

PRINTER = """
    from nni.assessor import Assessor, AssessResult

    class Mine(Assessor):
        def assess_trial(self, trial_job_id, trial_history):
            print("assess", trial_job_id, trial_history)
            last = trial_history.pop()
            if last == "raise":
                raise ValueError("what is that?")
            if last == "nothing":
                return None
            return last != "bad" if isinstance(last, str) else AssessResult.Good
        def trial_end(self, trial_job_id, success):
            print("end", trial_job_id, success)
"""


def metrics(*items: tuple[str, int, Any], attempt: int = 1) -> m.Metrics:
    """Build Metrics of (trial, sequence, value) items. The position of each metric equals its sequence."""
    return m.Metrics(items=tuple((t, attempt, n, n, json.dumps(v)) for t, n, v in items))


def ended(trial_id: str, *, number: int = 9, success: bool = True) -> m.TrialFinished:
    return m.TrialFinished(
        number=number, trial_id=trial_id, parameter_id=0, parameters="{}", text=None, success=success
    )


async def lines(assessor: Any) -> list[str]:
    await assessor.child.close()
    return [line for line in assessor.log.read_text().splitlines() if line]


async def test_histories_are_in_order_and_without_gaps(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(metrics(("a", 0, 1), ("b", 1, "y")))
    assessor.send(ended("z"))
    assessor.send(metrics(("a", 2, 3)))
    assessor.send(ended("z"))
    assessor.send(metrics(("a", 1, 2), ("b", 0, "x")))
    assessor.send(ended("a"))
    assessor.send(metrics(("b", 2, "bad")))
    assert await assessor.expect(m.Judged) == m.Judged(trial_id="b", attempt=1, position=2, report=3)
    assessor.send(metrics(("b", 3, "more")))
    assessor.send(ended("b", success=False))
    printed = await lines(assessor)
    assert [line for line in printed if line.split()[1] == "a"] == [
        "assess a [1]",
        "assess a [1, 2, 3]",
        "end a True",
    ]
    # The metrics after the verdict are shown once more before the end, so that the history contains them.
    assert [line for line in printed if line.split()[1] == "b"] == [
        "assess b ['x', 'y']",
        "assess b ['x', 'y', 'bad']",
        "assess b ['x', 'y', 'bad', 'more']",
        "end b False",
    ]


async def test_a_trial_that_continues_from_a_checkpoint_has_one_history(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(metrics(("a", 0, 1), ("a", 1, 2), ("a", 2, 3)))
    assessor.send(m.RolledBack(number=9, trial_id="a", attempt=2, position=2, reports=2))
    assessor.send(metrics(("a", 3, 9)))  # a late one of the attempt before
    assessor.send(metrics(("a", 2, "bad"), attempt=2))
    assert await assessor.expect(m.Judged) == m.Judged(trial_id="a", attempt=2, position=2, report=3)
    assert await lines(assessor) == ["assess a [1, 2, 3]", "assess a [1, 2, 'bad']"]


async def test_an_assessor_may_hear_which_results_no_longer_count(host: Host) -> None:
    hears = (
        PRINTER
        + """
        def trial_rolled_back(self, trial_job_id, reports):
            print("back", trial_job_id, reports)
"""
    )
    assessor = await host("assessor", code=hears)
    assessor.send(metrics(("a", 0, 1), ("a", 1, 2), ("b", 0, 1)))
    assessor.send(m.RolledBack(number=9, trial_id="a", attempt=2, position=1, reports=1))
    assessor.send(m.RolledBack(number=10, trial_id="a", attempt=3, position=1, reports=1))  # nothing is lost
    assessor.send(metrics(("a", 1, 3), attempt=3))
    assessor.send(ended("z"))
    assessor.send(metrics(("b", 0, 4), attempt=2))  # nobody has said that its trial starts again
    assessor.send(ended("z"))
    assert await lines(assessor) == [
        "assess a [1, 2]",
        "assess b [1]",
        "back a 1",
        "assess a [1, 3]",
        "back b 0",
        "assess b [4]",
    ]


async def test_a_trial_is_judged_again_if_a_verdict_came_too_late_for_its_attempt(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(metrics(("a", 0, "bad")))
    assert (await assessor.expect(m.Judged)).attempt == 1
    assessor.send(m.RolledBack(number=9, trial_id="a", attempt=2, position=0, reports=0))
    assessor.send(metrics(("a", 0, "bad"), attempt=2))
    assert (await assessor.expect(m.Judged)).attempt == 2


async def test_a_replay_has_what_no_longer_counts_forgotten(host: Host, make_past: MakePast) -> None:
    hears = (
        PRINTER
        + """
        replayable = True
        def trial_rolled_back(self, trial_job_id, reports):
            print("back", reports)
"""
    )
    past = make_past()
    trial = past.suggested(1, {})
    past.reported(trial, 1, 2)
    past.continued(trial, 2, 0)
    past.reported(trial, 3, attempt=2)
    assessor = await host("assessor", past=past, code=hears)
    await assessor.expect(m.Ready)
    assert await lines(assessor) == [
        f"assess {trial} [1]",
        f"assess {trial} [1, 2]",
        "back 0",
        f"assess {trial} [3]",
    ]


async def test_medianstop_judges_a_trial_that_starts_again_by_its_new_results(host: Host) -> None:
    assessor = await host("assessor", class_args={"optimize_mode": "maximize"})
    assessor.send(metrics(("a", 0, 0.1), ("a", 1, 0.2), ("b", 0, 1.0), ("b", 1, 2.0), ("b", 2, 3.0)))
    assessor.send(m.RolledBack(number=9, trial_id="a", attempt=2, position=0, reports=0))
    assessor.send(ended("b"))
    assessor.send(metrics(("a", 0, 1.0), attempt=2))
    assessor.send(ended("z"))
    assessor.send(metrics(("a", 1, 0.5), ("a", 2, 0.5), attempt=2))
    judged = await assessor.expect(m.Judged)
    assert (judged.attempt, judged.report) == (2, 3)
    assert len(assessor.of_kind(m.Judged)) == 1


async def test_the_first_result_of_a_leg_stands_in_for_results_that_its_trial_lacks(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(metrics(("a", 0, 1)))
    assessor.send(m.RolledBack(number=9, trial_id="a", attempt=2, position=1, reports=3))
    assessor.send(m.Metrics(items=(("a", 2, 1, 3, "7"), ("a", 2, 2, 4, '"bad"'))))
    assert await assessor.expect(m.Judged) == m.Judged(trial_id="a", attempt=2, position=2, report=5)
    assert await lines(assessor) == ["assess a [1]", "assess a [1, 7, 7, 7, 'bad']"]


async def test_a_fork_is_judged_though_it_lacks_the_results_before_its_checkpoint(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(m.RolledBack(number=9, trial_id="fork", attempt=1, position=0, reports=2))
    assessor.send(m.Metrics(items=(("fork", 1, 0, 2, "7"), ("fork", 1, 2, 3, '"bad"'))))
    assert await assessor.expect(m.Judged) == m.Judged(trial_id="fork", attempt=1, position=2, report=4)
    assert await lines(assessor) == ["assess fork [7, 7, 7, 'bad']"]


async def test_a_fork_that_has_not_reported_is_judged_after_a_rebuild(
    host: Host, make_past: MakePast
) -> None:
    past = make_past()
    fork, rolled_back = past.forked(reports=2), past.suggested(1, {})
    past.reported(rolled_back, 1, 2, 3)
    past.continued(rolled_back, 2, 2)
    assessor = await host("assessor", past=past, code=PRINTER)
    assessor.send(m.Metrics(items=((fork, 1, 0, 2, "7"), (rolled_back, 2, 2, 2, '"bad"'))))
    verdict = m.Judged(trial_id=rolled_back, attempt=2, position=2, report=3)
    assert await assessor.expect(m.Judged) == verdict
    assert await lines(assessor) == [
        f"assess {fork} [7, 7, 7]",
        f"assess {rolled_back} [1, 2, 'bad']",
    ]


@pytest.mark.parametrize("replayable", [False, True])
async def test_a_rebuild_is_no_reason_to_judge_what_does_not_run(
    host: Host, make_past: MakePast, replayable: bool
) -> None:
    past = make_past()
    paused, again, running = (past.suggested(number, {}) for number in range(3))
    for trial in (paused, again, running):
        past.reported(trial, 1, "bad")
    past.paused(paused)
    past.continued(again, 2, 0)
    code = PRINTER + f"\n        replayable = {replayable}\n"
    assessor = await host("assessor", past=past, code=code)
    assert (await assessor.expect(m.Judged)).trial_id == running
    assessor.send(metrics((again, 0, "bad"), attempt=2))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.attempt, judged.report) == (again, 2, 1)
    assessor.send(m.RolledBack(number=past.number + 1, trial_id=paused, attempt=2, position=1, reports=1))
    assessor.send(metrics((paused, 1, "bad"), attempt=2))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.attempt, judged.report) == (paused, 2, 2)
    assert len(assessor.of_kind(m.Judged)) == 3


async def test_each_trial_is_judged_by_its_newest_state(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    assessor.send(metrics(("a", 0, 1), ("a", 1, 2), ("b", 0, 1), ("a", 2, 3)))
    assessor.send(metrics(("b", 1, 2), attempt=2))
    assessor.send(metrics(("b", 0, 5), attempt=2))
    assessor.send(metrics(("b", 9, 9), attempt=1))
    assessor.send(ended("c"))
    printed = await lines(assessor)
    assert printed[0] == "assess a [1, 2, 3]"
    assert printed[-1] == "assess b [5, 2]"


async def test_exceptions_and_wrong_answers_are_told_once_for_each_trial(host: Host) -> None:
    assessor = await host("assessor", code=PRINTER)
    await assessor.expect(m.Ready)
    for number in range(3):
        assessor.send(metrics(("a", number, "raise")))
        assessor.send(ended("z"))
    assessor.send(metrics(("b", 0, "nothing")))
    failed = await assessor.expect(m.Failed)
    assert failed.sentence == "the assessor's assess_trial raised ValueError: what is that?"
    assert (failed.trial_id, failed.fatal) == ("a", False)
    wrong = await assessor.expect(m.Failed)
    assert (wrong.trial_id, wrong.sentence) == (
        "b",
        "the assessor's assess_trial raised TypeError: "
        "assess_trial must return an AssessResult or a bool, not None",
    )
    await assessor.child.close()
    assert len(assessor.of_kind(m.Failed)) == 2


@pytest.mark.parametrize("value", ["oops", float("nan"), {"loss": 1}])
async def test_a_built_in_assessor_leaves_out_what_is_no_number_and_says_so(host: Host, value: Any) -> None:
    assessor = await host("assessor")
    assessor.send(metrics(("a", 0, 0.5), ("a", 1, value), ("a", 2, value)))
    noted = await assessor.expect(m.Noted)
    await assessor.expect(m.Answered)  # sent once, after the first opinion
    assert noted.trial_id == "a" and noted.note.startswith("its intermediate result 2 ")
    assessor.send(ended("a"))
    assessor.send(metrics(("b", 0, 0.4)))
    assert (await assessor.expect(m.Judged)).trial_id == "b"
    assert (len(assessor.of_kind(m.Noted)), len(assessor.of_kind(m.Answered))) == (1, 1)


async def test_a_verdict_names_the_metric(host: Host) -> None:
    assessor = await host("assessor", class_args={"optimize_mode": "minimize"})
    assessor.send(metrics(("a", 0, 1.0), ("a", 1, 0.5)))
    assessor.send(ended("a"))
    assessor.send(m.Metrics(items=(("b", 2, 0, 0, "0.9"),)))
    assessor.send(ended("z"))
    assessor.send(m.Metrics(items=(("b", 2, 3, 1, "0.9"),)))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.attempt, judged.position) == ("b", 2, 3)
    assert judged.reason == (
        "its best result so far, 0.9, is above 0.75, the average of another trial's first 2 results"
    )
    assert (judged.rung, judged.better) == (None, ())


async def test_medianstop_is_rebuilt_from_the_database(host: Host, make_past: MakePast) -> None:
    past = make_past()
    good, failed, open_trial, stopped = (past.suggested(i, {"x": i}) for i in range(4))
    past.reported(good, 0.2, 0.3, attempt=1)
    past.reported(good, 0.5, 0.7, attempt=2)
    past.ended(good, 0.7)
    past.reported(failed, 0.9)
    past.ended(failed, success=False)
    past.reported(open_trial, 0.5)
    past.reported(stopped, 0.1)
    past.judged(stopped)
    late = past.number
    past.reported(stopped, 0.1, 0.1, attempt=2)
    assessor = await host("assessor", past=past, rebuild_to=late)
    assert (await assessor.expect(m.Ready)).note is None
    assessor.send(metrics((stopped, 1, 0.1)))
    assessor.send(metrics((open_trial, 0, 0.5), (open_trial, 1, 0.4)))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.attempt, judged.position) == (open_trial, 1, 1)
    assert len(assessor.of_kind(m.Judged)) == 1


async def test_a_trial_that_was_not_judged_before_the_crash_is(host: Host, make_past: MakePast) -> None:
    past = make_past()
    good, bad = past.suggested(0, {}), past.suggested(1, {})
    past.reported(good, 0.5)
    past.ended(good, 0.5)
    past.reported(bad, 0.4)
    assessor = await host("assessor", past=past)
    assert (await assessor.expect(m.Judged)).trial_id == bad


async def test_an_assessor_without_recall_starts_anew_and_says_so(host: Host, make_past: MakePast) -> None:
    past = make_past()
    old, live = past.suggested(0, {}), past.suggested(1, {})
    past.reported(old, 1)
    past.ended(old)
    past.reported(live, 1, 2)
    assessor = await host("assessor", past=past, code=PRINTER)
    note = (await assessor.expect(m.Ready)).note
    assert note == "the assessor has no recall method: it knows nothing of the 1 trials that ended"
    assessor.send(metrics((old, 1, 5), (live, 2, 3)))
    assessor.send(ended(live))
    assert await lines(assessor) == [
        f"assess {live} [1, 2]",
        f"assess {live} [1, 2, 3]",
        f"end {live} True",
    ]


async def test_metrics_that_were_left_out_are_read_before_the_trial_ends(
    host: Host, make_past: MakePast
) -> None:
    past = make_past()
    trial = past.suggested(0, {})
    assessor = await host("assessor", past=past, code=PRINTER)
    await assessor.expect(m.Ready)
    past.reported(trial, 1, 2, 3)
    assessor.send(metrics((trial, 0, 1)))
    number = past.ended(trial, 3)
    assessor.send(m.CatchUp(number=number))
    assessor.send(ended(trial, number=number))
    assert (await lines(assessor))[-2:] == [f"assess {trial} [1, 2, 3]", f"end {trial} True"]


async def test_a_built_in_assessor_judges_the_main_objective(host: Host, make_past: MakePast) -> None:
    """Three good trials, then one with a bad main objective.

    Its value of ``default`` looks good but does not count.
    """
    objectives = {"loss": "minimize", "size": "minimize"}
    past = make_past()
    past.suggested(0, {})
    past.reported("t0", {"loss": 1, "default": 9}, {"loss": 1, "default": 9})
    past.ended("t0", 1)
    assessor = await host("assessor", objectives=objectives, goal="minimize", past=past)
    for trial in ("a", "b"):
        assessor.send(metrics((trial, 0, {"loss": 1.0, "size": 9}), (trial, 1, 1.0)))
        assessor.send(ended(trial))
    assessor.send(metrics(("c", 0, {"loss": 0.5}), ("c", 1, {"loss": 5, "default": 0})))
    assessor.send(metrics(("d", 0, {"loss": 2.0, "default": 0})))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.attempt, judged.position) == ("d", 1, 0)
    assert len(assessor.of_kind(m.Judged)) == 1


REASONS = """
    from nni.assessor import Assessor

    class Mine(Assessor):
        def assess_trial(self, trial_job_id, trial_history):
            return trial_history[-1] > 0
        def why(self, trial_job_id):
            if trial_job_id == "raise":
                raise ValueError("no reason")
            return {"text": "because\\nof it", "odd": 3}.get(trial_job_id) or {
                "reason": "x" * 900, "rung": 7, "better": ["a", 2, "c", "d"],
            }
"""


async def test_a_verdict_says_why(host: Host) -> None:
    assessor = await host("assessor", code=REASONS)
    assessor.send(metrics(*((trial_id, 0, -1) for trial_id in ("text", "odd", "raise", "all"))))
    found = [await assessor.expect(m.Judged) for _ in range(4)]
    assert [each.reason for each in found[:3]] == ["because of it", "", ""]
    await assessor.child.close()
    (failed,) = assessor.of_kind(m.Failed)
    assert failed.sentence == "the assessor's why raised ValueError: no reason" and not failed.fatal
    assert found[3].reason == "x" * 497 + "..."
    assert (found[3].rung, found[3].better) == (7, ("a", "2", "c"))


async def test_one_that_is_replayable_gets_all_calls_again_in_their_order(
    host: Host, make_past: MakePast
) -> None:
    past = make_past()
    first, second, third, fourth = (past.suggested(number, {}) for number in range(4))
    past.reported(first, 1)
    past.reported(second, 2)
    past.ended(first, 1)
    past.reported(third, "bad")
    past.judged(third)
    past.reported(second, 2, 3, attempt=2)
    past.reported(fourth, "bad")
    past.ended(third, success=False)
    assessor = await host(
        "assessor", past=past, code=PRINTER.replace("Assessor):", "Assessor):\n        replayable = True")
    )
    assert await assessor.expect(m.Judged) == m.Judged(trial_id=fourth, attempt=1, position=0, report=1)
    assert (await assessor.expect(m.Ready)).note is None
    assessor.send(metrics((second, 2, 4), attempt=2))
    assessor.send(ended("z"))
    assert await lines(assessor) == [
        f"assess {first} [1]",
        f"assess {second} [2]",
        f"end {first} True",
        f"assess {third} ['bad']",
        f"assess {second} [2]",
        f"assess {second} [2, 3]",
        f"assess {fourth} ['bad']",
        f"end {third} False",
        f"assess {second} [2, 3, 4]",
    ]
    assert len(assessor.of_kind(m.Judged)) == 1


async def test_asha_rebuilt_judges_as_if_it_had_lived_on(host: Host, make_past: MakePast) -> None:
    """A trial that was among the best on arrival continues, however many better ones have come since."""
    past = make_past()
    early = past.suggested(0, {})
    past.reported(early, 0.5)
    for number in range(1, 9):
        better = past.suggested(number, {})
        past.reported(better, 0.5 + number / 100)
        past.ended(better, success=number > 3)
    assessor = await host("assessor", name="ASHA", past=past)
    await assessor.expect(m.Ready)
    assessor.send(metrics((early, 1, 0.5)))
    assessor.send(metrics(("new", 0, 0.55)))
    judged = await assessor.expect(m.Judged)
    assert (judged.trial_id, judged.rung, judged.better) == ("new", 1, ("t6", "t7", "t8"))
