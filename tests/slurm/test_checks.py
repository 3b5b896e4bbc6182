"""``nnictl create --dry-run`` and ``nnictl doctor`` with ``platform: slurm``."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr.cli.main import main
from tests.slurm.cluster import SlurmCluster

Configure = Callable[..., None]

# what Slurm's commands say when the controller is away
DOWN = """\
#!/bin/sh
echo 'Slurmctld(primary) at head is DOWN'
echo '*****************************************'
echo '** RESTORE SLURMCTLD DAEMON TO SERVICE **'
exit 1
"""
UP = "#!/bin/sh\necho 'Slurmctld(primary) at head is UP'\n"
REFUSED = """\
#!/bin/sh
echo 'allocation failure: Unable to contact slurm controller (connect failure)' >&2
exit 1
"""


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Write ``exp.yml`` with these fields of the platform, in an empty folder."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "trial.py").write_text("print(1)\n")
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
            "trainingService": {"platform": "slurm", "timeLimit": "10m", "python": sys.executable, **service},
        }
        Path("exp.yml").write_text(yaml.safe_dump(config))

    return write


@pytest.fixture
def cluster(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The cluster, as that of this process."""
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.environ[name])
    return slurm


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in the PATH. It is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def command(path: Path, name: str, script: str) -> None:
    (path / name).write_text(script)
    (path / name).chmod(0o755)


def dry_run(*options: str) -> int:
    return main(["create", "--config", "exp.yml", "--dry-run", *options])


def doctor(*options: str) -> int:
    return main(["doctor", "--config", "exp.yml", *options])


def faults(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAULT")]


def test_a_dry_run_shows_the_script(
    cluster: SlurmCluster, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(cpus=2, setup="module load cuda")
    before = cluster.jobs()
    assert dry_run("--id", "mine") == 0
    _, _, script = capsys.readouterr().out.partition("# The script of the experiment's first allocation\n")
    lines = script.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "#SBATCH --job-name=nnimgr-mine-p-000000" in lines
    assert "#SBATCH --cpus-per-task=2" in lines and "#SBATCH --time=10" in lines
    assert "(the server's address, and a token)" in lines and "(the keeper, about 900 kB)" in lines
    assert "module load cuda" in lines
    assert lines[-1].startswith("# the cluster would accept the allocation (Job ")
    assert cluster.jobs().keys() == before.keys()


def test_a_dry_run_as_json_has_the_script(
    cluster: SlurmCluster, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    assert dry_run("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["script"].startswith("#!/bin/sh\n#SBATCH --job-name=nnimgr-experiment-p-000000\n")
    assert told["accepted"] is True


def test_a_dry_run_says_what_the_cluster_rejects(
    cluster: SlurmCluster, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(partition="nowhere")
    assert dry_run() == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("# the cluster rejects the allocation: invalid partition specified: nowhere")


def test_a_dry_run_without_sbatch_shows_the_script(
    path: Path, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    command(path, "scontrol", UP)
    configure()
    assert dry_run() == 0
    printed = capsys.readouterr().out
    assert "#SBATCH --no-requeue\n" in printed
    assert printed.splitlines()[-1] == (
        "# the cluster could not be asked: there is no sbatch on this machine: install Slurm's commands "
        "here, or give the login node of the cluster as login"
    )


@pytest.mark.parametrize(
    ("ping", "sentence"),
    [
        (DOWN, "# Slurm's controller does not answer: Slurmctld(primary) at head is DOWN"),
        (UP, "# the cluster could not be asked: allocation failure: Unable to contact slurm controller"),
    ],
)
def test_a_dry_run_without_a_controller_shows_the_script(
    path: Path, configure: Configure, capsys: pytest.CaptureFixture[str], ping: str, sentence: str
) -> None:
    command(path, "scontrol", ping)
    command(path, "sbatch", REFUSED)
    configure()
    assert dry_run() == 0
    printed = capsys.readouterr().out
    assert "#SBATCH --no-requeue\n" in printed
    assert printed.splitlines()[-1].startswith(sentence)


def test_the_doctor_runs_a_trial_and_leaves_nothing(
    cluster: SlurmCluster, configure: Configure, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    configure(workDirectory=str(work))
    before = cluster.jobs()
    assert doctor() == 0
    printed = capsys.readouterr().out
    assert "ok      Slurm: connection: the cluster would accept the allocation (Job " in printed
    assert "ok      Slurm: trial: a trial of nnimgr's own (not trialCommand) ran in " in printed
    assert "ok      all machines: code: the trial code " in printed
    assert printed.endswith("No errors found, 1 warning.\n")
    (made,) = cluster.jobs().keys() - before.keys()
    cluster.wait_for_state(made, "COMPLETED")  # it leaves by itself
    assert list(work.iterdir()) == []


def test_the_doctor_says_that_the_partition_is_unknown(
    cluster: SlurmCluster, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(partition="nowhere")
    assert doctor() == 1
    printed = capsys.readouterr().out
    assert (
        "FAULT   Slurm: connection: the cluster rejects the allocation: invalid partition specified: nowhere"
        in printed
    )
    assert "Slurm: trial" not in printed
    assert printed.endswith("1 error: Slurm\n")


def test_the_doctor_without_slurms_commands(
    path: Path, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    assert doctor() == 1
    (fault,) = faults(capsys)
    assert "the cluster could not be asked: there is no scontrol on this machine: install" in fault


def test_the_doctor_without_a_controller(
    cluster: SlurmCluster,
    configure: Configure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure()
    settings = Path(cluster.environ["SLURM_CONF"]).read_text()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        elsewhere = f"SlurmctldPort={closed.getsockname()[1]}"
        (tmp_path / "slurm.conf").write_text(re.sub("SlurmctldPort=.*", elsewhere, settings))
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
        assert doctor() == 1
    (fault,) = faults(capsys)
    assert "Slurm: connection: Slurm's controller does not answer: Slurmctld(primary) at " in fault
    assert fault.endswith(" is DOWN")
