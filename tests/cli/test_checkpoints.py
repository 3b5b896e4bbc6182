"""Checkpoints of a trial: listed, pinned and fetched."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli.main import main
from nnimgr.index import Index
from tests.cli.fake import CREATED_AT, FakeExperiment, FakeServer, trial
from training_services.checkpoint_storage.copies import StoredCopies
from training_services.checkpoint_storage.fsspec_files import FsspecFiles
from training_services.checkpoint_store import CheckpointStore
from trial_keeper.checkpoints.contents import Entry
from trial_keeper.machine.disk import remove

CONTENT = b"weights"


def checkpoint(number: int, **changes: Any) -> dict[str, Any]:
    found = {"attempt": 1, "number": number, "step": 10 * number, "size": len(CONTENT), "files": 1}
    return {
        **found,
        "at": CREATED_AT,
        "state": "saved",
        "kept": False,
        "stored": False,
        "pinned": False,
        **changes,
    }


@pytest.fixture
def experiment(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeExperiment:
    found = server.add("abc")
    saved = [checkpoint(1, state="deleted"), checkpoint(2, pinned=True), checkpoint(3, size=3 << 30)]
    found.trials = [{**trial("ta", 0), "checkpoints": saved}]
    found.logs = {
        "checkpoints/2/value.bytes": CONTENT,
        "checkpoints/20/value.bytes": b"other",
        "stdout": b"x",
    }
    monkeypatch.chdir(tmp_path)
    return found


def test_checkpoints_are_listed(experiment: FakeExperiment, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "checkpoint", "ls", "-T", "0"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["CHECKPOINT", "STEP", "SAVED", "SIZE", "ON", "ITS", "MACHINE", "PINNED"]
    assert lines[1][0] == "1.2" and lines[1][-2:] == ["kept", "yes"]
    assert lines[2][0] == "1.3" and lines[2][-3:] == ["3.0", "GiB", "kept"]
    assert (
        " ".join(lines[3])
        == "1 deleted checkpoint is not listed. List all: nnictl trial checkpoint ls abc -T 0 --all"
    )
    assert main(["trial", "checkpoint", "ls", "-T", "0", "--all"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert (lines[1][:2], lines[1][-1], len(lines)) == (["1.1", "10"], "deleted", 4)
    assert main(["trial", "checkpoint", "ls", "abc", "-T", "ta", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"checkpoints": experiment.trials[0]["checkpoints"]}


def test_a_stored_copy_is_listed(experiment: FakeExperiment, capsys: pytest.CaptureFixture[str]) -> None:
    experiment.trials[0]["checkpoints"] = [checkpoint(1, kept=True, stored=True), checkpoint(2, kept=True)]
    assert main(["trial", "checkpoint", "ls", "-T", "0"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][-2:] == ["COPY", "STORED"]
    assert (lines[1][-3:], lines[2][-2:]) == (["kept", "yes", "yes"], ["kept", "yes"])


def test_a_trial_without_checkpoints(
    experiment: FakeExperiment, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    experiment.trials[0]["checkpoints"] = []
    assert main(["trial", "checkpoint", "ls", "-T", "0"]) == 0
    assert capsys.readouterr().out == "Trial 0 (ta) has saved no checkpoint.\n"
    assert main(["trial", "checkpoint", "get", "-T", "0"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: Trial 0 has no checkpoint.\n  See: nnictl trial checkpoint ls abc -T 0\n"
    )


def test_pins(server: FakeServer, experiment: FakeExperiment, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "checkpoint", "pin", "-T", "0"]) == 0
    assert capsys.readouterr().out == "INFO: Checkpoint 1.3 of trial 0 (ta) is pinned: it is not deleted.\n"
    assert server.requests[-1] == ("POST", "experiments/abc/trials/ta/checkpoints/1-3/pin", None)
    assert main(["trial", "checkpoint", "unpin", "-T", "0", "--checkpoint", "1.2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "ta", "attempt": 1, "number": 2}
    assert server.requests[-1] == ("DELETE", "experiments/abc/trials/ta/checkpoints/1-2/pin", None)
    assert main(["trial", "checkpoint", "pin", "-T", "0", "--checkpoint", "1.1"]) == 1
    assert "Checkpoint 1.1 of trial 0 was deleted." in capsys.readouterr().err


def test_a_checkpoint_is_fetched_from_its_machine(
    experiment: FakeExperiment, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    get = ["trial", "checkpoint", "get", "-T", "0", "--checkpoint", "1.2"]
    assert main(get) == 0
    assert (tmp_path / "ta-1.2" / "value.bytes").read_bytes() == CONTENT
    assert capsys.readouterr().out == (
        "INFO: Checkpoint 1.2 of trial 0 (ta) was fetched into the folder ./ta-1.2: 1 file, 7 bytes, "
        "from the machine that has saved it.\n"
    )
    assert main(get) == 1
    assert "ta-1.2 exists already." in capsys.readouterr().err
    experiment.logs["checkpoints/2/value.bytes"] = b"short"
    assert main([*get, "--output", "again"]) == 1
    assert "its machine has 1 of its 1 files, with 5 of 7 bytes" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if "1.2" in path.name or path.name == "again"] == [
        "ta-1.2"
    ]


@pytest.fixture
def store(server: FakeServer, experiment: FakeExperiment, tmp_path: Path) -> CheckpointStore:
    """Return the server's copies, which have checkpoint 2."""
    experiment.trials[0]["checkpoints"][1]["kept"] = True
    index = Index(server.home)
    entry = index.get("abc")
    assert entry is not None
    index.put(replace(entry, log_dir=str(tmp_path / "experiments")))
    (tmp_path / "experiments" / "abc").mkdir(parents=True)
    store = CheckpointStore(tmp_path / "experiments" / "abc")
    incoming = store.begin("abc-ta-1", 2, [Entry("value.bytes", len(CONTENT))])
    incoming.write(CONTENT)
    store.finish("abc-ta-1", 2, incoming, [hashlib.sha256(CONTENT).hexdigest()])
    return store


