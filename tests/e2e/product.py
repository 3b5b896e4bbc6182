"""Runs the product as a user does, in a home of its own: for the end-to-end tests and the benchmarks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share / 100 * len(ordered)))]


def fdatasync_ms(directory: Path, count: int = 50) -> float:
    """Median milliseconds of one fdatasync after a small append: what the disk costs at this moment."""
    path = directory / "fdatasync"
    times = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(count):
            os.write(descriptor, b"x" * 64)
            before = time.perf_counter()
            os.fdatasync(descriptor)
            times.append(1e3 * (time.perf_counter() - before))
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(times)


def free_port() -> int:
    """A port below the ephemeral range that nothing listens on."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")


class Product:
    """A home, a port, and nnictl in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.port = free_port()
        bin_directory = Path(sys.executable).parent
        self.environ = {
            **os.environ,
            "NNIMGR_HOME": str(self.home),
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
        }
        self.nnictl_path = str(bin_directory / "nnictl")

    def nnictl(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.nnictl_path, *arguments], env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"nnictl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def create(self, name: str, config: dict[str, Any]) -> str:
        """Start an experiment whose code lies in ``directory / name``; its id."""
        code = self.directory / name
        path = code / "exp.json"
        path.write_text(
            json.dumps(
                {"experimentWorkingDirectory": str(self.home), "trainingService": {"platform": "local"}}
                | config
            )
        )
        return str(
            json.loads(self.nnictl("create", "--config", str(path), "--port", str(self.port), "--json"))["id"]
        )

    def status(self, experiment_id: str) -> dict[str, Any]:
        return dict(json.loads(self.nnictl("experiment", "show", experiment_id, "--json")))

    def wait(self, experiment_id: str, *, limit_s: float) -> dict[str, Any]:
        """Wait for the end of an experiment."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            profile = self.status(experiment_id)
            if profile["status"] in ("DONE", "ERROR", "STOPPED"):
                return profile
            time.sleep(0.5)
        raise TimeoutError(f"{experiment_id} has not ended: {profile}")

    def stop_all(self) -> None:
        subprocess.run(
            [self.nnictl_path, "stop", "--all"], env=self.environ, capture_output=True, check=False
        )


@contextlib.contextmanager
def product(prefix: str) -> Iterator[Product]:
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    made = Product(directory)
    try:
        yield made
    finally:
        made.stop_all()
        shutil.rmtree(directory, ignore_errors=True)
