"""The name that a user has probably meant."""

from __future__ import annotations

import pytest

from nnimgr.config.model import ExperimentConfig
from nnimgr.spelling import nearest

FIELDS = [str(field.alias) for field in ExperimentConfig.model_fields.values()]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("maxTrials", "maxTrialNumber"),  # "maxRetries" has more letters in common
        ("max_trial_nubmer", "maxTrialNumber"),
        ("concurrency", "trialConcurrency"),
        ("memory", "trialMemorySize"),
        ("searchspace", "searchSpace"),
        ("zebra", None),
    ],
)
def test_a_field(word: str, found: str | None) -> None:
    assert nearest(word, FIELDS) == found


def test_names_keep_their_form() -> None:
    assert nearest("TPE-legacy", ["TPE", "TPE_legacy"]) == "TPE_legacy"
