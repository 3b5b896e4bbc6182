"""Environment of benchmarks: a folder that is deleted at the very end, an interpreter, products, a bare loop.

On some file systems, creating files is slow for minutes after many files were deleted. So no file is deleted
between rows. The folder is marked as the top of a hierarchy (``chattr +T``), so that its subfolders are
placed apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import proc
from tests.e2e.product import Product, fdatasync_ms
from tests.processes import of_home
from trial_keeper.machine.interpreter import lay_down

LEAVE_S = 15.0
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Loop:
    """Results of a bare loop of processes."""

    per_s: float
    child_ms: float  # CPU time of one process and its children
    busy_elsewhere: float  # share of the machine that other processes used meanwhile


class Ground:
    """Folder of one run of benchmarks. Use it as a context."""

    def __init__(self, parent: Path | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nnimgr-benchmarks-", dir=parent))
        if (chattr := shutil.which("chattr")) is not None:  # other file systems do not support the mark
            subprocess.run([chattr, "+T", str(self.directory)], capture_output=True, check=False)
        self._python: Path | None = None
        self._others: list[Path] = []

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *error: object) -> None:
        for directory in (self.directory, *self._others):
            shutil.rmtree(directory, ignore_errors=True)

    @property
    def python(self) -> Path:
        """An interpreter with an empty ``site-packages``, for trials and bare loops."""
        if self._python is None:
            place = self.directory / "plain"
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
            self._python = place / "bin" / "python3"
        return self._python

    def fdatasync_ms(self) -> float:
        return fdatasync_ms(self.directory)

    def folder(self, name: str) -> Path:
        """Make a new folder whose name begins with ``name``."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))

    def short_folder(self) -> Path:
        """Make a new folder with a short path, for products that put sockets deep below it."""
        self._others.append(Path(tempfile.mkdtemp(prefix="nb")))
        return self._others[-1]

    @contextlib.contextmanager
    def product(self, name: str) -> Iterator[Product]:
        """Yield a home and a port, with the environment of bare loops. End all its processes afterwards."""
        own = Product(self.folder(name))
        own.environ = {key: own.environ[key] for key in own.environ if not key.startswith("PYTHON")}
        try:
            yield own
        finally:
            own.stop_all()
            end_processes(own.home)

    def sdk_environ(self) -> dict[str, str]:
        """Return the environment of a trial outside an experiment, which reads its parameter and reports."""
        place = self.folder("alone")
        lay_down(str(place / "sdk"))
        (place / ".nni").mkdir()
        (place / "parameter.cfg").write_text(
            '{"parameter_id": 0, "parameter_source": "algorithm", "parameters": {"x": 0.25}}'
        )
        return {
            **plain_environ(),
            "NNI_PLATFORM": "local",
            "NNI_SYS_DIR": str(place),
            "NNI_OUTPUT_DIR": str(place),
            "NNI_EXP_ID": "alone",
            "NNI_TRIAL_JOB_ID": "alone",
            "NNI_TRIAL_SEQ_ID": "0",
            "PYTHONPATH": str(place / "sdk"),
        }


def plain_environ() -> dict[str, str]:
    """Return this process's environment without variables that change the start of Python."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def popen_loop(
    argv: Sequence[str], *, count: int, concurrency: int, environ: Mapping[str, str] | None = None
) -> Loop:
    """Run ``count`` processes, ``concurrency`` at a time. This process must have no other children."""
    environ = plain_environ() if environ is None else environ
    used_s, machine_s, begun = own_cpu_s(), proc.machine_cpu_s(), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    running: dict[int, subprocess.Popen[bytes]] = {}
    failed = 0
    for number in range(count + concurrency):
        if number >= concurrency and running:
            pid, status = os.wait()
            running.pop(pid).returncode = os.waitstatus_to_exitcode(status)
            failed += status != 0
        if number < count:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=environ)
            running[process.pid] = process
    seconds = time.monotonic() - begun
    if failed:
        raise RuntimeError(f"{failed} of {count} processes failed: {' '.join(argv)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    others = proc.machine_cpu_s() - machine_s - (own_cpu_s() - used_s)
    cores = len(os.sched_getaffinity(0))
    return Loop(
        per_s=count / seconds, child_ms=1e3 * used / count, busy_elsewhere=max(0.0, others / seconds / cores)
    )


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and its children."""
    return sum(os.times()[:4])


def end_processes(home: Path) -> None:
    """Wait until all processes of this home have ended. Kill the remaining ones."""
    deadline = time.monotonic() + LEAVE_S
    while left := of_home(home):
        if time.monotonic() > deadline:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        time.sleep(LOOK_S)


def server_pid(own: Product) -> int:
    """Return the process id of the product's server, which must be running."""
    path = own.home / ".nnimgr" / f"server-{own.port}.json"
    return int(json.loads(path.read_text(encoding="utf-8"))["pid"])


def create(own: Product, name: str, trial: str, **config: Any) -> str:
    """Start an experiment of Random search over one ``x`` with this ``trial.py``. Return its id."""
    code = own.directory / name
    code.mkdir(exist_ok=True)
    (code / "trial.py").write_text(trial, encoding="utf-8")
    plain: dict[str, Any] = {
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trialCodeDirectory": str(code),
        "tuner": {"name": "Random"},
    }
    return own.create(name, plain | config)


class Look:
    """Reads an experiment's database while its server runs, with at most a few reads per second."""

    def __init__(self, own: Product, experiment_id: str) -> None:
        self.directory = own.home / experiment_id
        path = self.directory / "db" / "nnimgr.sqlite"
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=10)

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def one(self, query: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        return self._connection.execute(query, values).fetchone()[0]

    def status(self) -> tuple[str, int]:
        """Return the experiment's status and its number of succeeded trials.

        Raise RuntimeError if it failed.
        """
        status, counts, reason = self.rows("SELECT status, counts, reason FROM experiments")[0]
        if status in ("ERROR", "STOPPED"):
            raise RuntimeError(f"the experiment is {status}: {reason}")
        return str(status), int(json.loads(counts).get("SUCCEEDED", 0))

    def wait_done(self, limit_s: float) -> None:
        for _ in looks(limit_s):
            if self.status()[0] == "DONE":
                return


def looks(limit_s: float, pause_s: float = LOOK_S) -> Iterator[float]:
    """Yield the seconds since the first look, at each look. Raise TimeoutError."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < limit_s:
        yield passed
        time.sleep(pause_s)
    raise TimeoutError(f"not there after {limit_s:.0f} s")
