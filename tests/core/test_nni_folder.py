"""Folders that NNI has written: converted once, complete, and then like any other experiment's."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nnimgr.core.managing.nni_folder import adopt, convert_nnis
from nnimgr.core.running.requests import RequestRefused
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f
from nnimgr.rules.validate import validate
from nnimgr.store.reader import ExperimentReader
from tests.core.lab import until_status
from tests.core.nni_past import BEGIN, params, record, write_nni
from tests.core.test_manager import Server

S = f.TrialStatus
START = datetime.fromtimestamp(BEGIN / 1000, UTC)


def at(milliseconds: int) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "work" / "nniexp01"


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def entry_of(folder: Path, **changes: object) -> IndexEntry:
    entry = IndexEntry(
        id=folder.name,
        port=8080,
        started_at=START,
        ended_at=None,
        status="RUNNING",
        platform="local",
        name="old",
        log_dir=str(folder.parent),
    )
    return dataclasses.replace(entry, **changes)  # type: ignore[arg-type]


EVENTS = [
    (10, "aaaaA", "RUNNING", record(0, 0.25), 0),
    (11, "bbbbB", "RUNNING", record(1, 1e-7), 1),
    (30, "aaaaA", "SUCCEEDED", None, 0),
    (31, "", "IMPORT_DATA", '[{"parameter": {"x": 1}, "value": 2}]', None),
    (32, "", "ADD_CUSTOMIZED", "{}", None),
    (40, "bbbbB", "FAILED", None, 1),
    (41, "ccccC", "WAITING", record(2, source="customized"), 2),
    (42, "ccccC", "RUNNING", None, 2),
    (43, "ccccC", "USER_TO_CANCEL", None, 2),
    (50, "ccccC", "USER_CANCELED", None, 2),
    (51, "ddddD", "RUNNING", record(3), 3),
    (60, "ddddD", "EARLY_STOPPED", None, 3),
    (61, "eeeeE", "WAITING", record(4), 4),
]
METRICS = [
    (20, "aaaaA", "PERIODICAL", 0, 0.5),
    (25, "aaaaA", "FINAL", 0, {"default": 0.75, "other": "ü"}),
    (26, "bbbbB", "PERIODICAL", 0, float("nan")),
    (27, "bbbbB", "PERIODICAL", 1, "text"),
]


@pytest.mark.parametrize("version", [2, 3])
def test_everything_that_nni_has_stored_is_converted(folder: Path, version: int) -> None:
    write_nni(folder, events=EVENTS, metrics=METRICS, version=version)
    before = hashlib.sha256((folder / "db" / "nni.sqlite").read_bytes()).digest()
    assert convert_nnis(folder) and not convert_nnis(folder)
    assert hashlib.sha256((folder / "db" / "nni.sqlite").read_bytes()).digest() == before
    reader = ExperimentReader(folder)
    _, rows = reader.trials()
    assert [(row.trial_id, row.sequence, row.status) for row in rows] == [
        ("aaaaA", 0, S.SUCCEEDED),
        ("bbbbB", 1, S.FAILED),
        ("ccccC", 2, S.USER_CANCELED),
        ("ddddD", 3, S.EARLY_STOPPED),
        ("eeeeE", 4, S.SYS_CANCELED),
    ]
    first = rows[0]
    assert (first.created_at, first.started_at, first.ended_at) == (at(10), at(10), at(30))
    assert (first.final_value, first.final_text) == (0.75, '{"default": 0.75, "other": "\\u00fc"}')
    assert rows[2].source is f.SuggestionSource.CUSTOMIZED and rows[2].parameters == '{"x": 0.5}'
    assert rows[1].parameters == '{"x": 1e-07}' and rows[4].started_at is None
    texts = [line.text for page in reader.lines() for line in page]
    assert texts == ["0.5", '{"default": 0.75, "other": "\\u00fc"}', "NaN", '"text"']
    assert reader.imports() == ['[{"parameter": {"x": 1}, "value": 2}]']
    state = reader.state()
    validate(state)
    assert (state.status, state.reason) == (f.ExperimentStatus.STOPPED, "it was stopped in NNI")
    assert state.next_sequence == 5 and state.next_parameter_id == 5 and not state.keepers
    assert len(state.trial_id(5)) == 6  # NNI's ids have five characters
    reader.close()


def test_rows_that_nni_wrote_in_another_order(folder: Path) -> None:
    events = [
        (10, "bbbbB", "RUNNING", record(1), 1),
        (12, "aaaaA", "RUNNING", record(0), 0),
        (20, "bbbbB", "SUCCEEDED", None, 1),
        (30, "aaaaA", "SUCCEEDED", None, 0),
    ]
    metrics = [
        (5, "aaaaA", "PERIODICAL", 0, 1.0),
        (25, "bbbbB", "FINAL", 0, 2.0),
        (26, "zzzzZ", "FINAL", 0, 3),
    ]
    write_nni(folder, events=events, metrics=metrics, profile=params(folder, maxTrialNumber=2), ended=99)
    assert convert_nnis(folder)
    reader = ExperimentReader(folder)
    _, rows = reader.trials()
    assert [(row.trial_id, row.status, row.final_value) for row in rows] == [
        ("aaaaA", S.SUCCEEDED, None),
        ("bbbbB", S.SUCCEEDED, 2.0),
    ]
    assert rows[1].ended_at == at(20)
    facts = reader.facts(limit=100)
    assert [fact.at for fact in facts] == sorted(fact.at for fact in facts)
    state = reader.state()
    assert (state.status, state.ended_at) == (f.ExperimentStatus.DONE, at(99))
    reader.close()


def test_logs_of_nni_3_have_the_names_that_nnimgr_reads(folder: Path) -> None:
    write_nni(folder, events=EVENTS[:1])
    theirs = folder / "environments" / "local-env" / "trials" / "aaaaA"
    theirs.mkdir(parents=True)
    (theirs / "trial.stdout").write_text("hello\n")
    (theirs / "trial.stderr").symlink_to("/etc/hostname")
    assert convert_nnis(folder)
    assert (folder / "trials" / "aaaaA" / "stdout").read_text() == "hello\n"
    assert (folder / "trials" / "aaaaA" / "stderr").is_symlink()  # which is never read


def test_a_platform_that_nnimgr_lacks_can_be_viewed(folder: Path) -> None:
    service = {"platform": "aml", "subscriptionId": "a", "storageAccountKey": "a secret"}
    write_nni(folder, events=EVENTS, profile=params(folder, trainingService=service))
    assert convert_nnis(folder)
    reader = ExperimentReader(folder)
    assert reader.state().config["trainingService"] == {"platform": "aml"}
    assert reader.trials()[0] == 5
    assert "a secret" not in (folder / "environ.json").read_text()
    reader.close()


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_a_damaged_database_is_refused_and_stays(folder: Path, content: bytes | None) -> None:
    if content is None:
        write_nni(folder, events=[(1, "aaaaA", "RUNNING", "{", 0)])
    else:
        (folder / "db").mkdir(parents=True)
        (folder / "db" / "nni.sqlite").write_bytes(content)
    with pytest.raises(RequestRefused, match="nniexp01, which NNI has run, cannot be converted: "):
        convert_nnis(folder)
    assert {path.name for path in (folder / "db").iterdir()} == {"nni.sqlite", "nnimgr.lock"}


def test_what_nni_still_runs_is_left_alone(folder: Path, server: Server) -> None:
    write_nni(folder, events=EVENTS)
    command = ["sh", "-c", "echo runs; read line", folder.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as manager:
        assert manager.stdout is not None
        manager.stdout.readline()  # only then its command line can be read
        entry = entry_of(folder, pid=manager.pid)
        Index(server.home).put(entry)
        with pytest.raises(RequestRefused, match=rf"\(process {manager.pid}\): stop it with NNI's nnictl"):
            adopt(Index(server.home), entry)
        assert [path.name for path in (folder / "db").iterdir()] == ["nni.sqlite"]
        assert manager.stdin is not None
        manager.stdin.close()
    assert adopt(Index(server.home), entry).status == "STOPPED"
    assert Index(server.home).entries()[folder.name].status == "STOPPED"


async def test_a_server_views_resumes_and_deletes_it(folder: Path, server: Server) -> None:
    write_nni(folder, events=EVENTS, metrics=METRICS, profile=params(folder.parent, maxTrialNumber=6))
    Index(server.home).put(entry_of(folder))
    async with server.manager() as manager:
        await manager.view(folder.name)
        assert manager.reader(folder.name).trials()[0] == 5
        await manager.stop(folder.name, detach=False)
        await manager.resume(folder.name)
        await until_status(manager.get(folder.name), f.ExperimentStatus.DONE)
        _, rows = manager.reader(folder.name).trials(offset=5)
        assert rows and all(len(row.trial_id) == 6 and row.sequence >= 5 for row in rows)
        await manager.stop(folder.name, detach=False)
        await manager.delete(folder.name)
    assert not list(folder.parent.iterdir())
