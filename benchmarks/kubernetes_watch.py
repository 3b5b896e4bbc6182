"""CPU of one event of a Kubernetes watch with many pods, relative to that with few pods.

    python -m benchmarks.kubernetes_watch [--pods 10000] [--events 20000] [--runs 5]

The events are lines of JSON as an API server writes them; each changes the state of its job. Everything is
measured except reading the lines from a socket. Both sizes are measured in turn, in short slices, in one
process, so they share the cost of the garbage collector.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from typing import Any

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from training_services.kubernetes.client import Cluster, Listing, Resource, WatchEvent, WatchEvents
from training_services.kubernetes.syntax import EXPERIMENT_LABEL
from training_services.kubernetes.watch import JobWatch

RATIO = 1.2
FEW = 100
BATCH = 50  # events that arrive together
SLICE = 500  # events between two readings of the clock
EXPERIMENT = "e"


class ScriptedCluster(Cluster):
    """An API server whose lines come from a queue. Its lists are empty."""

    def __init__(self) -> None:
        super().__init__(None, None, {})
        self.lines: dict[str, asyncio.Queue[Sequence[bytes]]] = {
            name: asyncio.Queue() for name in ("jobs", "pods", "events")
        }

    async def list(self, resource: Resource, namespace: str, **_: Any) -> Listing:
        return Listing([], "0")

    async def watch(self, resource: Resource, namespace: str, **_: Any) -> AsyncGenerator[WatchEvents]:
        while True:
            lines = await self.lines[resource.plural].get()
            yield [WatchEvent(**json.loads(line)) for line in lines]


def line(kind: str, pod: int, version: int, phase: str) -> bytes:
    """Return an event of this pod as a line."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if phase == "Running" else {"waiting": {}}
    labels = {EXPERIMENT_LABEL: EXPERIMENT, "job-name": f"job-{pod}"}
    body = {
        "metadata": {
            "name": f"job-{pod}-abcde",
            "uid": f"uid-{pod}",
            "resourceVersion": str(version),
            "labels": labels,
            "ownerReferences": [{"kind": "Job", "name": f"job-{pod}", "controller": True}],
        },
        "spec": {"nodeName": f"node-{pod % 97}", "containers": [{"name": "trial", "image": "trial:1"}]},
        "status": {
            "phase": phase,
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [{"name": "trial", "image": "trial:1", "state": state}],
        },
    }
    return json.dumps({"type": kind, "object": body}).encode()


class Load:
    """A watch with this number of known pods, and its next events."""

    def __init__(self, pods: int) -> None:
        self._pods = pods
        self._at = 0
        self._told = 0
        self._news = asyncio.Event()
        self._cluster = ScriptedCluster()
        self.watch = JobWatch(self._cluster, "trials", EXPERIMENT, self._changed)

    def _changed(self, names: Collection[str]) -> None:
        self._told += len(names)
        self._news.set()

    async def open(self) -> None:
        await self.watch.open()
        await self._take([line("ADDED", pod, 1 + pod, "Pending") for pod in range(self._pods)])

    async def slice_s(self) -> float:
        """Process the next events and return their CPU seconds. Each pod's phase changes in each round."""
        lines = []
        for at in range(self._at, self._at + SLICE):
            phase = "Pending" if at // self._pods % 2 else "Running"
            lines.append(line("MODIFIED", at % self._pods, 1 + self._pods + at, phase))
        self._at += SLICE
        before = time.process_time()
        await self._take(lines)
        return time.process_time() - before

    async def _take(self, lines: Sequence[bytes]) -> None:
        wanted = self._told + len(lines)
        for start in range(0, len(lines), BATCH):
            self._cluster.lines["pods"].put_nowait(lines[start : start + BATCH])
        while self._told < wanted:
            self._news.clear()
            await self._news.wait()


async def event_us(pods: int, events: int) -> tuple[float, float]:
    """Return the CPU microseconds of one event, with few pods and with many."""
    few, many = Load(FEW), Load(pods)
    for load in (few, many):
        await load.open()
    used_few = used_many = 0.0
    slices = max(1, events // SLICE)
    for at in range(slices):
        # Alternate the order, because the machine's speed varies and depends on the order.
        for load in (few, many) if at % 2 else (many, few):
            used = await load.slice_s()
            if load is few:
                used_few += used
            else:
                used_many += used
    for load in (few, many):
        await load.watch.close()
    return 1e6 * used_few / (slices * SLICE), 1e6 * used_many / (slices * SLICE)


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the ratio, with both figures beside it."""
    runs = [asyncio.run(event_us(options.pods, options.events)) for _ in range(options.runs)]
    ratios = [many / few for few, many in runs]
    yield Row(
        name=f"event of a Kubernetes watch with {options.pods:,} pods, over that with {FEW}",
        value=statistics.median(ratios),
        unit="",
        better=Better.LESS,
        limit=RATIO,
        details={
            "least": min(ratios),
            "most": max(ratios),
            "few_us": statistics.median(few for few, _ in runs),
            "many_us": statistics.median(many for _, many in runs),
            "events": options.events,
            "runs": options.runs,
        },
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
