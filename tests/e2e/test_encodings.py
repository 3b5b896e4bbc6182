"""A user whose locale has another encoding than UTF-8, with names and commands that it cannot express."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.product import product
from tests.locales import latin


def test_names_and_commands_may_have_any_letters(tmp_path: Path) -> None:
    with product("encodings-") as made:
        made.environ.update(latin(tmp_path))
        code = made.directory / "ü日本"
        code.mkdir()
        config = {
            "searchSpace": {"x": {"_type": "choice", "_value": [1]}},
            "trialCommand": "echo 日本; pwd",
            "trialCodeDirectory": str(code),
            "tuner": {"name": "Random"},
            "maxTrialNumber": 1,
            "trialConcurrency": 1,
        }
        experiment_id = made.create(code.name, config)
        made.wait(experiment_id, limit_s=60)
        (trial,) = json.loads(made.nnictl("trial", "ls", experiment_id, "--json"))["trials"]
        assert trial["status"] == "SUCCEEDED"
        assert (Path(trial["logPath"]) / "stdout").read_text().splitlines() == ["日本", str(code)]
