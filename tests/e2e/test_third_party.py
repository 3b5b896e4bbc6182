"""A training service of a third party: registered, used, its server killed in the middle."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path

from tests.e2e.product import Product, product
from tests.e2e.scene import eventually
from tests.processes import kill, of_home

EXAMPLE = Path(__file__).parents[2] / "examples" / "training_service"
METRICS = 30
KILLS = 5
TRIAL = f"""
import nni, os, pathlib, time
nni.get_next_parameter()
with open(pathlib.Path("starts") / os.environ["NNI_TRIAL_JOB_ID"], "a") as starts:
    starts.write("started\\n")
for number in range({METRICS}):
    nni.report_intermediate_result(number)
    time.sleep(0.05)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
nni.report_final_result(1)
"""


def create(made: Product, *, trials: int) -> tuple[Path, str]:
    """Start an experiment on the example's platform; return the folder of its code, and its id."""
    made.environ["PYTHONPATH"] = str(EXAMPLE)
    made.environ["NNI_CONFIG_DIR"] = str(made.directory / "config")
    made.nnictl("trainingservice", "register", "--package", "subprocesses")
    code = made.directory / "code"
    (code / "starts").mkdir(parents=True)
    (code / "trial.py").write_text(TRIAL)
    config = {
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCommand": "python3 trial.py",
        "trialConcurrency": 2,
        "maxTrialNumber": trials,
        "tuner": {"name": "Random"},
        "trainingService": {"platform": "subprocesses"},
    }
    return code, made.create("code", config)


def trials_of(made: Product, experiment: str) -> list[dict[str, object]]:
    return list(json.loads(made.nnictl("trial", "ls", experiment, "--json"))["trials"])


def run_of(made: Product, experiment: str) -> int:
    return sum(trial["status"] == "RUNNING" for trial in trials_of(made, experiment))


def started(code: Path, number: int) -> bool:
    return len(list((code / "starts").iterdir())) >= number


def test_an_experiment_on_the_platform_of_the_example() -> None:
    with product("nnimgr-third-") as made:
        code, experiment = create(made, trials=3)
        eventually(lambda: run_of(made, experiment) == 2, "two running trials")
        made.nnictl("stop", experiment, "--detach")
        made.nnictl("resume", experiment)
        eventually(lambda: run_of(made, experiment) == 2, "the same, adopted")
        (code / "gate").touch()
        assert made.wait(experiment, limit_s=40)["counts"] == {"SUCCEEDED": 3}
        assert {(t["attempt"], t["intermediates"]) for t in trials_of(made, experiment)} == {(1, METRICS)}


def test_nothing_is_lost_or_run_twice_when_its_server_is_killed() -> None:
    with product("nnimgr-third-") as made:
        code, experiment = create(made, trials=2 * KILLS)
        (code / "gate").touch()
        for number in range(1, KILLS + 1):
            eventually(partial(started, code, number), "another start")
            kill(*(process.pid for process in of_home(made.home) if "nnimgr.server" in process.command))
            with contextlib.suppress(RuntimeError):  # it starts a server, which has reopened the experiment
                made.nnictl("resume", experiment)
        assert made.wait(experiment, limit_s=60)["counts"] == {"SUCCEEDED": 2 * KILLS}
        assert {(t["attempt"], t["intermediates"]) for t in trials_of(made, experiment)} == {(1, METRICS)}
        starts = [path.read_text() for path in (code / "starts").iterdir()]
        assert starts == ["started\n"] * 2 * KILLS


def test_a_trial_can_be_cancelled_and_leaves_nothing() -> None:
    with product("nnimgr-third-") as made:
        _, experiment = create(made, trials=2)
        eventually(lambda: run_of(made, experiment) == 2, "two running trials")
        made.nnictl("trial", "kill", experiment, "-T", str(trials_of(made, experiment)[0]["id"]))
        eventually(lambda: run_of(made, experiment) == 1, "the end of the cancelled trial")
        made.nnictl("stop", experiment)
        assert not [process for process in of_home(made.home) if "trial.py" in process.command]
