"""The name that a user has probably meant."""

from __future__ import annotations

import pytest

from nnimgr.config.model import ExperimentConfig
from nnimgr.spelling import capital, error_text, nearest, text_of

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


@pytest.mark.parametrize(
    ("word", "found"), [("value", None), ("failure", "failures"), ("mertic", "metric"), ("plateu", "plateau")]
)
def test_a_short_word_is_not_taken_for_any_longer_one(word: str, found: str | None) -> None:
    assert nearest(word, ["metric", "plateau", "totalTrialTime", "failures", "runningTrials"]) == found


@pytest.mark.parametrize(("word", "found"), [("--sort", None), ("--prot", "--port"), ("--jsn", "--json")])
def test_a_short_option(word: str, found: str | None) -> None:
    assert nearest(word, ["--port", "--json", "--head"]) == found


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("noprg", "noprog"),  # "nores" has the same first letter and as many letters, but fewer in common
        ("norse", "nores"),
        ("noras", "nores"),
        ("mian", "main"),
        ("mime", "mine"),
    ],
)
def test_a_short_name(word: str, found: str) -> None:
    assert nearest(word, ["main", "mine", "nores", "noprog"]) == found


def test_names_keep_their_form() -> None:
    assert nearest("TPE-legacy", ["TPE", "TPE_legacy"]) == "TPE_legacy"


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("machine gpu1 is full", "Machine gpu1 is full"),
        ("2 of 3 slots are busy", "2 of 3 slots are busy"),
        ("", ""),
        *(
            (sentence, sentence)
            for sentence in ("gpu1 is full", "me@host is full", "maxTrials is 3", "a.py: x")
        ),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name(sentence: str, written: str) -> None:
    assert capital(sentence) == written


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoText:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_the_text_of_an_object_never_raises() -> None:
    assert error_text(KeyError("lr")) == "KeyError: 'lr'" and error_text(ValueError()) == "ValueError"
    assert error_text(Silent()) == "Silent: <exception str() failed>"
    assert text_of(3) == "3" and text_of(NoText()) == "<object str() failed>"
