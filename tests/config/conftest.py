"""Fixtures that load a text as a configuration file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnimgr.config import ConfigError, Loaded, load_config
from tests.config.loading import Faults, Load

# Scripts that commands of trials name.
_SCRIPTS = ("trial.py", "train.py")
# Modules with classes that the tests' configurations name.
_MODULES = {"a": ("B",), "mine": ("Advisor", "Mine", "Tuner"), "my": ("Tuner",)}


@pytest.fixture(autouse=True)
def own_classes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this Python find the modules of users' algorithms that configurations name."""
    folder = tmp_path_factory.mktemp("own")
    for module, classes in _MODULES.items():
        (folder / f"{module}.py").write_text("".join(f"class {name}: ...\n" for name in classes))
    monkeypatch.syspath_prepend(folder)


@pytest.fixture(autouse=True)
def eight_gpus(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an ``nvidia-smi`` on the PATH that reports eight GPUs."""
    tool = tmp_path_factory.mktemp("bin") / "nvidia-smi"
    rows = "\n".join(f"{index}, GPU-{index}, 5, 0" for index in range(8))
    tool.write_text(f'#!/bin/sh\ncase $1 in --query-gpu*) echo "{rows}";; esac\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path) -> None:
    """Write the scripts of the trials, because there is a warning about a missing one."""
    for script in _SCRIPTS:
        (tmp_path / script).touch()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that loads a text as ``exp.yml``, by a path relative to its directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def load(text: str, **environ: str) -> Loaded:
        Path("exp.yml").write_text(text, encoding="utf-8")
        return load_config(Path("exp.yml"), environ=environ)

    return load


@pytest.fixture
def faults(load: Load) -> Faults:
    """Return a function that returns the errors of a text, one line each."""

    def faults(text: str, **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, **environ)
        return [str(problem) for problem in caught.value.problems]

    return faults
