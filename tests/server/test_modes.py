"""Permissions of the files that a server keeps, under different umasks of its user."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.harness import Server, nothing_left, serving
from tests.server.test_experiments import create, read, until_done, wanted
from training_services.private import FILE, FOLDER, make_private_folder, open_private, tighten

URL = "/api/v1/experiments/exp"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process and of the servers that it starts."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def reachable(folder: Path, rights: int) -> list[str]:
    """Return the files below a folder to which accounts besides their owner and root have these rights."""
    found = []
    for path in sorted(folder.iterdir()):
        try:
            if path.is_symlink():
                continue
            if mode(path) & rights:
                found.append(str(path))
            if path.is_dir() and mode(path) & 0o011:
                found += reachable(path, rights)
        except FileNotFoundError:
            continue  # the server has renamed or removed it meanwhile
    return found


def run_experiment(server: Server, directory: Path) -> None:
    create(server, wanted(directory, "umask; touch made") | {"id": "exp"})
    until_done(server)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_nothing_of_an_experiment_is_open_to_others(tmp_path: Path, mask: int) -> None:
    folder, home = tmp_path / "work" / "exp", tmp_path / "home"
    log = home / ".nnimgr" / "own.log"
    with nothing_left(tmp_path):
        with umask(mask), serving(tmp_path, "--log-file", str(log)) as server:
            assert server.ready, server.said
            run_experiment(server, tmp_path)
            database = folder / "db" / "nnimgr.sqlite"
            files = [database, Path(f"{database}-wal"), Path(f"{database}-shm"), home / ".experiment", log]
            assert {str(path): mode(path) for path in files} == {str(path): FILE for path in files}
            assert [mode(path) for path in (folder, folder / "db", home, home / ".nnimgr")] == [FOLDER] * 4
            assert reachable(folder, 0o077) == reachable(home, 0o077) == []
            first = server.call("GET", f"{URL}/trials?limit=1").body["trials"][0]["id"]
            said = read(server, f"{URL}/trials/{first}/logs/stdout")
            assert int(said, 8) == mask  # the trial runs with the umask of its user
        with umask(0o000), serving(tmp_path, "--log-file", str(log), port=server.port) as server:
            assert server.call("POST", f"{URL}/resume", {}).status == 200
            assert reachable(folder, 0o077) == reachable(home, 0o077) == []


def test_what_an_earlier_version_has_made_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "exp"
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            run_experiment(server, tmp_path)
        database = folder / "db" / "nnimgr.sqlite"
        for path, found in ((folder, 0o777), (folder / "db", 0o777), (database, 0o666)):
            path.chmod(found)
        (tmp_path / "home" / ".experiment").chmod(0o666)
        with serving(tmp_path, port=server.port) as server:
            assert server.call("POST", f"{URL}/resume", {}).status == 200
            assert [mode(path) for path in (folder / "db", database)] == [FOLDER, FILE]
            assert mode(folder) == 0o755  # others may still read its files, but not change them
        assert mode(tmp_path / "home" / ".experiment") == FILE


def test_private_folders_and_files(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    with umask(0o000):
        make_private_folder(shared / "a" / "b")
        make_private_folder(shared / "a" / "b")
        os.close(open_private(shared / "file", os.O_WRONLY | os.O_CREAT))
    assert [mode(path) for path in (shared, shared / "a", shared / "a" / "b")] == [0o775, FOLDER, FOLDER]
    assert mode(shared / "file") == FILE
    (shared / "file").chmod(0o664)
    os.close(open_private(shared / "file", os.O_RDONLY))
    assert mode(shared / "file") == FILE
    (shared / "file").chmod(0o444)
    tighten(shared / "file", FILE)
    assert mode(shared / "file") == 0o400
    tighten(shared / "none", FILE)
    with pytest.raises(NotADirectoryError):
        make_private_folder(shared / "file")
