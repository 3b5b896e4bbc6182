"""The documentation site is built without a warning."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install '.[dev]'"
)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    environ = {**os.environ, "NNIMGR_REPOSITORY": "https://example.org/project"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    page = (tmp_path / "writing-a-tuner" / "index.html").read_text(encoding="utf-8")
    assert 'href="https://example.org/project/blob/main/examples/tuner/hill.py"' in page
    assert "importance" in (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")
