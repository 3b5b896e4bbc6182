"""Files of trials: listed, fetched, and removed if incomplete."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import CREATED_AT, FakeExperiment, FakeServer, trial


@pytest.fixture
def experiment(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeExperiment:
    found = server.add("abc")
    found.trials = [trial("ta", 0)]
    found.logs = {"model/best.bin": b"\0" * 300_000 + b"end", "a\x1b[2Jb": b"x"}
    monkeypatch.chdir(tmp_path)
    return found


def test_files_are_listed(
    server: FakeServer, experiment: FakeExperiment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trial", "files", "-T", "ta"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(None, 1)[0] for line in lines] == ["1", "300,003"]
    assert lines[0].endswith("  a\\x1b[2Jb") and lines[1].endswith("  model/best.bin")
    assert server.requests[-1][1] == "experiments/abc/trials/ta/files"
    assert main(["trial", "files", "abc", "-T", "ta", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] and found["files"][0]["modifiedAt"] == CREATED_AT


def test_a_file_is_fetched(
    experiment: FakeExperiment, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin"]) == 0
    assert (tmp_path / "best.bin").read_bytes() == experiment.logs["model/best.bin"]
    assert b"the file ./best.bin: 300,003 bytes." in capfdbinary.readouterr().out
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin"]) == 1
    assert b"There is a file best.bin here already" in capfdbinary.readouterr().err
    again = ["trial", "get", "abc", "-T", "ta", "--file", "model/best.bin", "-o", "best.bin", "--json"]
    assert main(again) == 0
    assert json.loads(capfdbinary.readouterr().out)["size"] == 300_003
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == experiment.logs["model/best.bin"]


def test_what_does_not_come_whole_is_not_left_behind(
    experiment: FakeExperiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.cut = True
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin"]) == 1
    assert "is incomplete" in capsys.readouterr().err
    assert main(["trial", "get", "-T", "ta", "--file", "nothing"]) == 1
    assert "has no file nothing" in capsys.readouterr().err
    (tmp_path / "folder").mkdir()
    experiment.cut = False
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin", "-o", "folder"]) == 1
    assert "is a directory" in capsys.readouterr().err
    assert main(["trial", "get", "-T", "ta", "--file", "model/best.bin", "-o", "no/such/folder"]) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_what_is_no_plain_file_is_written_to_and_not_replaced(
    server: FakeServer, experiment: FakeExperiment, tmp_path: Path
) -> None:
    experiment.logs["small"] = b"a content"
    get = ["trial", "get", "-T", "ta", "--file", "small", "--output"]
    pipe, target, link = tmp_path / "pipe", tmp_path / "target", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(target)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main([*get, str(pipe)]) == 0 and pipe.is_fifo()
        content = os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert main([*get, str(link)]) == 0
    assert link.is_symlink() and target.read_bytes() == content == b"a content"
