"""Stopped trials: by whom and at which step."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from nnimgr.analysis.stopped import stopped
from nnimgr.store.bulk_runs import StoppedAt
from tests.analysis.given import EARLY_STOPPED, STATUSES, SUCCEEDED, GivenColumns, GivenSnapshot

USER = STATUSES.index("USER_CANCELED")
SYSTEM = STATUSES.index("SYS_CANCELED")


def ask(columns: GivenColumns, snapshot: GivenSnapshot, **arguments: Any) -> dict[str, Any]:
    return dict(json.loads(stopped(columns, snapshot.taken, {"offset": 0, "limit": 100, **arguments})))


def scene() -> tuple[GivenColumns, GivenSnapshot]:
    """Trials 0 to 3 were stopped: by the assessor, maxTrialDuration, a user, the system.

    Trials 4 and 5 were not.
    """
    columns = GivenColumns(
        6,
        status=[EARLY_STOPPED, EARLY_STOPPED, USER, SYSTEM, SUCCEEDED, SUCCEEDED],
        intermediates=[5, 3, 0, 2, 10, 10],
        latest=[0.5, 0.3, np.nan, 0.2, 0.9, 0.9],
        ended=[10.0, 40.0, 30.0, 20.0, 50.0, 60.0],
    )
    snapshot = GivenSnapshot(
        config={"assessor": {"name": "Medianstop"}},
        verdicts=[StoppedAt(5, "t0", 1, 3), StoppedAt(9, "t5", 1, 2)],
        metrics={("t0", 1, 3): (3, 0.4, "0.4"), ("t5", 1, 2): (2, 0.1, "0.1")},
    )
    return columns, snapshot


def test_an_advisor_that_stops_trials_is_their_assessor() -> None:
    columns, _ = scene()
    for name, told in (("asha", "asha"), ("TPE", "Medianstop")):
        config = {"tuner": {"name": name}, "assessor": {"name": "Medianstop"}}
        assert ask(columns, GivenSnapshot(config=config))["assessor"] == told


def test_each_kind_of_stop() -> None:
    answer = ask(*scene())
    assert answer["assessor"] == "Medianstop"
    assert answer["counts"] == {"assessor": 1, "scheduler": 0, "duration": 1, "user": 1, "system": 1}
    assert [(t["trialId"], t["by"], t["step"], t["value"]) for t in answer["trials"]] == [
        ("t1", "duration", 2, 0.3),
        ("t2", "user", None, None),
        ("t3", "system", 1, 0.2),
        ("t0", "assessor", 3, 0.4),  # the step of the verdict, not of the end
    ]
    assert answer["trials"][0] == {
        "sequence": 1,
        "trialId": "t1",
        "status": "EARLY_STOPPED",
        "by": "duration",
        "step": 2,
        "value": 0.3,
        "endedS": 40.0,
        "reason": "why t1",
    }


def test_a_verdict_on_an_earlier_attempt_does_not_count() -> None:
    columns, snapshot = scene()
    columns.arrays["attempt"][0] = 2
    assert ask(columns, snapshot)["counts"]["assessor"] == 0


def test_a_trial_that_was_paused_may_be_stopped_by_its_scheduler() -> None:
    columns, snapshot = scene()
    columns.arrays["attempt"][1] = 2  # which would have begun after the pause
    left = StoppedAt(11, "t1", 1, 1, 2, "scheduler")
    snapshot = GivenSnapshot(verdicts=[left], metrics={("t1", 1, 1): (1, 0.2, "0.2")})
    (told,) = ask(columns, snapshot, by="scheduler")["trials"]
    assert (told["trialId"], told["step"], told["value"]) == ("t1", 1, 0.2)


def test_steps_say_how_far_trials_came() -> None:
    assert ask(*scene())["steps"] == [
        {"step": 1, "reached": 5, "stopped": 1},
        {"step": 2, "reached": 4, "stopped": 1},
        {"step": 3, "reached": 3, "stopped": 1},
    ]
    assert ask(*scene(), by="assessor")["steps"] == [{"step": 3, "reached": 3, "stopped": 1}]


def test_pages_and_filters() -> None:
    columns, snapshot = scene()
    answer = ask(columns, snapshot, offset=1, limit=2)
    assert (answer["total"], [t["trialId"] for t in answer["trials"]]) == (4, ["t2", "t3"])
    answer = ask(columns, snapshot, by="user")
    assert (answer["total"], answer["counts"]["assessor"]) == (1, 1)
    answer = ask(columns, snapshot, filter="sequence<2")
    assert (answer["total"], answer["counts"]["user"]) == (2, 0)


def test_new_verdicts_are_added() -> None:
    columns, snapshot = scene()
    ask(columns, snapshot)
    columns.revision = snapshot.number = 20
    snapshot.all_verdicts = [StoppedAt(15, "t1", 1, 1)]
    snapshot.metrics[("t1", 1, 1)] = (1, None, "NaN")
    answer = ask(columns, snapshot, by="assessor")
    assert [(t["trialId"], t["step"], t["value"]) for t in answer["trials"]] == [
        ("t1", 1, None),
        ("t0", 3, 0.4),
    ]


def test_nobody() -> None:
    answer = ask(GivenColumns(0), GivenSnapshot())
    assert (answer["total"], answer["assessor"], answer["steps"]) == (0, None, [])
