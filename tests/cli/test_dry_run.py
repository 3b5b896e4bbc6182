"""``nnictl create --dry-run``: what would start, and the first Job."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from nnimgr.cli.main import main
from nnimgr.home import Home
from nnimgr.index import Index
from tests.cli.fake import FakeServer
from tests.cli.terminals import in_a_terminal
from tests.cli.test_create import CONFIG, create


@pytest.fixture
def config(home: Home) -> Path:
    Path("exp.yml").write_text(CONFIG)
    return Path("exp.yml")


def test_a_dry_run_starts_nothing(home: Home, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "trialConcurrency: 2\n" in printed
    assert "# tuner: Random\n# goal: maximize\n# assessor: Medianstop\n# scheduler: ASHA\n" in printed
    assert "# platform: local\n# trialCommand: ./run\n" in printed
    assert "# parameterSets: 15\n" in printed
    assert not home.path.exists()


def test_the_file_with_the_mistake_is_to_be_corrected(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = re.search(r"^searchSpace:.*\n(?:  .*\n)*", CONFIG, re.M)
    assert inner is not None
    whole = CONFIG.replace(inner[0], "searchSpaceFile: space.json\n")
    check = "then check it: nnictl create --dry-run --config exp.yml\n"
    Path("space.json").write_text('{"x": {"_typ": "choice", "_value": [1, 2]}}')
    for text, wrong in ((whole, "space.json"), (f"{whole}maxTrialNumbr: 3\n", "space.json and exp.yml")):
        config.write_text(text)
        assert main(["create", "--config", "exp.yml", "--dry-run"]) == 1
        assert capsys.readouterr().err.endswith(f"\n  Correct {wrong}, {check}")


def test_a_dry_run_shows_the_time_limits(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG + "maxExperimentDuration: 10\n")
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "# maxTrialNumber: 3\n# maxExperimentDuration: 10 s\n# maxTrialDuration: none\n" in printed
    config.write_text(CONFIG + "maxTrialDuration: 90m\n")
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    assert "# maxExperimentDuration: none\n# maxTrialDuration: 1 h 30 min\n" in capsys.readouterr().out


def test_a_dry_run_with_an_advisor_names_no_assessor(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.replace("tuner: {name: Random}", "tuner: {name: Hyperband}")
    config.write_text(text.replace("scheduler: {name: ASHA}\n", ""))
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    assert "# assessor: none\n" in capsys.readouterr().out


def test_a_dry_run_as_json(home: Home, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace("choice, _value: [1, 2, 3]", "uniform, _value: [0, 1]"))
    assert main(["create", "--config", "exp.yml", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["config"]["tuner"] == {"name": "Random"}
    assert answer["wouldStart"]["python"] == sys.executable
    assert answer["wouldStart"]["parameterSets"] is None


def test_the_share_of_the_space_that_meets_the_constraints(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG + "searchSpaceConstraints: [x * y <= 4]\n")
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    said = re.search(
        "# feasibleShare: (about .* % of the search space meets the constraints)\n", capsys.readouterr().out
    )
    assert said is not None
    assert main(["create", "--config", "exp.yml", "--dry-run", "--json"]) == 0
    assert 0.6 < json.loads(capsys.readouterr().out)["wouldStart"]["feasibleShare"] < 0.75
    assert create(server) == 0
    assert f"Constraints: {said[1]}" in capsys.readouterr().out


GANG = """\
gang: {nodes: 2, processes: gpu}
trialGpuNumber: 4
"""
SITE = """\
trainingService:
  platform: remote
  machineList: [{host: gpu-1, user: alice}, {host: gpu-2, user: alice}]
"""


def test_a_dry_run_shows_the_members_of_a_trial(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("trainingService: {platform: local}\n", SITE) + GANG)
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "# member 0, the leader, runs the command as 4 processes.\n" in printed
    assert "#   RANK=0\n" in printed and "#   WORLD_SIZE=8\n" in printed
    _, _, second = printed.partition("# member 1 runs the command as 4 processes.\n")
    assert "#   RANK=4\n" in second and "WORLD_SIZE" not in second
    assert main(["create", "--config", "exp.yml", "--dry-run", "--json"]) == 0
    members = json.loads(capsys.readouterr().out)["members"]
    assert [member["processes"] for member in members] == [4, 4]
    assert members[1]["variables"]["NNIMGR_GANG_HOSTS"] == "<address of member 0>,<address of member 1>"
    assert members[1]["variables"]["MASTER_PORT"] == "<a free port from 20000 to 29999>"


def test_what_is_copied_from_a_dry_run_is_not_broken(home: Home, config: Path) -> None:
    config.write_text(CONFIG.replace("trainingService: {platform: local}\n", SITE) + GANG)
    seen = in_a_terminal("create", "--config", "exp.yml", "--dry-run", columns=30)
    assert "#   NNIMGR_GANG_HOSTS=<address of member 0>,<address of member 1>" in seen.lines


def test_a_dry_run_shows_the_roles_of_a_trial(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gang = "gang: {roles: {main: {command: ./main}, worker: {}}}\n"
    config.write_text(CONFIG.replace("trainingService: {platform: local}\n", SITE) + gang)
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    first, _, second = capsys.readouterr().out.partition('# member 1 runs "')
    assert '# member 0, the leader, runs "./main" once.\n' in first
    assert "#   ROLE_NAME=main\n" in first and "#   NNIMGR_GANG_ROLES=main:1,worker:1\n" in first
    assert "#   ROLE_NAME=worker\n" in second and "NNIMGR_GANG_ROLES" not in second


@pytest.mark.parametrize(("processes", "units"), [("cpu", "CPU"), ("auto", "GPU of the trial, or each CPU")])
def test_a_dry_run_says_what_only_the_machine_knows(
    home: Home, config: Path, capsys: pytest.CaptureFixture[str], processes: str, units: str
) -> None:
    config.write_text(CONFIG + f"gang: {{processes: {processes}}}\n")
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert f"# member 0 runs the command as one process for each {units}" in printed
    assert "#   WORLD_SIZE=<known on the machines>\n" in printed and "#   RANK=0\n" in printed


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me, namespace: vision}}]
clusters: [{name: lab, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
"""


