"""References to the environment and to files in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import (
    ReferenceUnresolved,
    resolve_secrets,
)
from tests.config.loading import MINIMAL, Faults, Load


def test_secrets_of_algorithms_stay_references(load: Load, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("from a file\n")
    arguments = '{key: "a ${env:KEY} b", nested: [{f: "${file:secret.txt}"}]}'
    text = MINIMAL.replace("name: Random", f"className: my.Tuner\n  classArgs: {arguments}")
    config = load(text, KEY="from the environment").config
    plain = config.canonical()["tuner"]["classArgs"]
    assert plain == {"key": "a ${env:KEY} b", "nested": [{"f": f"${{file:{tmp_path}/secret.txt}}"}]}
    used = resolve_secrets(plain, {"KEY": "from the environment"}, Path("/"))
    assert used == {"key": "a from the environment b", "nested": [{"f": "from a file"}]}
    with pytest.raises(ReferenceUnresolved, match="the environment variable KEY is not set"):
        resolve_secrets(plain, {}, Path("/"))


def test_references_that_lead_nowhere_are_faults(faults: Faults, tmp_path: Path) -> None:
    arguments = '\n    a: "${env:NONE}"\n    b: ["${file:none.txt}"]'
    text = MINIMAL.replace("name: Random", f"className: my.Tuner\n  classArgs:{arguments}")
    assert faults(text) == [
        "exp.yml:8:5: tuner.classArgs.a: the environment variable NONE is not set",
        f"exp.yml:9:9: tuner.classArgs.b[0]: the file {tmp_path}/none.txt cannot be read: "
        "No such file or directory",
    ]


def test_other_texts_are_resolved_when_read(load: Load, tmp_path: Path) -> None:
    text = MINIMAL + "experimentName: run of ${env:WHO}\nexperimentWorkingDirectory: ${env:WHO}/out\n"
    config = load(text, WHO="me").config
    assert config.experiment_name == "run of me"
    assert config.experiment_working_directory == tmp_path / "me" / "out"


def test_a_reference_in_the_trial_command_is_a_fault(faults: Faults) -> None:
    (fault,) = faults(MINIMAL.replace("trial.py", "trial.py ${env:KEY}"), KEY="x")
    assert fault == (
        "exp.yml:3:1: trialCommand: references are not replaced in the trial command: "
        "trials inherit your environment, so write $NAME instead of ${env:NAME}"
    )