def test_a_checkpoint_is_fetched_from_the_servers_copy(
    store: CheckpointStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    get = ["trial", "checkpoint", "get", "-T", "0", "--checkpoint", "1.2"]
    assert main([*get, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == "ta-1.2"
    assert (tmp_path / "ta-1.2" / "value.bytes").read_bytes() == CONTENT
    copied = store.path("abc-ta-1", 2) / "files" / "value.bytes"
    copied.chmod(0o600)
    copied.write_bytes(b"another")
    assert main([*get, "--output", "damaged"]) == 1
    assert "was not fetched: the hash of value.bytes is wrong" in capsys.readouterr().err
    assert not (tmp_path / "damaged").exists()


def test_a_checkpoint_is_fetched_from_the_storage_if_the_servers_copy_is_lost(
    store: CheckpointStore,
    experiment: FakeExperiment,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    url = f"file://{tmp_path}"
    StoredCopies("abc", FsspecFiles(url, "abc"), store).upload(("abc-ta-1", 2))
    experiment.trials[0]["checkpoints"][1]["stored"] = True
    experiment.profile["config"]["checkpoints"] = {"storage": url}
    remove(str(store.path("abc-ta-1", 2)))
    get = ["trial", "checkpoint", "get", "-T", "0", "--checkpoint", "1.2"]
    assert main(get) == 0
    assert f"./ta-1.2: 1 file, 7 bytes, from {url}." in capsys.readouterr().out
    assert (tmp_path / "ta-1.2" / "value.bytes").read_bytes() == CONTENT
    (tmp_path / "abc" / "ta" / "1-2" / "files" / "value.bytes").write_bytes(b"another")
    assert main([*get, "--output", "damaged"]) == 1
    assert "was not fetched: the hash of value.bytes is wrong" in capsys.readouterr().err
    experiment.profile["config"]["checkpoints"] = {"storage": f"{url}/away"}
    assert main([*get, "--output", "damaged"]) == 1
    assert "away does not exist; create it, or mount its disk." in capsys.readouterr().err
