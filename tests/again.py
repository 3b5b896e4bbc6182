"""Runs the tests that have failed in a run of all tests once more, with nothing beside them.

    python -m tests.again CACHE [CACHE ...]

Each CACHE is a cache folder of pytest. Beside some thousand others, a test of real servers may fail because
the machine is too busy for one of its limits. Such a test is named at the end and should be mended, but it
fails the whole run only if it fails again. A test that kills processes at random instants gets no second run:
what it has found may not show again. More than ``MOST`` failures are no accident.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["MOST", "failed", "main"]

MOST = 5
_PYTEST = (sys.executable, "-m", "pytest")
_NONE_FOUND = 5  # exit code of pytest


def failed(caches: Sequence[str]) -> list[str]:
    """Return the names of the tests that failed in the last runs with these cache folders."""
    files = [Path(cache, "v", "cache", "lastfailed") for cache in caches]
    return sorted({name for file in files if file.is_file() for name in json.loads(file.read_text())})


def main(caches: Sequence[str]) -> int:
    """Run the failed tests again. Return 0 if all of them have succeeded now."""
    names = failed(caches)
    listed = "".join(f"\n  {name}" for name in names)
    if not names or len(names) > MOST:
        _say(f"{len(names)} tests are recorded as failed, which are not run again:{listed}")
        return 1
    kills = subprocess.run([*_PYTEST, "--collect-only", "-q", "-m", "kill", *names], capture_output=True)
    if kills.returncode != _NONE_FOUND:
        _say(f"Not run again, because tests that kill, or that cannot be found, are among them:{listed}")
        return 1
    code = subprocess.run([*_PYTEST, *names]).returncode
    if code == 0:
        _say(f"Failed beside other tests, and succeeded alone, so these tests need to be mended:{listed}")
    return code


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
