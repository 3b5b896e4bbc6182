"""Experiments that do not run: ``view``, ``experiment delete``, ``config show``, folders from elsewhere."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli.main import main
from nnimgr.cli.stored import to_resume
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.store import schema
from tests.cli.endings import add_ended
from tests.cli.fake import FakeServer
from tests.core.nni_past import record, write_nni

STAMP = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "
CONFIG = {"experimentName": "mine", "trialCommand": "true", "trainingService": {"platform": "local"}}
SPACE = {"x": {"_type": "choice", "_value": [1]}}

Answers = Callable[[str], None]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return the list of the user's answers."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def folder(directory: Path, experiment_id: str, *, trial: str = "SUCCEEDED") -> Path:
    """Make an experiment's folder with a database, and nothing else."""
    path = directory / experiment_id / "db" / "nnimgr.sqlite"
    path.parent.mkdir(parents=True)
    row: dict[str, Any] = {
        "experiment_id": experiment_id,
        "db_id": "",
        "m_epoch": 1,
        "config": json.dumps(CONFIG),
        "search_space": json.dumps(SPACE),
        "status": "STOPPED",
        "reason": "",
        "created_at": 1_700_000_000_000_000,
        "active_us": 0,
        "next_sequence": 1,
        "counts": "{}",
        "last_number": 3,
    }
    with closing(sqlite3.connect(path)) as database:
        from sqlalchemy.dialects import sqlite
        from sqlalchemy.schema import CreateTable

        for table in (schema.experiments, schema.trials):
            database.execute(str(CreateTable(table).compile(dialect=sqlite.dialect())))
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        database.execute(f"INSERT INTO experiments ({names}) VALUES ({marks})", list(row.values()))
        database.execute(
            "INSERT INTO trials (experiment_id, trial_id, sequence, status, source, parameters, attempt, "
            "created_at, intermediates) VALUES (?, 'ta', 0, ?, 'algorithm', '{}', 1, 0, 0)",
            (experiment_id, trial),
        )
        database.commit()
    return path.parent.parent


