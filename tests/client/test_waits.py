"""Sentences about long waits."""

from __future__ import annotations

import pytest

from nnimgr.client import waits
from nnimgr.client.errors import ClientError
from nnimgr.client.waits import waiting
from tests.cli.fake import Told
from tests.trial_keeper.harness import DEADLINE_S


def test_a_wait_is_told_once(told: Told) -> None:
    with waiting("reading a file"):
        assert told.event("Reading a file.").wait(DEADLINE_S)
    assert told.sentences == ["Reading a file."]


def test_what_has_changed_is_told_again(told: Told) -> None:
    sentences = iter(["", "one", "one", "two."])
    with waiting(lambda: next(sentences, "two.")):
        assert told.event("Two.").wait(DEADLINE_S)
    assert told.sentences == ["One.", "Two."]


def test_an_error_is_left_to_the_wait_itself(told: Told) -> None:
    sentences = iter(["one"])

    def sentence() -> str:
        for each in sentences:
            return each
        raise ClientError("The server has gone.")

    with waiting(sentence):
        assert told.event("One.").wait(DEADLINE_S)
    assert told.sentences == ["One."]


def test_the_sentences_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    waits.say("Reading a file.")
    assert capsys.readouterr() == ("", "INFO: Reading a file.\n")
