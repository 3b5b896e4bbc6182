"""Algorithms that installed packages bring by entry points, and the Pythons for which they are installed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from nnimgr.dispatcher.installed import Interpreter, InterpreterError, installed
from tests.dispatcher.conftest import Host

POINTS = """
[nnimgr.tuners]
Bayesian = their_tuner:Bayesian
Random = their_tuner:Shadow

[nnimgr.assessors]
Strict = their_tuner.judges:Strict

[nnimgr.schedulers]
Pacer = their_tuner.paces:Pacer

[console_scripts]
theirs = their_tuner:main
"""
CODE = """
raise_if_imported = open({mark!r}, "a").write("imported")

class Bayesian:
    def __init__(self, depth=1): self.depth = depth
    def update_search_space(self, search_space): pass
    def generate_parameters(self, parameter_id, **kwargs): return {{"depth": self.depth}}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Make a folder with an installed package. An import of the package creates the file ``mark``."""
    folder = tmp_path / "site"
    (folder / "their_tuner-1.2.dist-info").mkdir(parents=True)
    (folder / "their_tuner-1.2.dist-info" / "METADATA").write_text("Name: their-tuner\nVersion: 1.2\n")
    (folder / "their_tuner-1.2.dist-info" / "entry_points.txt").write_text(POINTS)
    (folder / "their_tuner.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    return folder


def python(package: Path, tmp_path: Path) -> Interpreter:
    """Return a Python of the user's that has the package."""
    environ = {**os.environ, "PYTHONPATH": str(package), "NNI_CONFIG_DIR": str(tmp_path)}
    return Interpreter(python=sys.executable, environ=environ)


def test_entry_points_are_read_without_an_import(package: Path, tmp_path: Path) -> None:
    found = {entry.name: entry for entry in installed([str(package)])}
    assert found.keys() == {"Bayesian", "Random", "Strict", "Pacer"}
    assert found["Bayesian"].class_name == "their_tuner.Bayesian"
    assert (found["Strict"].role, found["Strict"].package) == ("assessor", "their-tuner 1.2")
    there = python(package, tmp_path)
    entry = registry.resolve("tuner", "bayesian", interpreter=there)
    assert entry == found["Bayesian"]
    registry.check("tuner", "Bayesian", {"depth": 2}, interpreter=there)
    assert isinstance(registry.resolve("tuner", "Random", interpreter=there), registry.Builtin)
    with pytest.raises(registry.AlgorithmError, match=r"ASHA, Bayesian; did you mean Bayesian\?"):
        registry.check("tuner", "Bayesan", {}, interpreter=there)
    with pytest.raises(registry.AlgorithmError, match="there is no built-in tuner 'Bayesian'"):
        registry.check("tuner", "Bayesian", {})  # this Python does not have the package
    assert not (tmp_path / "mark").exists()


def test_a_python_that_does_not_answer_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    with pytest.raises(InterpreterError, match=f"the Python {missing} cannot report where its packages are"):
        Interpreter(python=missing).folders()
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    there = Interpreter(python=str(broken), environ={"NNI_CONFIG_DIR": str(tmp_path)})
    with pytest.raises(registry.AlgorithmError, match="cannot report where its packages are") as caught:
        registry.check("tuner", "Bayesian", {}, interpreter=there)
    assert caught.value.path == ("name",)
    registry.check("tuner", "TPE", {}, interpreter=there)


async def test_the_child_finds_it(host: Host, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(package))
    tuner = await host(name="BAYESIAN", class_args={"depth": 3})
    tuner.ask(0)
    assert await tuner.suggestions(1) == ['{"depth": 3}']
    assert not tuner.of_kind(m.Failed)


def test_they_are_listed_with_the_package_that_brings_them(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(package))
    assert main(["algo", "list", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)["algorithms"]}
    assert listed["Bayesian"]["source"] == "their-tuner 1.2"
    assert (listed["Strict"]["type"], listed["Strict"]["module"]) == ("assessor", "their_tuner.judges")
    assert (listed["Pacer"]["type"], listed["PBTReplay"]["type"]) == ("scheduler", "scheduler")
    assert listed["TPE"]["source"] == "nni"
    assert main(["algo", "show", "bayesian"]) == 0
    assert '"source": "their-tuner 1.2"' in capsys.readouterr().out
    assert main(["algo", "unregister", "Bayesian"]) == 1
    assert (
        "no registered algorithm Bayesian: it comes with the package their-tuner 1.2"
        in capsys.readouterr().err
    )
