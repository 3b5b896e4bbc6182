"""``nnictl stop``: the selected experiments, and the messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.home import Home
from nnimgr.index import Index
from tests.cli.fake import FakeServer, Refused, Told
from tests.cli.terminals import in_a_terminal
from tests.cli.test_at_rest import folder


def stopped(server: FakeServer) -> list[str]:
    return [path.split("/")[1] for method, path, _ in server.requests if path.endswith("/stop")]


def test_nnis_words(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == "INFO: Stopping experiment abc\nINFO: Stop experiment success.\n"
    assert server.requests[-1] == ("POST", "experiments/abc/stop", {"detach": False})


def test_a_server_that_stays_for_a_tensorboard(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    server.tensorboards = ["abc"]
    assert main(["stop"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"INFO: The server on port {server.port} stays, because TensorBoard shows experiment abc. To end "
        "TensorBoard: nnictl tensorboard stop abc",
        "INFO: Stop experiment success.",
    ]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["abc1"], ["abc1"]),
        (["de"], ["def"]),
        (["abc*"], ["abc1", "abc2"]),
        (["--all"], ["abc1", "abc2", "def"]),
        (["--port", "PORT"], ["abc1", "abc2", "def"]),
        (["def", "--port", "PORT"], ["def"]),
    ],
)
def test_who_is_meant(server: FakeServer, arguments: list[str], ids: list[str]) -> None:
    for experiment_id in ("abc1", "abc2", "def"):
        server.add(experiment_id)
    server.add("abc3", status="STOPPED")
    assert main(["stop", *(word.replace("PORT", str(server.port)) for word in arguments)]) == 0
    assert stopped(server) == ids


def test_a_whole_name_is_not_the_beginning_of_an_id(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc2")
    server.add("xyz", status="STOPPED")
    Index(server.home).update("xyz", name="abc")
    assert main(["stop", "abc"]) == 0
    assert stopped(server) == [] and capsys.readouterr().out == "INFO: Stop experiment success.\n"
    server.add("uvw")
    Index(server.home).update("uvw", name="abc")
    assert main(["stop", "abc"]) == 0
    assert stopped(server) == ["uvw"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--all", "def"], "you gave both, 'def' and --all.\n  Stop only this one: nnictl stop def\n"),
        (["--all", "--port", "1"], "There is no experiment running on port 1."),
        (["all"], "Stop all experiments: nnictl stop --all"),
        (["x"], "There is no experiment 'x'."),
        (["x*"], "There is no experiment running whose id or name begins with 'x'."),
        (["abc"], "'abc' is ambiguous: it fits 2 experiments."),
        ([], "There are multiple experiments"),
        (["def", "--port", "1"], "Experiment id and port do not match"),
        (["--port", "1"], "There is no experiment running on port 1."),
    ],
)
def test_who_is_not(
    server: FakeServer, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    for experiment_id in ("abc1", "abc2", "def"):
        server.add(experiment_id)
    server.add("gone", status="STOPPED")
    assert main(["stop", *arguments]) == 1
    assert sentence in capsys.readouterr().err
    assert stopped(server) == []


def test_a_star_fits_names_too(server: FakeServer) -> None:
    for experiment_id, name in (("abc", "first"), ("fir", ""), ("def", "second")):
        server.add(experiment_id)
        Index(server.home).update(experiment_id, name=name)
    assert main(["stop", "fir*"]) == 0
    assert stopped(server) == ["abc", "fir"]


def test_of_several_the_newest_is_suggested(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    for at, experiment_id in enumerate(("abc1", "abc2", "def")):
        server.add(experiment_id)
        Index(server.home).update(experiment_id, started_at=datetime(2026, 1, 9 - at, tzinfo=UTC))
    for words in (["stop"], ["stop", "abc"]):
        assert main(words) == 1
        assert capsys.readouterr().err.endswith(": nnictl stop abc1\n")


def test_detached_trials_are_listed(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").still_running = ["ta", "tb"]
    assert main(["stop", "--detach"]) == 0
    assert "These trials continue: ta, tb. To manage them again: nnictl resume abc" in capsys.readouterr().out
    assert server.requests[-1][2] == {"detach": True}


def test_listed_trials_have_their_numbers(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc").still_running = ["ta", "unknown"]
    folder(tmp_path, "abc")
    Index(server.home).update("abc", log_dir=str(tmp_path))
    assert main(["stop", "--detach"]) == 0
    assert "These trials continue: 0 (ta), unknown." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unsaved", "told"),
    [
        (["ta"], "1 trial had saved nothing, and was canceled: ta."),
        (["ta", "tb"], "2 trials had saved nothing, and were canceled: ta, tb."),
    ],
)
def test_trials_that_have_saved_nothing_are_listed(
    server: FakeServer, capsys: pytest.CaptureFixture[str], unsaved: list[str], told: str
) -> None:
    server.add("abc").unsaved = unsaved
    assert main(["stop", "--save"]) == 0
    again = "To run the parameters again, from the beginning: nnictl resume abc"
    assert capsys.readouterr().err == f"WARNING: {told} {again}\n"
    assert server.requests[-1][2] == {"detach": False, "save": True}
    assert main(["stop", "--save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stopped"][0]["unsaved"] == unsaved


def test_one_that_cannot_be_stopped_keeps_no_other_from_it(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    server.add("def")
    server.refuse["experiments/abc/stop"] = Refused(409, "It does not want to.")
    assert main(["stop", "--all"]) == 1
    printed = capsys.readouterr()
    assert printed.err == (
        "ERROR: It does not want to.\n  See what the experiment does: nnictl experiment status abc\n"
    )
    assert stopped(server) == ["abc", "def"]
    assert main(["stop", "--all", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["stopped"][0] == {"id": "abc", "error": "It does not want to."}


def test_stopping_all_of_nothing_is_done(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "--all"]) == 0
    assert capsys.readouterr().out == "INFO: There is no experiment running.\n"


@pytest.mark.parametrize(("arguments", "told"), [([], False), (["--all"], True)])
def test_stopping_all_names_detached_trials(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: bool
) -> None:
    for experiment_id, trial in (("abc", "RUNNING"), ("def", "SUCCEEDED")):
        server.add(experiment_id, status="STOPPED")
        folder(tmp_path, experiment_id, trial=trial)
        Index(server.home).update(experiment_id, log_dir=str(tmp_path))
    main(["stop", *arguments])
    sentence = "Trials of experiment abc may still run, though it is stopped. To stop them: nnictl stop abc"
    assert (capsys.readouterr().err == f"WARNING: {sentence}\n") is told


def test_what_a_stop_waits_for_is_told(server: FakeServer, told: Told) -> None:
    server.add("abc", now="1 trial ends")
    server.hold["POST", "experiments/abc/stop"] = told.event("1 trial ends.")
    assert main(["stop"]) == 0


def test_a_stopped_experiment_needs_no_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    FakeServer(home).add("abc", status="STOPPED")
    assert main(["stop", "abc"]) == 0
    assert capsys.readouterr().out == "INFO: Stop experiment success.\n"
    assert in_a_terminal("stop", "abc").text == "INFO: Experiment abc was stopped before.\n"
    assert home.servers() == []
