"""A training service of a third party: registered, used, its server killed in the middle."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.product import product
from tests.e2e.scene import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "training_service"
TRIAL = """
import nni, pathlib, time
nni.report_intermediate_result(nni.get_next_parameter()["x"])
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
nni.report_final_result(1)
"""


def test_an_experiment_on_the_platform_of_the_example() -> None:
    with product("nnimgr-third-") as made:
        made.environ["PYTHONPATH"] = str(EXAMPLE)
        made.environ["NNI_CONFIG_DIR"] = str(made.directory / "config")
        made.nnictl("trainingservice", "register", "--package", "subprocesses")
        code = made.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        config = {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": "python3 trial.py",
            "trialConcurrency": 3,
            "maxTrialNumber": 3,
            "tuner": {"name": "Random"},
            "trainingService": {"platform": "subprocesses", "maxTrials": 2},
        }
        experiment = made.create("code", config)

        def trials() -> list[dict[str, object]]:
            return list(json.loads(made.nnictl("trial", "ls", experiment, "--json"))["trials"])

        eventually(lambda: sum(t["status"] == "RUNNING" for t in trials()) == 2, "two running trials")
        made.nnictl("stop", experiment, "--detach")
        made.nnictl("resume", experiment)
        eventually(lambda: sum(t["status"] == "RUNNING" for t in trials()) == 2, "the same, adopted")
        (code / "gate").touch()
        assert made.wait(experiment, limit_s=40)["counts"] == {"SUCCEEDED": 3}
        assert {(t["attempt"], t["intermediates"]) for t in trials()} == {(1, 1)}
        made.stop_all()
