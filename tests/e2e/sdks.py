"""NNI's own SDKs, as published, each in a virtual environment that is kept from run to run.

They lie in ``$NNIMGR_TEST_SDKS``, or ``~/.cache/nnimgr-sdks``. They need an older Python: the first of
``python3.11`` to ``python3.8`` that runs, or what ``$NNIMGR_TEST_SDK_PYTHON`` names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VERSIONS = ("2.10.1", "3.0")
PYTHONS = ("3.11", "3.10", "3.9", "3.8")
# What trials need of what NNI asks for: all of it takes several times as long to install.
NEEDED = (
    "astor",
    "cloudpickle",
    "colorama",
    "filelock<3.12",
    "json_tricks",
    "numpy<2",
    "pandas<2",
    "psutil",
    "pyyaml",
    "requests",
    "schema",
    "scipy",
    "setuptools<81",
    "typeguard<4.1.3",
    "typing_extensions",
    "websockets<12",
)
INSTALL_LIMIT_S = 900


class NoSdk(Exception):
    """The SDK cannot be had on this machine; the message says why."""


@cache
def sdk_python(version: str) -> Path:
    """The interpreter of an environment with this version of NNI. Raises NoSdk."""
    given = os.environ.get("NNIMGR_TEST_SDKS")
    home = Path(given) if given else Path.home() / ".cache" / "nnimgr-sdks"
    place = home / f"nni-{version}"
    python, done = place / "bin" / "python3", place / "installed"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with open(home / f"nni-{version}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it
            if not (done.exists() and python.exists()):
                shutil.rmtree(place, ignore_errors=True)
                _install(place, version)
                done.touch()
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NoSdk(f"nni=={version} cannot be installed: {said.strip()[-300:]}") from error
    return python


def _install(place: Path, version: str) -> None:
    """Raises NoSdk, OSError, SubprocessError."""
    _run(_base_python(), "-m", "venv", str(place))
    install = (str(place / "bin" / "python3"), "-m", "pip", "install", "--quiet", "--prefer-binary")
    _run(*install, "--no-deps", f"nni=={version}")
    _run(*install, "--no-compile", *NEEDED)


def _run(*command: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(command, check=True, capture_output=True, text=True, env=environ, timeout=INSTALL_LIMIT_S)


def _base_python() -> str:
    for candidate in _candidates():
        path = shutil.which(candidate)
        if path is not None and python_version(path) in PYTHONS:
            return path
    raise NoSdk(f"NNI's SDKs need one of Python {', '.join(PYTHONS)} in PATH or NNIMGR_TEST_SDK_PYTHON")


def _candidates() -> Iterator[str]:
    if (given := os.environ.get("NNIMGR_TEST_SDK_PYTHON")) is not None:
        yield given
    yield from (f"python{version}" for version in PYTHONS)
    yield sys.executable


def python_version(python: str) -> str | None:
    """``3.11``; None: it does not run."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
