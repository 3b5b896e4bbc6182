"""The examples do what they say."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnimgr import search_space
from nnimgr.config import load_config
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from tests.dispatcher.hosting import Hosted, start_line

EXAMPLES = Path(__file__).parents[1] / "examples"


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXAMPLES / name / "exp.yml").read_text())
    return loaded


@pytest.mark.parametrize("name", ["hello", "quickstart", "shell", "custom_tuner", "ddp"])
def test_configurations_are_sound(name: str) -> None:
    loaded = config(name)
    space = loaded.get("searchSpace")
    if space is None:
        space = yaml.safe_load((EXAMPLES / name / loaded["searchSpaceFile"]).read_text())
    search_space.validate(space)
    for role in ("tuner", "assessor"):
        algorithm = loaded.get(role, {})
        if "name" in algorithm:
            registry.check(role, algorithm["name"], algorithm.get("classArgs", {}))


def test_the_quickstart_runs_in_a_cluster_as_well(tmp_path: Path) -> None:
    loaded = load_config(EXAMPLES / "quickstart" / "kubernetes.yml", environ={"HOME": str(tmp_path)})
    assert loaded.config.platform == "kubernetes" and not loaded.warnings
    local = config("quickstart")
    assert loaded.config.trial_command == local["trialCommand"]
    assert loaded.config.tuner.class_args == local["tuner"]["classArgs"]


def test_the_trial_of_hello_needs_only_the_standard_library_and_nni() -> None:
    tree = ast.parse((EXAMPLES / "hello" / "trial.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= {*sys.stdlib_module_names, "nni"}


def test_the_shell_trial_writes_frames(tmp_path: Path) -> None:
    (tmp_path / ".nni").mkdir()
    record = {"parameter_id": 7, "parameter_source": "algorithm", "parameters": {"level": 1, "sorted": "no"}}
    (tmp_path / "parameter.cfg").write_text(json.dumps(record))
    subprocess.run(
        ["sh", str(EXAMPLES / "shell" / "trial.sh")],
        env={"PATH": os.environ["PATH"], "NNI_SYS_DIR": str(tmp_path), "NNI_TRIAL_JOB_ID": "abcde"},
        check=True,
    )
    rest = (tmp_path / ".nni" / "metrics").read_bytes()
    frames = []
    while rest:
        assert rest[:2] == b"ME"
        end = 8 + int(rest[2:8])
        assert rest[end - 1 : end] == b"\n"
        frames.append(json.loads(rest[8:end]))
        rest = rest[end:]
    assert [(frame["type"], frame["sequence"]) for frame in frames] == [
        *(("PERIODICAL", n) for n in range(5)),
        ("FINAL", 0),
    ]
    assert all(frame["parameter_id"] == 7 and frame["trial_job_id"] == "abcde" for frame in frames)
    assert float(frames[-1]["value"]) > 0


async def test_the_custom_algorithms_run_unchanged(tmp_path: Path) -> None:
    loaded = config("custom_tuner")
    hosted = {}
    for role in ("tuner", "assessor"):
        start = start_line(
            role,
            class_name=loaded[role]["className"],
            code_directory=str(EXAMPLES / "custom_tuner"),
            class_args=loaded[role]["classArgs"],
            search_space=loaded["searchSpace"],
        )
        hosted[role] = Hosted(start, tmp_path, PYTHONDONTWRITEBYTECODE="1")
        await hosted[role].child.start()
    tuner, assessor = hosted["tuner"], hosted["assessor"]
    tuner.ask(0)
    (given,) = await tuner.suggestions(1)
    tuner.send(
        m.TrialFinished(number=5, trial_id="a", parameter_id=0, parameters=given, text="1.5", success=True)
    )
    tuner.ask(1, fed_to=5)
    (near,) = await tuner.suggestions(1)
    assert json.loads(near).keys() == {"x", "y"}
    assessor.send(m.Metrics(items=(("a", 1, 0, 0, "59"), ("b", 1, 0, 0, "61"))))
    assert (await assessor.expect(m.Judged)).trial_id == "b"
    for each in hosted.values():
        await each.child.close()
        assert not each.of_kind(m.Failed)
