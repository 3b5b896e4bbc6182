"""A test that has failed beside others runs once more, unless it kills or many have failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.again import MOST, main

# Each test fails unless the file "quiet" is there.
_TESTS = """
import os
import pytest

def test_of_a_busy_machine():
    assert os.path.exists("quiet")

@pytest.mark.kill
def test_that_kills():
    assert os.path.exists("quiet")

@pytest.mark.parametrize("number", range({count}))
def test_of_a_broken_product(number):
    assert os.path.exists("quiet")
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the cache folder. The current folder has tests and no cache."""
    monkeypatch.chdir(tmp_path)
    Path("pytest.ini").write_text("[pytest]\nmarkers = kill\n", encoding="utf-8")
    Path("test_it.py").write_text(_TESTS.format(count=MOST + 1), encoding="utf-8")
    return "noted"


def run(cache: str, words: str) -> None:
    """Run the tests with these words in their names."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-k", words]
    assert subprocess.run(command, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("words", "is_quiet", "code", "said"),
    [
        (
            "busy",
            True,
            0,
            "Failed beside other tests, and succeeded alone, so these tests need to be mended:",
        ),
        ("busy", False, 1, ""),
        ("busy or kills", True, 1, "Not run again, because tests that kill,"),
        ("broken", True, 1, f"{MOST + 1} tests are recorded as failed, which are not run again:"),
    ],
)
def test_which_tests_run_again(
    cache: str, capsys: pytest.CaptureFixture[str], words: str, is_quiet: bool, code: int, said: str
) -> None:
    run(cache, words)
    if is_quiet:
        Path("quiet").touch()
    assert main([cache]) == code
    shown = capsys.readouterr().out
    assert shown.startswith(said) and ("test_it.py::test_of" in shown or not said)


def test_a_run_without_recorded_failures_has_failed(cache: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([cache]) == 1
    assert capsys.readouterr().out.startswith("0 tests are recorded as failed")
