"""``nnictl create --dry-run`` and ``nnictl doctor`` for Ray, with a stand-in for its dashboard."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr.cli.main import main
from tests.ray.fake import FakeRay

Configure = Callable[..., None]


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[FakeRay]:
    with FakeRay(tmp_path) as found:
        yield found


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> Configure:
    """Write ``exp.yml`` with these fields of the platform, in an empty folder."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text("print(1)\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))

    def write(**service: Any) -> None:
        config = {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": "python3 trial.py",
            "trialCodeDirectory": "code",
            "trialConcurrency": 1,
            "trialCpuNumber": 1,
            "maxTrialNumber": 1,
            "tuner": {"name": "Random"},
            "trainingService": {
                "platform": "ray",
                "address": ray.address,
                "token": ray.token,
                "python": sys.executable,
                "workDirectory": str(tmp_path / "work"),
                **service,
            },
        }
        Path("exp.yml").write_text(yaml.safe_dump(config))

    return write


def dry_run(*more: str) -> int:
    return main(["create", "--config", "exp.yml", "--dry-run", *more])


def doctor() -> int:
    return main(["doctor", "--config", "exp.yml"])


def test_a_dry_run_shows_the_job(
    ray: FakeRay, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(cpus=2, setup="module load cuda")
    assert dry_run("--id", "mine") == 0
    _, _, job = capsys.readouterr().out.partition("# The job of the experiment's first allocation\n")
    body = yaml.safe_load(job)
    assert body["submission_id"] == "nnimgr-mine-p-000000-00000000"
    assert body["entrypoint_num_cpus"] == 2
    assert body["entrypoint"].startswith(f"module load cuda\nexec {sys.executable} -S -E -c ")
    assert body["entrypoint"].endswith("(the server's address, and a ticket for the keeper's token)")
    assert (
        job.splitlines()[-1] == f"# the cluster at {ray.address} answers and has 1 node; the allocation fits"
    )
    assert not ray.jobs_of


def test_a_dry_run_names_what_no_node_has(configure: Configure, capsys: pytest.CaptureFixture[str]) -> None:
    configure(resources={"tpu": 1.0})
    assert dry_run("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rayJob"]["entrypoint_resources"] == {"tpu": 1.0}
    assert told["accepted"] is None
    assert told["verdict"].endswith("no node has 1 tpu; the most that one has is 0 tpu")


def test_a_dry_run_without_a_cluster_shows_the_job(
    ray: FakeRay, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    ray.away = True
    assert dry_run() == 0
    assert f"# the Ray cluster at {ray.address} does not answer" in capsys.readouterr().out.splitlines()[-1]


def test_the_doctor_runs_a_trial_and_leaves_nothing(
    ray: FakeRay, configure: Configure, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    configure(resources={"tpu": 1.0})
    assert doctor() == 0
    printed = capsys.readouterr().out
    assert (
        "warning Ray: connection: the cluster could not run the allocation now: no node has 1 tpu" in printed
    )
    assert "ok      Ray: trial: a trial of nnimgr's own (not trialCommand) ran in " in printed
    [job] = ray.jobs_of.values()
    assert job.process is not None
    job.process.wait(60)
    assert list((tmp_path / "work").iterdir()) == []


def test_the_doctor_refuses_a_cluster_without_a_token(
    ray: FakeRay, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    ray.token = None
    assert doctor() == 1
    assert "FAULT   Ray: connection: the Ray cluster at http" in (printed := capsys.readouterr().out)
    assert "CVE-2023-48022" in printed
    assert not ray.jobs_of
