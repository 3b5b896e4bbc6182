"""The version number is the same wherever it is written down."""

from __future__ import annotations

import re
from pathlib import Path

import nni
import nnimgr
import trial_keeper

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_all_packages_have_one_version() -> None:
    assert nni.__version__ == nnimgr.__version__ == trial_keeper.VERSION


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    headings = re.findall(r"^## (.+)$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(nnimgr.__version__)} - \d{{4}}-\d\d-\d\d", headings[1])
