"""Commands about TensorBoards."""

from __future__ import annotations

import json

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer, Refused, trial


@pytest.fixture
def two(server: FakeServer) -> FakeServer:
    server.add("abc").trials = [trial("ta", 0), trial("tb", 1)]
    return server


def test_start_names_the_address_and_how_to_stop_it(
    two: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tensorboard", "start", "--trial_id", "0"]) == 0
    assert two.requests[-1] == ("POST", "experiments/abc/tensorboards", {"trialIds": ["ta"]})
    assert capsys.readouterr().out == (
        "INFO: TensorBoard task0 starts. It shows 1 trial.\n"
        f"http://127.0.0.1:{two.port}/tensorboard/task0/\n"
        "INFO: A browser has to be signed in: nnictl webui url\n"
        "Stop it: nnictl tensorboard stop abc task0\n"
    )
    for words in (["-T", "0,tb"], ["-T", "0", "-T", "1"]):
        assert main(["tensorboard", "start", "abc", *words]) == 0
        assert two.requests[-1][2] == {"trialIds": ["ta", "tb"]}
    for words in ([], ["--trial_id", "all"]):
        assert main(["tensorboard", "start", *words]) == 0
        assert two.requests[-1][2] == {"trialIds": None}
    capsys.readouterr()
    assert main(["tensorboard", "start", "--json"]) == 0
    url = json.loads(capsys.readouterr().out)["url"]
    assert url == f"http://127.0.0.1:{two.port}/tensorboard/task5/"


def test_list_and_stop(two: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tensorboard", "list"]) == 0
    assert "nnictl tensorboard start abc" in capsys.readouterr().out
    for number in "01":
        assert main(["tensorboard", "start", "-T", number]) == 0
    two.experiments["abc"].tensorboards[1] |= {"status": "ERROR", "message": "TensorBoard was killed."}
    capsys.readouterr()
    assert main(["tensorboard", "list", "abc"]) == 0
    head, first, second, message = capsys.readouterr().out.splitlines()
    assert head.split() == ["TASK", "STATUS", "TRIALS", "STARTED", "ADDRESS"]
    assert first.startswith("task0  RUNNING") and first.endswith("/tensorboard/task0/")
    assert second.startswith("task1  ERROR") and "/tensorboard/" not in second
    assert message == "task1: TensorBoard was killed."
    assert main(["tensorboard", "stop", "abc"]) == 0
    assert capsys.readouterr().out == "INFO: TensorBoard task0 is stopped.\n"
    assert main(["tensorboard", "stop", "abc", "task1", "--json"]) == 0
    assert two.requests[-1][:2] == ("DELETE", "experiments/abc/tensorboards/task1")
    assert json.loads(capsys.readouterr().out) == {"stopped": ["task1"]}
    two.experiments["abc"].tensorboards.clear()
    assert main(["tensorboard", "stop"]) == 0
    assert capsys.readouterr().out == "INFO: No TensorBoard of experiment abc runs.\n"


def test_errors_end_with_a_command(two: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tensorboard", "start", "-T", "7"]) == 1
    assert capsys.readouterr().err.endswith("See: nnictl trial ls abc\n")
    sentence = "TensorBoard is not installed. Install it: python -m pip install tensorboard"
    two.refuse["experiments/abc/tensorboards"] = Refused(409, sentence)
    assert main(["tensorboard", "start"]) == 1
    assert sentence in capsys.readouterr().err
