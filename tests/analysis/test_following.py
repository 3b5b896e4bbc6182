"""Analyses that follow an experiment give the same answers as analyses that read all of it at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from nnimgr.analysis.questions import Answers
from nnimgr.rules import facts as f
from tests.analysis.past import SECOND, Past
from tests.analysis.test_columns import act

QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "curves": {"lines": 50, "points": 10},
    "timeline": {"pixels": 50, "now": 1_800_000_000.0},
    "stopped": {"offset": 0, "limit": 100},
    "history": {"points": 100},
    "parallel": {"axes": [{"name": "parameters.lr"}, {"name": "status"}, {"name": "value"}], "bins": 8},
}


def judge(past: Past, rng: random.Random, reported: Mapping[str, int]) -> None:
    """Have the assessor judge a running trial by its last metric."""
    running = [
        job for job in past.state.jobs.values() if job.started_at and not job.closed and job.id in reported
    ]
    if running:
        job = rng.choice(running)
        past.take(f.Verdict(trial_id=job.trial_id, attempt=job.attempt, position=reported[job.id]))


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_following_is_as_good_as_reading_all(past: Past, seed: int) -> None:
    rng = random.Random(seed)
    past.suggest({"lr": 0.1})
    await past.write()
    following = Answers()
    reported: dict[str, int] = {}
    for _ in range(80):
        act(past, rng, reported)
        if rng.random() < 0.1:
            judge(past, rng, reported)
        past.now += SECOND
        if rng.random() < 0.3:
            await past.write()
            fresh = Answers()
            for question, arguments in QUESTIONS.items():
                answers = [
                    each.answer(past.database, "exp", question, arguments) for each in (following, fresh)
                ]
                assert answers[0] == answers[1], question
