"""``nnictl trainingservice``: the example is registered, used in a configuration, and unregistered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.config import ConfigError, load_config
from training_services import registry

PACKAGE = "examples.training_service.subprocesses"
EXPERIMENT = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
tuner: {name: Random}
trainingService: {platform: subprocesses, pollSeconds: 3}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NNI_CONFIG_DIR", str(tmp_path))
    return tmp_path


def test_a_registered_platform_is_one_like_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trainingservice", "register", "--package", PACKAGE]) == 0
    assert main(["trainingservice", "register", "--package", PACKAGE]) == 0
    capsys.readouterr()
    assert main(["trainingservice", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["trainingServices"]
    assert {"platform": "subprocesses", "source": f"registered: {PACKAGE}"} in listed
    assert {"platform": "local", "source": "built in"} in listed
    (folder / "exp.yml").write_text(EXPERIMENT)
    config = load_config(folder / "exp.yml", environ={"HOME": str(folder)}).config
    assert config.canonical()["trainingService"]["pollSeconds"] == 3
    (folder / "exp.yml").write_text(
        EXPERIMENT.replace("{platform: sub", "[{platform: sub").replace("3}", "3}]")
    )
    with pytest.raises(ConfigError, match="cannot be one of several training services"):
        load_config(folder / "exp.yml", environ={"HOME": str(folder)})
    assert main(["trainingservice", "unregister", "--package", "subprocesses"]) == 0
    assert "subprocesses" not in registry.platforms()
    assert main(["trainingservice", "unregister", "--package", PACKAGE]) == 1


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("no.such.package", "cannot be imported: No module named 'no'"),
        ("json", "is not a training service for nnimgr: define CONFIG"),
        ("training_services.testing", "define CONFIG"),
    ],
)
def test_what_is_none_is_refused(package: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trainingservice", "register", "--package", package]) == 1
    assert told in capsys.readouterr().err


def test_one_that_has_gone_is_told(folder: Path) -> None:
    (folder / "registered_training_services.yml").write_text(
        "trainingServices: [{platform: subprocesses, package: no.such.package}]"
    )
    (folder / "exp.yml").write_text(EXPERIMENT)
    with pytest.raises(ConfigError, match=r"the training service in no\.such\.package cannot be imported"):
        load_config(folder / "exp.yml", environ={"HOME": str(folder)})
