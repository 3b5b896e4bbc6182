"""Commands to which the server of another version gives answers that they do not understand."""

from __future__ import annotations

import os

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer, Refused, trial

MEND = f"  Replace it: kill {os.getpid()} && nnictl "


def test_a_field_that_the_server_does_not_send(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = server.add("abc")
    experiment.trials = [trial("aaaaa", 0)]
    assert main(["trial", "show", "-T", "0"]) == 1
    first, mend = capsys.readouterr().err.splitlines()
    assert first.startswith("ERROR: The server's answer has no field 'retriedAs' (nnimgr.cli.trial_page, l")
    assert "), so the server is of another version of nnimgr than this command. Trials continue" in first
    assert mend == f"{MEND}trial show -T 0"


def test_a_route_that_the_server_does_not_have(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc").trials = [trial("aaaaa", 0)]
    route = "/api/v1/experiments/abc/trials/aaaaa/annotation"
    server.refuse["experiments/abc/trials/aaaaa/annotation"] = Refused(404, f"There is no {route} here.")
    assert main(["trial", "note", "-T", "0", "--text", "good"]) == 1
    told = capsys.readouterr().err
    assert f"ERROR: The server has no {route}, so the server is of another version of nnimgr" in told
    assert told.endswith(f"{MEND}trial note -T 0 --text good\n")


def test_other_key_errors_are_not_the_servers(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise KeyError("x")

    monkeypatch.setattr("nnimgr.cli.trials.list_all", broken)
    with pytest.raises(KeyError):
        main(["trial", "ls"])