def in_cluster(more: str = "") -> None:
    Path("lab.yml").write_text(KUBECONFIG)
    service = f"{{platform: kubernetes, image: a, kubeconfig: lab.yml, env: {{KEY: s3cret}}{more}}}"
    Path("exp.yml").write_text(CONFIG.replace("{platform: local}", service))


def test_a_dry_run_shows_the_first_job(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    in_cluster()
    assert main(["create", "--config", "exp.yml", "--dry-run", "--id", "mine"]) == 0
    printed = capsys.readouterr()
    assert "s3cret" not in printed.out + printed.err
    _, _, job = printed.out.partition("# The Job of the experiment's first trial\n")
    manifest = yaml.safe_load(job)
    assert manifest["kind"] == "Job" and manifest["metadata"]["namespace"] == "vision"
    assert re.fullmatch("mine-[a-z0-9]{5}-1", manifest["metadata"]["name"])
    assert "# the cluster could not be asked: " in job
    assert not home.path.exists() or not Index(home).entries()


def test_a_dry_run_in_a_pool_as_json(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    in_cluster(", reuseMode: true")
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    assert "# The Job of the experiment's first pooled pod" in capsys.readouterr().out
    assert main(["create", "--config", "exp.yml", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["manifest"]["metadata"]["name"] == "experiment-pool-000000"
    assert told["accepted"] is None and told["verdict"].startswith("the cluster could not be asked")


def test_a_dry_run_on_several_clusters_has_a_verdict_of_each(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    in_cluster()
    text = Path("exp.yml").read_text()
    pods = text[text.index("trainingService: ") + len("trainingService: ") :].splitlines()[0]
    both = f"\n- {pods}\n- {{platform: ray, address: 'http://127.0.0.1:1', token: s3cret}}"
    Path("exp.yml").write_text(text.replace(pods, both))
    assert main(["create", "--config", "exp.yml", "--dry-run", "--json"]) == 0
    pod, job = json.loads(capsys.readouterr().out)["clusters"]
    assert pod["manifest"]["kind"] == "Job"
    assert pod["verdict"].startswith("the cluster could not be asked")
    assert job["rayJob"]["submission_id"].startswith("nnimgr-ray-")
    assert job["verdict"].startswith("the Ray cluster at http://127.0.0.1:1 does not answer")


def test_a_dry_run_shows_no_secret(home: Home, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local = "trainingService: {platform: local}"
    text = config.read_text()
    assert local in text
    config.write_text(
        text.replace(
            local, "trainingService: {platform: remote, machineList: [{host: a, password: a-secret}]}"
        )
    )
    assert main(["create", "--config", "exp.yml", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "a-secret" not in printed
    assert "password: ${secret:trainingService.machineList[0].password}" in printed


def test_a_folder_instead_of_the_configuration(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own").mkdir()
    for name, said in (
        ("exp.yml", "; did you mean own/exp.yml?"),
        ("space.json", "; did you mean own/exp.yml?"),
        ("two.yaml", ", not a file"),
    ):
        Path("own", name).write_text(CONFIG)
        assert main(["create", "--config", "own", "--dry-run"]) == 1
        assert capsys.readouterr().err == f"ERROR: own: this is a folder{said}\n  See: nnictl create --help\n"
    assert main(["update", "stopwhen", "-f", "own"]) == 1
    assert "own: this is a folder, not a file\n  See: nnictl update" in capsys.readouterr().err


def test_a_dry_run_checks_the_id(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(server, "--dry-run", "--id", "a/b") == 1
    assert "'a/b' cannot be an experiment id" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("RUNNING", "see that experiment: nnictl experiment show quad"),
        ("DONE", "continue that experiment: nnictl resume abc"),
    ],
)
def test_an_id_that_is_the_name_of_another_experiment(
    server: FakeServer,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    status: str,
    command: str,
    options: tuple[str, ...],
) -> None:
    server.add("abc", status=status)
    Index(server.home).update("abc", name="quad")
    assert create(server, *options, "--id", "quad") == 1
    again = " ".join(["nnictl create --config exp.yml --port", str(server.port), *options])
    assert capsys.readouterr().err == (
        "ERROR: 'quad' cannot be the id: it is the name of experiment abc, and commands with this name "
        f"would then mean the new experiment.\n  Choose another id: {again} --id quad-2\n  Or {command}\n"
    )
    assert server.requests == []
    assert create(server, "--id", "quad-2") == 0


def test_a_name_that_is_the_id_of_another_experiment(
    server: FakeServer, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG + "experimentName: quad\n")
    assert create(server, "--id", "quad") == 0
    assert capsys.readouterr().err == ""
    assert create(server, "--id", "other") == 0
    assert capsys.readouterr().err == (
        "WARNING: The name quad is the id of another experiment, and commands with quad mean that one. This "
        "experiment has the id other.\n"
    )
