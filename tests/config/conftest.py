"""Fixtures that load a text as a configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import ConfigError, Loaded, load_config
from tests.config.loading import Faults, Load


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
