"""JupyterLab in a virtual environment that is kept from run to run, and one running for a test.

It is in ``$NNIMGR_TEST_JUPYTER``, or ``~/.cache/nnimgr-jupyter``. Its kernels import
nnimgr from this checkout.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.e2e.scene import eventually
from tests.server.harness import free_port

ROOT = Path(__file__).parents[3]
NEEDED = ("jupyterlab>=4.4", "ipykernel>=7", "anywidget>=0.9")
INSTALL_LIMIT_S = 900
_TOKEN = "a-token-for-one-test"


class NoJupyter(Exception):
    """JupyterLab cannot be had on this machine; the message says why."""


@cache
def jupyter_python() -> Path:
    """Return the interpreter of an environment with JupyterLab. Raise NoJupyter."""
    given = os.environ.get("NNIMGR_TEST_JUPYTER")
    place = Path(given) if given else Path.home() / ".cache" / "nnimgr-jupyter"
    python, done = place / "bin" / "python3", place / "installed"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with open(place / "lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it
            if not done.exists():
                _run(sys.executable, "-m", "venv", str(place))
                _run(str(python), "-m", "pip", "install", "--quiet", *NEEDED)
                done.touch()
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NoJupyter(f"JupyterLab cannot be installed: {said.strip()[-300:]}") from error
    return python


def _run(*command: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(command, check=True, capture_output=True, text=True, env=environ, timeout=INSTALL_LIMIT_S)


@contextmanager
def lab(directory: Path, cells: Sequence[str]) -> Iterator[str]:
    """Run JupyterLab with the notebook ``search.ipynb`` of these cells. Yield the notebook's address."""
    work = directory / "work"
    work.mkdir()
    (work / "search.ipynb").write_text(json.dumps(_notebook(cells)))
    port = free_port()
    root = f"http://127.0.0.1:{port}"
    environ = {
        **os.environ,
        "HOME": str(directory),
        "NNIMGR_HOME": str(directory / "home"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), sysconfig.get_path("purelib"))),
    }
    command = [
        str(jupyter_python()), "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}",
        f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={work}", "--LabApp.news_url=None",
    ]  # fmt: skip
    with open(directory / "lab.log", "wb") as log:
        process = subprocess.Popen(command, env=environ, cwd=work, stdout=log, stderr=log)
    try:
        eventually(lambda: _answers(f"{root}/api?token={_TOKEN}"), "JupyterLab to answer", 60)
        yield f"{root}/lab/tree/search.ipynb?token={_TOKEN}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _notebook(cells: Sequence[str]) -> dict[str, Any]:
    return {
        "cells": [
            {
                "cell_type": "code", "id": f"cell-{place}", "metadata": {}, "outputs": [],
                "execution_count": None, "source": source,
            }
            for place, source in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip
