"""Which experiment and which server a command means."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnimgr.cli import selection
from nnimgr.cli.main import main
from nnimgr.cli.times import when
from nnimgr.client.calls import Client
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.store.location import database_path
from tests.cli.endings import add_ended
from tests.cli.fake import CREATED_AT, FakeServer, Refused
from tests.cli.terminals import in_a_pipe, in_a_terminal

CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
goal: maximize
tuner: {name: Random}
trainingService: {platform: local}
"""


def chosen(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["experiment", "show", *words, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["id"])


def test_an_experiment_is_named_by_id_name_or_the_beginning_of_its_id(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for experiment_id, name in (("abc", "first"), ("abcdef", "second"), ("xyz", "abcd")):
        server.add(experiment_id)
        Index(server.home).update(experiment_id, name=name)
    words = ("abc", "abcde", "abcd", "x", "second")
    assert [chosen(capsys, word) for word in words] == ["abc", "abcdef", "xyz", "xyz", "abcdef"]
    assert main(["experiment", "show", "secnod"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment 'secnod'; did you mean 'second'?\n"
        "  See: nnictl experiment list --all\n"
    )
    assert main(["experiment", "show", "ab"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "ERROR: 'ab' is ambiguous: it fits 2 experiments."
    assert [line.split()[0] for line in told[1:3]] == ["abcdef", "abc"]
    assert told[3] == "  Name one of them by its id: nnictl experiment show abcdef"
    Index(server.home).update("abcdef", status="STOPPED")  # the older one is more likely to be meant
    assert main(["experiment", "show", "ab"]) == 1
    assert capsys.readouterr().err.endswith("  Name one of them by its id: nnictl experiment show abc\n")
    for verb in (["experiment", "delete"], ["resume"], ["view"]):  # only for those that are stopped
        assert main([*verb, "ab"]) == 1
        assert capsys.readouterr().err.endswith(f"by its id: nnictl {' '.join(verb)} abcdef\n")


@pytest.mark.parametrize(
    ("status", "other", "to_stop", "only_reads"),
    [
        ("STOPPED", None, False, True),
        ("STOPPED", "STOPPED", False, True),
        ("STOPPED", "DONE", False, False),  # the started server opens the other experiment, and stays
        ("STOPPED", None, True, False),
        ("RUNNING", None, False, False),
    ],
)
def test_a_server_that_is_started_for_a_stopped_experiment_only_reads(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    other: str | None,
    to_stop: bool,
    only_reads: bool,
) -> None:
    def connect(home: Home, port: int, *, only_reads: bool) -> Client:
        started.append((port, only_reads))
        return Client("http://127.0.0.1", path=Path("socket"), token="")

    server, started = FakeServer(home), list[tuple[int, bool]]()
    monkeypatch.setattr(selection, "connect", connect)
    server.add("abc", status=status)
    if other is not None:
        server.add("def", status=other)
    selection.client_of(home, Index(home).entries()["abc"], to_stop=to_stop)
    assert started == [(server.port, only_reads)]


def test_a_server_that_is_started_to_stop_an_experiment_may_have_any_port(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(home: Home, port: int, *, only_reads: bool) -> Client:
        return Client(f"http://127.0.0.1:{port}", path=Path("socket"), token="")

    FakeServer(home).add("abc")
    monkeypatch.setattr(selection, "connect", connect)
    monkeypatch.setattr(selection, "usable_port", lambda home, port: port + 1)
    entry = Index(home).entries()["abc"]
    ports = [selection.client_of(home, entry, to_stop=to_stop).port for to_stop in (False, True)]
    assert ports[1] == ports[0] + 1


def test_every_verb_takes_a_name(server: FakeServer) -> None:
    server.add("abcdef", status="STOPPED")
    for words in (["experiment", "tag", "abc", "x"], ["experiment", "archive", "abc"], ["resume", "abc"]):
        assert main(words) == 0
    assert main(["stop", "a name"]) == 0
    assert main(["experiment", "delete", "abc", "--yes"]) == 0


def test_one_that_is_done_does_not_run(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("done", status="DONE")
    assert chosen(capsys) == "done"
    server.add("failed", status="ERROR")
    assert chosen(capsys) == "failed"
    assert main(["update", "trialnum", "-v", "9"]) == 1
    assert "There are multiple experiments" in capsys.readouterr().err
    Index(server.home).update("failed", status="VIEWED")  # which cannot be changed
    assert main(["update", "trialnum", "-v", "9"]) == 0
    assert ("PATCH", "experiments/done") in [request[:2] for request in server.requests]
    capsys.readouterr()
    server.add("runs")
    assert chosen(capsys) == "runs"
    assert main(["stop"]) == 0
    assert server.requests[-1][1] == "experiments/runs/stop"


async def test_a_failed_start_is_not_hidden_by_an_older_experiment(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command without an id must not show an old experiment to a user whose new one has just failed."""
    server.add("old", status="DONE")
    await add_ended(server, "bad", tmp_path, "failures")
    started = f"started {when(CREATED_AT)}"
    assert chosen(capsys) == "bad"
    assert main(["update", "trialnum", "-v", "9"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "ERROR: There are multiple experiments, please set the experiment id..."
    assert told[1].startswith("  bad  a name  STOPPED: the first trial failed: ") and told[1].endswith(
        started
    )
    assert told[2].split()[:4] == ["old", "a", "name", "DONE"]
    assert max(map(len, told[1:3])) <= 80
    again = "nnictl resume bad && nnictl update trialnum bad -v 9"
    assert told[-1] == f"  Resume one of them first: {again}"
    assert main(["experiment", "list"]) == 0
    warned = "WARNING: Not listed: bad, the newest experiment, is STOPPED: "
    assert capsys.readouterr().err.startswith(warned)
    seen = in_a_terminal("top")
    assert [line.split()[0] for line in seen.lines[1:3]] == ["old", "bad"]
    assert "WARNING: Experiment bad is STOPPED: " in seen.text
    assert main(["stop"]) == 0
    assert server.requests[-1][1] == "experiments/old/stop"


async def test_a_failed_start_is_meant_if_no_other_experiment_is_open(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("old", status="STOPPED")
    await add_ended(server, "bad", tmp_path, "failures")
    assert chosen(capsys) == "bad"
    assert main(["update", "trialnum", "-v", "9"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "ERROR: There is no experiment running."
    assert told[3].endswith("the latest: nnictl resume bad && nnictl update trialnum bad -v 9")
    Index(server.home).update("bad", archived=True)
    assert main(["experiment", "show"]) == 1
    Index(server.home).update("bad", archived=False)
    server.add("runs")
    assert chosen(capsys) == "runs"


async def test_a_stopped_experiment_that_no_id_has_chosen_is_named_to_people(
    server: FakeServer, tmp_path: Path
) -> None:
    await add_ended(server, "bad", tmp_path, "failures")
    told = 'INFO: No experiment is running. This is "a name" (bad), the newest that no user stopped '
    told += "while it ran."
    for words, is_told in ((("trial", "ls"), True), (("trial", "ls", "bad"), False)):
        seen = await asyncio.to_thread(in_a_terminal, *words, columns=120)
        assert (seen.code, told in seen.lines) == (0, is_told)
    assert told not in (await asyncio.to_thread(in_a_pipe, "trial", "ls")).text
    await add_ended(server, "newest", tmp_path, "user")
    for said in ("a user stopped it while it ran", "its files are gone", "it is archived"):
        if said == "its files are gone":
            database_path(tmp_path / "newest").unlink()
        Index(server.home).update("newest", archived=said == "it is archived")
        seen = await asyncio.to_thread(in_a_terminal, "trial", "ls", columns=200)
        assert f'{told} "a name" (newest) is newer, but {said}.' in seen.lines
    server.add("runs")
    assert "INFO" not in (await asyncio.to_thread(in_a_terminal, "trial", "ls")).text


def test_help_says_which_experiment_is_chosen_without_an_id(capsys: pytest.CaptureFixture[str]) -> None:
    readers = (["trial", "ls"], ["experiment", "show"], ["experiment", "save"])
    changers = (["update", "trialnum"], ["trial", "add"], ["machine", "ls"], ["stop"])
    for verbs, rule in (
        (readers, "the newest that no user stopped while it ran"),
        (changers, "the one that is DONE, if there is just one"),
    ):
        for words in verbs:
            with pytest.raises(SystemExit):
                main([*words, "--help"])
            told = " ".join(capsys.readouterr().out.split())
            assert f"(default: the running one; else {rule})" in told


@pytest.mark.parametrize("how", ["user", "done", "error"])
async def test_an_older_experiment_is_chosen_if_a_user_has_stopped_the_newest(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    server.add("old", status="DONE")
    await add_ended(server, "new", tmp_path, how)
    assert chosen(capsys) == ("old" if how == "user" else "new")


@pytest.mark.parametrize(("how", "code"), [("done", 0), ("user", 1), ("again", 1)])
async def test_the_last_experiment_is_chosen_if_it_has_ended_by_itself(
    server: FakeServer, tmp_path: Path, how: str, code: int
) -> None:
    await add_ended(server, "new", tmp_path, how)
    assert (await asyncio.to_thread(in_a_pipe, "trial", "ls")).code == code


def test_what_to_do_if_nothing_runs(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("old", status="STOPPED")
    assert main(["trial", "ls"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment running.\n"
        f"  old  a name  STOPPED  started {when(CREATED_AT)}\n"
        "  Name one, for example the latest: nnictl trial ls old\n"
        "  See all: nnictl experiment list --all\n"
    )
    assert main(["stop"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no experiment running.\n  See the stopped ones: nnictl experiment list --all\n"
    )


@pytest.mark.parametrize(
    ("status", "mend"),
    [
        ("RUNNING", "See what the experiment does: nnictl experiment status abc"),
        ("DONE", "Resume it, then repeat: nnictl resume abc && nnictl update trialnum abc -v 3"),
        (
            "VIEWED",
            "End the view, then resume it: nnictl stop abc && nnictl resume abc && "
            "nnictl update trialnum abc -v 3",
        ),
    ],
)
def test_a_refusal_ends_with_what_to_do(
    server: FakeServer, capsys: pytest.CaptureFixture[str], status: str, mend: str
) -> None:
    server.add("abc", status=status)
    server.refuse["experiments/abc"] = Refused(409, "No.")
    assert main(["update", "trialnum", "abc", "-v", "3"]) == 1
    assert capsys.readouterr().err == f"ERROR: No.\nERROR: Update trialnum failed!\n  {mend}\n"
    assert main(["update", "trialnum", "abc", "-v", "3", "--json"]) == 1
    again = f"{mend} --json" if mend.endswith("-v 3") else mend
    assert json.loads(capsys.readouterr().out)["error"]["mend"] == again


def test_a_suggested_command_keeps_its_arguments(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A suggestion can be pasted: it has the experiment's id in place of what the user has typed."""
    for experiment_id in ("abcde", "abcdf"):
        server.add(experiment_id)
    words = ["experiment", "export", "-f", "a b.csv"]
    for named in ([*words, "abc"], ["experiment", "export", "abc", "-f", "a b.csv"]):
        assert main(named) == 1
        assert capsys.readouterr().err.endswith("by its id: nnictl experiment export abcdf -f 'a b.csv'\n")
    assert main(words) == 1
    assert capsys.readouterr().err.endswith("Name one of them: nnictl experiment export abcdf -f 'a b.csv'\n")


def test_a_suggestion_keeps_other_arguments_in_their_places(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for experiment_id in ("abcde", "abcdf"):
        server.add(experiment_id)
    for typed, suggested in (
        ("trial get -T 12 --file model.pt", "trial get abcdf -T 12 --file model.pt"),
        ("trial lost -T 12 abc -y", "trial lost abcdf -T 12 -y"),
        ("machine drain --undo gpu7", "machine drain gpu7 abcdf --undo"),
        ("tensorboard stop abc kX3f9", "tensorboard stop abcdf kX3f9"),
        ("experiment tag abc a b", "experiment tag abcdf a b"),
    ):
        assert main(typed.split()) == 1
        assert capsys.readouterr().err.endswith(f": nnictl {suggested}\n")


def test_a_suggested_option_replaces_every_spelling(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    for typed in ("-v 0", "-v0", "--value 0", "--value=0"):
        assert main(["update", "trialnum", "abc", *typed.split()]) == 1
        assert capsys.readouterr().err.endswith("For example: nnictl update trialnum abc --value 10\n")


@pytest.mark.parametrize(
    "words",
    [
        "update trialnum --value 9",
        "trial pause -T 0",
        "trial retry --failed",
        "trial lost -T 0 -y",
        "machine add --host gpu7",
    ],
)
def test_a_change_of_a_stopped_experiment_needs_a_resume(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    server.add("old", status="STOPPED")
    assert main(words.split()) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "ERROR: There is no experiment running."
    begin = "  Resume one first, for example the latest: nnictl resume old && nnictl "
    assert told[2].startswith(begin) and " old" in told[2].removeprefix(begin)


def test_a_trial_of_an_experiment_that_no_server_has_open(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished experiment is not open after its server was killed and started again."""
    for served, mend in (
        (True, "See the trials: nnictl trial ls abc"),
        (False, "Resume it, then repeat: nnictl resume abc && nnictl trial retry abc --failed"),
    ):
        server.experiments.clear()
        Index(server.home).remove("abc")
        server.add("abc", status="DONE", served=served)
        server.refuse["experiments/abc/rerun"] = Refused(409, "No.")
        assert main(["trial", "retry", "--failed"]) == 1
        assert capsys.readouterr().err == f"ERROR: No.\n  {mend}\n"


def test_a_machine_of_an_ended_experiment(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", status="DONE", drain="budget", counts={"SUCCEEDED": 10})
    server.refuse["experiments/abc/machines/foo"] = Refused(409, "It has ended.")
    assert main(["machine", "remove", "foo"]) == 1
    assert capsys.readouterr().err == "ERROR: It has ended.\n  See its trials: nnictl trial ls abc\n"
    Index(server.home).update("abc", platform="remote")
    assert main(["machine", "remove", "foo"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: It has ended.\n"
        "  Let it continue: nnictl update trialnum abc --value 20\n"
        "  Then repeat: nnictl machine remove foo abc\n"
    )


@pytest.mark.parametrize("names", ["foo abcdef", "abcdef foo", "foo abc", "abc foo"])
def test_machine_and_experiment_may_be_named_in_either_order(server: FakeServer, names: str) -> None:
    server.add("abcdef")
    server.refuse["experiments/abcdef/machines/foo"] = Refused(409, "It has ended.")
    assert main(["machine", "remove", *names.split()]) == 1
    assert server.requests[-1] == ("DELETE", "experiments/abcdef/machines/foo", None)


def test_where_the_machines_of_an_ended_experiment_are_shown(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc", status="DONE")
    server.refuse["experiments/abc/machines"] = Refused(409, "It is not open.")
    assert main(["machine", "ls"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: It is not open.\n"
        "  What its machines have used is on the page Resources of the dashboard: nnictl webui url abc\n"
    )


# ---- the dashboard's address ------------------------------------------------------------------------------


def test_an_idle_server_has_an_address(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["webui", "url"]) == 0
    assert capsys.readouterr().out == f"http://127.0.0.1:{server.port}/login#code=CODE\n"


def test_a_server_with_several_experiments_has_one_address(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    server.add("def")
    assert main(["webui", "url", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] is None


def test_a_server_that_soon_leaves(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", status="STOPPED")
    assert main(["webui", "url", "abc"]) == 0
    assert "To look at a stopped experiment for longer: nnictl view abc" in capsys.readouterr().err
    server.add("def")
    assert main(["webui", "url", "abc"]) == 0
    assert capsys.readouterr().err == ""


def test_several_servers(server: FakeServer, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(home).running() as other:
        assert main(["webui", "url"]) == 1
        first = min(server.port, other.port)
        told = capsys.readouterr().err
        assert "Several servers run" in told and f"nnictl webui url --port {first}" in told
        assert main(["webui", "url", "--port", str(other.port)]) == 0
        assert f":{other.port}/" in capsys.readouterr().out
        server.add("abc")
        assert main(["webui", "url"]) == 0
        assert f":{server.port}/" in capsys.readouterr().out


def test_no_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["webui", "url"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: No server runs.\n  Start one: nnictl create --config exp.yml\n"
        "  Or without an experiment: nnimgr serve\n"
    )


# ---- readers that go away ---------------------------------------------------------------------------------


def test_create_finishes_without_a_reader(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "exp.yml").write_text(CONFIG)
    command = [sys.executable, "-m", "nnimgr.cli.main", "create", "-c", "exp.yml", "--id", "abc"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*command, "--port", str(server.port)],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "abc" in server.experiments


def test_an_archived_experiment_is_only_chosen_by_its_id(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for experiment_id, archived in (("older", False), ("newer", True)):
        server.add(experiment_id, status="DONE")
        Index(server.home).update(experiment_id, archived=archived)
    assert chosen(capsys) == "older"
    assert chosen(capsys, "newer") == "newer"


def test_a_suggestion_for_another_experiment_has_no_words_that_were_not_typed(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc1")
    server.add("abc2")
    assert main(["experiment", "tag", "abc"]) == 1
    assert capsys.readouterr().err.endswith("Name one of them by its id: nnictl experiment tag abc2\n")