def test_view(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", status="STOPPED")
    assert main(["view", "abc"]) == 0
    lines = [re.sub(f"^{STAMP}", "", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == [
        "Viewing experiment, Experiment ID: abc",
        f"Web portal URLs: http://127.0.0.1:{server.port}/login#code=CODE",
        'To stop experiment run "nnictl stop abc" or "nnictl stop --all"',
    ]
    assert server.requests[0] == ("POST", "experiments/abc/view", None)
    assert main(["view", "abc", "-p", str(server.port), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["id"], answer["port"]) == ("abc", server.port)
    assert main(["top", "abc"]) == 0
    assert "Experiment VIEWED" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["view", "resume"])
def test_who_cannot_be_taken_up(server: FakeServer, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main([verb, "abc"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment 'abc'.\n  See: nnictl experiment list --all\n"
    )
    assert main([verb]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment yet.\n  Start one: nnictl create --config exp.yml\n"
    )
    server.add("abc")
    assert main([verb, "abc", "--port", "1"]) == 1
    printed = capsys.readouterr().err
    assert f"is served on port {server.port} already" in printed
    assert f"first: nnictl stop abc && nnictl {verb} abc --port 1\n" in printed


def test_who_can_be_taken_up(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    for at, status in enumerate(("STOPPED", "DONE", "VIEWED", "RUNNING", "ERROR")):
        server.add(f"e{at}", status=status)
        Index(server.home).update(f"e{at}", started_at=datetime(2026, 1, 2, 3, at, tzinfo=UTC))
    for verb, ids in (("resume", ["e4", "e1", "e0"]), ("view", ["e0"])):
        assert main([verb, "--json"]) == 1
        printed = capsys.readouterr()
        first, *listed, mend, _ = printed.err.splitlines()
        assert first == "ERROR: Which experiment is meant? None is named."
        assert [line.split()[0] for line in listed] == ids
        assert mend == f"  Name one, for example the latest: nnictl {verb} {ids[0]} --json"
    for experiment_id in ("e0", "e1", "e4"):
        Index(server.home).update(experiment_id, status="RUNNING")
    assert main(["resume"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: No experiment is named, and none is STOPPED or DONE or ERROR.\n"
        "  See all: nnictl experiment list --all\n"
    )


def test_an_experiment_that_has_lost_its_server_needs_no_name(server: FakeServer) -> None:
    server.add("old", status="STOPPED")
    server.add("runs")
    server.add("lost")
    Index(server.home).update("lost", port=1)
    assert to_resume(server.home, None, None).id == "lost"
    server.add("other")
    Index(server.home).update("other", port=1)
    with pytest.raises(ClientError, match=r"^Several experiments continue without a server\.$") as caught:
        to_resume(server.home, None, None)
    assert [line.split()[0] for line in caught.value.plain.splitlines()] == ["other", "lost"]


async def test_a_detached_experiment_needs_no_name(server: FakeServer, tmp_path: Path) -> None:
    for experiment_id, how in (("old", "user"), ("continues", "detached"), ("new", "failures")):
        await add_ended(server, experiment_id, tmp_path, how)
    assert to_resume(server.home, None, None).id == "continues"


@pytest.mark.parametrize("verb", ["view", "resume"])
def test_a_folder_from_elsewhere_is_noted(
    server: FakeServer, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    folder(tmp_path / "usb", "abc")
    server.add("abc", status="STOPPED")  # the server will look for it
    Index(home).remove("abc")
    assert main([verb, "-e", "usb/abc", "--port", str(server.port)]) == 0
    posted = [path for method, path, _ in server.requests if method == "POST"]
    assert posted == [f"experiments/abc/{verb}", "server/login-code"]
    entry = Index(home).entries()["abc"]
    assert (entry.directory, entry.name, entry.platform) == (tmp_path / "usb" / "abc", "mine", "local")
    assert (entry.status, entry.port) == ("STOPPED", None)
    assert main([verb, "abc", "-e", "usb/abc", "--port", str(server.port)]) == 0
    capsys.readouterr()
    assert main([verb, "def", "-e", "usb/abc"]) == 1
    assert "usb/abc contains experiment abc: the folder must have this name." in capsys.readouterr().err
    other = folder(tmp_path / "other", "abc")
    Index(home).put(replace(entry, log_dir=str(other.parent)))
    assert main([verb, "-e", "usb/abc"]) == 1
    assert capsys.readouterr().err == (
        f"ERROR: There is another experiment abc in {other}.\n  Open that experiment: nnictl view abc\n"
    )
    other.parent.rename(tmp_path / "another")
    assert main([verb, "-e", "another/abc", "--port", str(server.port)]) == 0
    assert Index(home).entries()["abc"].directory == tmp_path / "another" / "abc"
    assert main([verb, "-e", "usb"]) == 1
    assert f"There is no experiment in {tmp_path / 'usb'}" in capsys.readouterr().err


def test_the_configuration_is_read_without_a_server(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path, "abc")
    with FakeServer(home).running() as server:
        server.add("abc", status="STOPPED")
    Index(home).update("abc", log_dir=tmp_path)
    assert main(["config", "show", "abc"]) == 0
    text = capsys.readouterr().out
    assert text.startswith('{\n    "experimentName":"mine",\n')
    assert json.loads(text) == {**CONFIG, "searchSpace": SPACE}
    assert main(["config", "show", "abc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["searchSpace"] == SPACE
    assert main(["config", "show"]) == 1
    assert "There is no experiment running." in capsys.readouterr().err
    (tmp_path / "abc" / "db" / "nnimgr.sqlite").write_text("no database")
    assert main(["config", "show", "abc"]) == 1
    assert "file is not a database" in capsys.readouterr().err


def test_delete_asks_first(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: Answers
) -> None:
    directory = folder(tmp_path, "abc")
    with FakeServer(home).running() as server:
        server.add("abc", status="STOPPED")
    Index(home).update("abc", log_dir=tmp_path)
    for text in ("", "\n", "n\n", "maybe\n"):
        answers(text)
        assert main(["experiment", "delete", "abc"]) == 1
        asked = f"abc: {directory}\nDelete all of this for good? [y/N]: "
        assert capsys.readouterr().err == (
            f"{asked}ERROR: Nothing was deleted.\n"
            "  Delete without a question: nnictl experiment delete abc --yes\n"
        )
        assert directory.exists()
    answers("y\n")
    assert main(["experiment", "delete", "abc"]) == 0
    assert capsys.readouterr().out == "INFO: Delete experiment abc success.\n"
    assert not directory.exists()
    assert Index(home).entries() == {}


def test_delete_does_not_ask_about_an_open_experiment(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: Answers
) -> None:
    server.add("abc", status="DONE")
    server.add("runs")
    assert main(["experiment", "delete", "abc"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: Experiment abc is DONE: only a stopped experiment can be deleted.\n"
        "  Stop it first: nnictl stop abc\n"
    )
    for experiment_id, trial in (("live", "RUNNING"), ("old", "FAILED")):
        server.add(experiment_id, status="STOPPED")
        folder(tmp_path, experiment_id, trial=trial)
        Index(server.home).update(experiment_id, log_dir=tmp_path)
    answers("y\n")
    assert main(["experiment", "delete", "--all"]) == 1
    printed = capsys.readouterr()
    question, _, refused = printed.err.partition("Delete all of this for good? [y/N]: ")
    assert question == f"old: {tmp_path / 'old'}\n"
    assert refused.count("only a stopped experiment can be deleted") == 2
    assert "1 trial of experiment live still runs: stop it first." in refused
    assert printed.out == "INFO: Delete experiment old success.\n"
    assert [path for method, path, _ in server.requests if method == "DELETE"] == ["experiments/old"]


def test_delete_all_that_were_stopped(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(home).running() as server:
        for experiment_id, trial in (("abc", "FAILED"), ("def", "PAUSED"), ("live", "RUNNING")):
            server.add(experiment_id, status="STOPPED")
            folder(tmp_path, experiment_id, trial=trial)
            Index(home).update(experiment_id, log_dir=tmp_path)
        server.add("runs")
    assert main(["experiment", "delete", "--all", "--yes", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "deleted": [
            {"id": "abc"},
            {"id": "def"},
            {"id": "live", "error": "1 trial of experiment live still runs: stop it first."},
            {"id": "runs", "error": "Experiment runs is RUNNING: only a stopped experiment can be deleted."},
        ]
    }
    assert list(Index(home).entries()) == ["live", "runs"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["home", "live"]


def test_delete_leaves_it_to_a_server_that_runs(
    server: FakeServer, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc", status="STOPPED")
    assert main(["experiment", "delete", "abc", "-y"]) == 0
    assert server.requests[-1] == ("DELETE", "experiments/abc", None)
    assert Index(home).entries() == {}


def test_delete_leaves_it_to_a_server_that_may_have_read_it(
    server: FakeServer, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.cli.experiments.DEFAULT_PORT", server.port)
    monkeypatch.setattr("nnimgr.cli.selection.DEFAULT_PORT", server.port)
    server.add("abc", status="STOPPED")
    Index(home).update("abc", port=None)  # as after an import
    assert main(["experiment", "delete", "abc", "-y"]) == 0
    assert server.requests[-1] == ("DELETE", "experiments/abc", None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name one experiment, or give --all: you gave neither."),
        (["abc", "--all"], "Name one experiment, or give --all: you gave both."),
        (["x"], "There is no experiment 'x'."),
    ],
)
def test_what_delete_does_not_take(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    server.add("abc", status="STOPPED")
    assert main(["experiment", "delete", *words, "-y"]) == 1
    assert capsys.readouterr().err == f"ERROR: {sentence}\n  See: nnictl experiment list --all\n"


def test_what_nni_itself_has_run(
    server: FakeServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.add("abc", status="STOPPED")
    entry = replace(Index(server.home).entries()["abc"], id="old", log_dir=str(tmp_path), status="DONE")
    Index(server.home).put(replace(entry, pid=None))
    database = tmp_path / "old" / "db" / "nni.sqlite"
    database.parent.mkdir(parents=True)
    database.touch()
    for command in (
        ["view", "old"],
        ["resume", "old"],
        ["view", "-e", str(tmp_path / "old")],
        ["stop", "old"],
        ["trial", "ls", "old"],
        ["config", "show", "old"],
        ["experiment", "export", "old"],
    ):
        assert main(command) == 1
        assert capsys.readouterr().err == (
            "ERROR: Experiment old, which NNI has run, cannot be converted: NNI's database "
            f"{database} cannot be read: no such table: ExperimentProfile.\n"
            "  See: nnictl experiment list --all\n"
        )
    assert server.requests == []
    Index(server.home).put(replace(entry, status="STOPPED"))
    assert main(["experiment", "delete", "old", "--yes"]) == 0
    assert not database.exists() and list(Index(server.home).entries()) == ["abc"]


def test_what_nni_has_run_is_converted(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc", status="STOPPED")
    write_nni(tmp_path / "brought", events=[(1, "aaaaA", "RUNNING", record(0), 0)])
    entry = replace(Index(server.home).entries()["abc"], id="brought", log_dir=str(tmp_path))
    Index(server.home).put(replace(entry, status="RUNNING", pid=None))
    for sentence in (
        "Experiment brought was run by NNI and is now converted. NNI's own files are unchanged.\n",
        "",
    ):
        assert main(["config", "show", "brought", "--json"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["trialCommand"] == "true" and shown.err == sentence
    assert Index(server.home).entries()["brought"].status == "STOPPED"
