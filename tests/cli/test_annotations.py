"""Commands about the notes and tags of trials."""

from __future__ import annotations

import json

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer, Refused, trial


@pytest.fixture
def two(server: FakeServer) -> FakeServer:
    server.add("abc").trials = [trial("ta", 0, tags=["old"]), trial("tb", 1)]
    return server


def test_a_note_is_written_shown_and_removed(two: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "note", "-T", "0", "--text", "a good\nrun"]) == 0
    assert two.requests[-1] == ("PATCH", "experiments/abc/trials/ta/annotation", {"note": "a good\nrun"})
    assert capsys.readouterr().out == "INFO: Trial 0 (ta) has a new note.\n"
    assert main(["trial", "note", "abc", "-T", "ta"]) == 0
    assert capsys.readouterr().out == "a good\nrun\n"
    assert main(["trial", "note", "-T", "ta", "--clear"]) == 0
    assert capsys.readouterr().out == "INFO: Trial 0 (ta) has no note any more.\n"
    assert main(["trial", "note", "-T", "ta"]) == 0
    assert capsys.readouterr().out == "Trial 0 (ta) has no note.\n"
    assert main(["trial", "note", "-T", "ta", "--text", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "ta", "userNote": "x"}


def test_tags_are_added_removed_and_shown(two: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trial", "tag", "-T", "0", "-T", "tb", "--add", "a, b", "--add", "c", "--remove", "old"]
    assert main(words) == 0
    body = {"trialIds": ["ta", "tb"], "add": ["a", "b", "c"], "remove": ["old"]}
    assert two.requests[-1] == ("POST", "experiments/abc/tags", body)
    assert capsys.readouterr().out == (
        "INFO: Trial 0 (ta) is tagged a, b, c.\nINFO: Trial 1 (tb) is tagged a, b, c.\n"
    )
    assert main(["trial", "tag", "-T", "0", "--remove", "a,b,c"]) == 0
    assert capsys.readouterr().out == "INFO: Trial 0 (ta) has no tags.\n"
    asked = len(two.requests)
    assert main(["trial", "tag", "-T", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"trials": [{"id": "tb", "tags": ["a", "b", "c"]}]}
    assert [method for method, _, _ in two.requests[asked:]] == ["GET"]


@pytest.mark.parametrize(
    ("words", "warning"),
    [(["-T", "0"], "The trial has no tag 'new'."), (["-T", "0,1"], "None of the trials has the tag 'new'.")],
)
def test_a_tag_that_is_not_there(
    two: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str], warning: str
) -> None:
    assert main(["trial", "tag", *words, "--remove", "new,old"]) == 0
    assert capsys.readouterr().err == f"WARNING: {warning}\n"


def test_tags_that_are_refused(two: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "tag", "-T", "0", "--add", "a", "--remove", "a"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: The tag 'a' is given to both --add and --remove.\n"
        "  Give each tag to --add or to --remove. See: nnictl trial tag --help\n"
    )
    two.refuse["experiments/abc/tags"] = Refused(409, "Trial ta would have 21 tags; the limit is 20.")
    assert main(["trial", "tag", "-T", "0", "--add", "a"]) == 1
    assert capsys.readouterr().err.endswith(
        "Remove tags with the same command: nnictl trial tag -T TRIAL --add TAG --remove TAG\n"
    )
    two.refuse["experiments/abc/trials/ta/annotation"] = Refused(422, "It is too long.")
    assert main(["trial", "note", "-T", "0", "--text", "x"]) == 1
    assert capsys.readouterr().err == ("ERROR: It is too long.\n  See the limits: nnictl trial note --help\n")
