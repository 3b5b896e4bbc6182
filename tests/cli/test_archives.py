"""``nnictl experiment save`` and ``load``: one file that is the whole experiment, without secrets."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.index import Index, IndexEntry
from nnimgr.store.reader import ExperimentReader
from tests.cli.fake import FakeServer
from tests.core.nni_past import params, record, write_nni

EVENTS = [
    (1, "aaaaA", "RUNNING", record(0, 0.25), 0),
    (9, "aaaaA", "SUCCEEDED", None, 0),
]


@pytest.fixture
def entry(server: FakeServer, tmp_path: Path) -> IndexEntry:
    """A stopped experiment with one trial, and with files that must not be saved."""
    code = tmp_path / "code"
    (code / "sub").mkdir(parents=True)
    (code / "sub" / "train.py").write_text("print()\n")
    folder = tmp_path / "work" / "abc"
    write_nni(
        folder,
        events=EVENTS,
        metrics=[(5, "aaaaA", "FINAL", 0, 0.5)],
        profile=params(folder.parent, trialCodeDirectory=str(code)),
    )
    (folder / "keeper").mkdir()
    (folder / "keeper" / "manager.json").write_text('{"token": "a secret"}')
    (folder / "environ.json").write_text('{"environ": {"KEY": "a secret"}, "cwd": "/", "python": "python3"}')
    (folder / "trials" / "aaaaA").mkdir(parents=True)
    (folder / "trials" / "aaaaA" / "stdout").write_text("hello\n")
    (folder / "trials" / "aaaaA" / "link").symlink_to("/etc/hostname")
    server.add("abc", status="STOPPED")
    found = replace(Index(server.home).entries()["abc"], log_dir=str(folder.parent), port=None, pid=None)
    Index(server.home).put(found)
    return found


def test_an_archive_in_the_trial_code_contains_neither_itself_nor_other_experiments(
    server: FakeServer, entry: IndexEntry, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    (code / "data").write_bytes(os.urandom(1 << 20))  # so much that the archive is written before its end
    (code / "runs" / "other").mkdir(parents=True)
    (code / "runs" / "other" / "environ.json").write_text('{"environ": {"KEY": "a secret"}}')
    server.add("other", status="STOPPED")
    Index(server.home).put(replace(Index(server.home).entries()["other"], log_dir=str(code / "runs")))
    assert main(["experiment", "save", "abc", "--path", str(code), "--saveCodeDir"]) == 0
    with zipfile.ZipFile(code / "nni_experiment_abc.zip") as archive:
        names = {name for name in archive.namelist() if name.startswith("code/")}
    assert names == {"code/data", "code/sub/train.py"}


def test_what_is_saved_can_be_loaded(
    server: FakeServer, entry: IndexEntry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "save", "abc", "--path", str(tmp_path), "--saveCodeDir"]) == 0
    file = tmp_path / "nni_experiment_abc.zip"
    with zipfile.ZipFile(file) as archive:
        assert {name for name in archive.namelist() if not name.startswith("experiment/")} == {
            *("nnictl/.experiment", "searchSpace/search_space.json", "code/sub/train.py")
        }
        assert not [name for name in archive.namelist() if b"a secret" in archive.read(name)]
    capsys.readouterr()
    words = ["experiment", "load", "--path", str(file), "--logDir", str(tmp_path / "there")]
    assert main(words) == 1
    assert "There is an experiment abc already." in capsys.readouterr().err
    Index(server.home).remove("abc")
    new_code, space = tmp_path / "new", tmp_path / "space.json"
    assert main([*words, "--codeDir", str(new_code), "--searchSpacePath", str(space), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "abc", "directory": str(tmp_path / "there" / "abc")}
    assert (new_code / "sub" / "train.py").read_text() == "print()\n"
    assert "x" in json.loads(space.read_text())
    loaded = Index(server.home).entries()["abc"]
    assert (loaded.status, loaded.port, loaded.directory) == ("STOPPED", None, tmp_path / "there" / "abc")
    assert (loaded.directory / "trials" / "aaaaA" / "stdout").read_text() == "hello\n"
    assert not (loaded.directory / "trials" / "aaaaA" / "link").exists()
    reader = ExperimentReader(loaded.directory)
    assert [(row.trial_id, row.final_value) for row in reader.trials()[1]] == [("aaaaA", 0.5)]
    config = reader.state().config
    assert config["trialCodeDirectory"] == config["trainingService"]["trialCodeDirectory"] == str(new_code)
    reader.close()


def test_files_with_strange_names_and_times_are_saved_and_loaded(
    server: FakeServer, entry: IndexEntry, tmp_path: Path
) -> None:
    folder = entry.directory / "trials" / "aaaaA"
    (folder / "old").write_text("before the first time of zip files")
    os.utime(folder / "old", (0, 0))
    names = [b"a\xfe", b"b\\xfe"]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(name)
    file = tmp_path / "saved.zip"
    assert main(["experiment", "save", "abc", "--path", str(file)]) == 0
    Index(server.home).remove("abc")
    assert main(["experiment", "load", "--path", str(file), "--logDir", str(tmp_path / "there")]) == 0
    there = tmp_path / "there" / "abc" / "trials" / "aaaaA"
    assert [(there / os.fsdecode(name)).read_bytes() for name in names] == names
    assert (there / "old").exists()


def test_files_that_are_no_saved_experiment(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.zip").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("nnictl/.experiment", '{"evil": {}}')
        archive.writestr("experiment/../../outside", "a")
    for name, sentence in (
        ("text.zip", "cannot be read: File is not a zip file."),
        ("none.zip", "cannot be read: No such file or directory."),
        ("other.zip", "contains no experiment: nnictl/.experiment is missing or damaged."),
        ("evil.zip", "is outside of the folder"),
    ):
        assert main(["experiment", "load", "--path", str(tmp_path / name)]) == 1
        assert sentence in capsys.readouterr().err
    assert Index(server.home).entries() == {}
    assert not list(tmp_path.rglob("outside")) and not (server.home.path / "evil").exists()


def remade(source: Path, target: Path, **changed: bytes | None) -> None:
    """Copy an archive. ``changed``: new content of its database or of another file, None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = changed.get(info.filename.rpartition("/")[2].partition(".")[0], old.read(info))
            if content is not None:
                new.writestr(info.filename, content)


