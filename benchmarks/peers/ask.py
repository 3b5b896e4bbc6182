"""Runner of a benchmark's task in each peer, and reader of the results.

Each peer runs as a separate program, ``run_<peer>.py``, in its own environment (see ``setup``) with its own
home. Afterwards, all its processes are ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ground import Ground, plain_environ
from benchmarks.peers.setup import PEERS, interpreter
from benchmarks.report import Figure

LIMIT_S = 120.0
MARK = "NNIMGR_BENCHMARK_PEER"
TAIL = 300  # characters of a failed peer's last output


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one peer, or the reason why there is none.

    ``variant``: the way of use, if there are several.
    """

    peer: str
    values: Mapping[str, float]
    variant: str = ""
    note: str = ""


class Peers:
    """The peers of a run. Without ``wanted``, they are not run."""

    def __init__(self, ground: Ground, *, wanted: bool) -> None:
        self._ground = ground
        self.wanted = wanted

    def ask(
        self, kind: str, *, of: Sequence[str] = tuple(PEERS), limit_s: float = LIMIT_S, **given: Any
    ) -> Sequence[Answer]:
        """Return these peers' results for ``kind``: noop, stream, latency, startup, population, scores or
        study. ``limit_s``: longest time of a peer.
        """
        if not self.wanted:
            return ()
        answers = []
        for name in of:
            print(f"  {PEERS[name].title}: {kind}", file=sys.stderr, flush=True)
            answers += self._ask(name, kind, given, limit_s)
        return answers

    def _ask(self, name: str, kind: str, given: Mapping[str, Any], limit_s: float) -> list[Answer]:
        title = PEERS[name].title
        python = interpreter(name)
        if python is None:
            return [Answer(title, {}, note="peer not installed")]
        place = self._ground.short_folder()
        order = {
            "trials": PEERS[name].trials,
            **given,
            "folder": str(place),
            "answer": str(place / "answer.json"),
            "plain": str(self._ground.python),
            "began": time.time(),
        }
        failed = _run(python, name, kind, order, place, limit_s)
        try:
            found = json.loads((place / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return [Answer(title, {}, note=failed or "it gave nothing")]
        return [Answer(title, one["values"], variant=one.get("variant", "")) for one in found]


def figures(answers: Sequence[Answer], value: str) -> tuple[Figure, ...]:
    """Return one of the values, for each peer."""
    return tuple(
        Figure(
            f"{answer.peer} ({answer.variant})" if answer.variant else answer.peer,
            answer.values.get(value),
            answer.note,
        )
        for answer in answers
    )


def _run(python: Path, name: str, kind: str, order: Mapping[str, Any], place: Path, limit_s: float) -> str:
    """Run one peer's program to its end. Return the error, or ""."""
    program = Path(__file__).with_name(f"run_{name}.py")
    log = place / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), str(program), kind, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ(python, place),
            cwd=place,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
            failed = f"ended with {code}{tail(log)}" if code else ""
        except subprocess.TimeoutExpired:
            failed = f"not done after {limit_s:.0f} s"
        finally:
            end(place)
            process.wait()
    return failed


def environ(python: Path, place: Path) -> dict[str, str]:
    """Return the environment of a peer that runs in ``place``. ``end`` recognises its processes by it."""
    return plain_environ() | {
        MARK: str(place),
        "HOME": str(place),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }


def tail(log: Path) -> str:
    """Return the end of a peer's output, with a colon before it; "" if there is no output."""
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return f": {' '.join(text[-TAIL:].split())}" if text else ""


def end(place: Path) -> None:
    """Kill, by their ids, all processes that the peer in ``place`` has started."""
    while marked := list(_marked(str(place))):
        for pid in marked:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if wanted in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                yield int(entry)
        except OSError:
            continue
