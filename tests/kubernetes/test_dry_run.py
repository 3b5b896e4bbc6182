"""``nnictl create --dry-run`` against a real cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnimgr.cli.main import main

pytestmark = pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster")

CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: ./run
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
trainingService: {platform: kubernetes, image: a, namespace: default%s}
"""


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ("", 0, "would accept the Job, in namespace default"),
        (", priorityClass: no-such", 1, "the cluster rejects the Job: "),
        (", serviceAccount: no-such", 1, "the cluster rejects the Job: "),
    ],
)
def test_the_cluster_says_whether_it_would_take_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: str,
    code: int,
    sentence: str,
) -> None:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    (tmp_path / "exp.yml").write_text(CONFIG % more)
    assert main(["create", "--config", str(tmp_path / "exp.yml"), "--dry-run"]) == code
    assert sentence in capsys.readouterr().out.splitlines()[-1]