def test_a_load_that_fails_or_is_killed_changes_nothing(
    server: FakeServer, entry: IndexEntry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, code, there = tmp_path / "saved.zip", tmp_path / "new", tmp_path / "there"
    assert main(["experiment", "save", "abc", "--path", str(saved), "--saveCodeDir"]) == 0
    Index(server.home).remove("abc")
    remade(saved, tmp_path / "none.zip", nnimgr=None)
    remade(saved, tmp_path / "empty.zip", nnimgr=b"")
    remade(saved, tmp_path / "text.zip", nnimgr=b"no database" * 1000)
    with zipfile.ZipFile(saved) as archive:
        at = archive.getinfo("experiment/db/nnimgr.sqlite").header_offset
    damaged = bytearray(saved.read_bytes())
    damaged[at + 200 : at + 400] = b"x" * 200
    (tmp_path / "damaged.zip").write_bytes(damaged)
    (there / ".abc.loading").mkdir(parents=True)  # of a load that was killed
    for name, why in (
        ("none", "it has no experiment/db/nnimgr.sqlite"),
        ("empty", "experiment/db/nnimgr.sqlite"),
        ("text", "experiment/db/nnimgr.sqlite"),
        ("damaged", "the file is damaged"),
    ):
        words = ["experiment", "load", "--path", str(tmp_path / f"{name}.zip"), "--logDir", str(there)]
        assert main([*words, "--codeDir", str(code)]) == 1
        told = capsys.readouterr().err
        assert f"{tmp_path}/{name}.zip cannot be loaded: " in told and why in told, told
        assert "Nothing was changed." in told and "Traceback" not in told
        assert [*there.iterdir()] == [] and not code.exists()
        assert not list(tmp_path.glob(".*"))
    words = ["experiment", "load", "--path", str(saved), "--logDir", str(there), "--codeDir", str(code)]
    (there / "abc").mkdir()
    assert main(words) == 1
    assert f"Or remove it: rm -r {there / 'abc'}" in capsys.readouterr().err
    (there / "abc").rmdir()
    assert main(words) == 0


def test_a_folder_is_created_as_in_nni(
    entry: IndexEntry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "backups"
    assert main(["experiment", "save", "abc", "--path", str(folder)]) == 0
    assert [file.name for file in folder.iterdir()] == ["nni_experiment_abc.zip"]
    assert str(folder / "nni_experiment_abc.zip") in capsys.readouterr().out


def test_nothing_is_overwritten(
    entry: IndexEntry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "there.zip"
    file.write_text("mine")
    assert main(["experiment", "save", "abc", "--path", str(file)]) == 1
    told = capsys.readouterr().err
    assert told.endswith("Choose another file: nnictl experiment save abc --path FILE\n")
    assert file.read_text() == "mine"
    assert main(["experiment", "save", "abc", "--path", str(file / "there.zip")]) == 1
    assert "cannot be written" in capsys.readouterr().err
