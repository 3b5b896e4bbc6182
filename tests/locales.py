"""A locale whose encoding is not UTF-8, made for a test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_LOCALE = "en_US.ISO-8859-1"


def latin(folder: Path) -> dict[str, str]:
    """Return the environment variables of a locale that has one byte for each character; else skip."""
    localedef = shutil.which("localedef")
    if localedef is None:
        pytest.skip("localedef is not installed, so there are no other locales than UTF-8 ones")
    command = [localedef, "-i", "en_US", "-f", "ISO-8859-1", str(folder / _LOCALE)]
    if subprocess.run(command, capture_output=True, check=False).returncode > 1:  # 1: only warnings
        pytest.skip("the sources of locales are not installed")
    return {"LOCPATH": str(folder), "LC_ALL": _LOCALE}
