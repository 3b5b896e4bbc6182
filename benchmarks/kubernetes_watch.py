"""CPU of one event of a Kubernetes watch with many pods, over that with few.

    python -m benchmarks.kubernetes_watch [--pods 10000] [--events 20000] [--runs 5]

The events are lines of JSON as an API server writes them; each changes what is known of its job. Reading them
from a socket is left out, everything after that is measured. Both sizes are taken in turn.
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
from training_services.kubernetes.watch import EXPERIMENT_LABEL, JobWatch

RATIO = 1.2
FEW = 100
BATCH = 50  # events that come together
EXPERIMENT = "e"


class ScriptedCluster(Cluster):
    """An API server's lines from a queue; it has nothing when it is listed."""

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
    """An event of this pod."""
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


def batches(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (lines[start : start + BATCH] for start in range(0, len(lines), BATCH))


async def event_us(pods: int, events: int) -> float:
    """CPU microseconds of one event, with so many pods."""
    told = 0
    enough = asyncio.Event()
    wanted = pods

    def changed(names: Collection[str]) -> None:
        nonlocal told
        told += len(names)
        if told >= wanted:
            enough.set()

    cluster = ScriptedCluster()
    watch = JobWatch(cluster, "trials", EXPERIMENT, changed)
    await watch.open()
    for batch in batches([line("ADDED", pod, 1 + pod, "Pending") for pod in range(pods)]):
        cluster.lines["pods"].put_nowait(batch)
    await enough.wait()
    # Each pod in turn, and the other phase each time round: every event is a change.
    lines = [
        line("MODIFIED", at % pods, 1 + pods + at, "Pending" if at // pods % 2 else "Running")
        for at in range(events)
    ]
    enough.clear()
    wanted = told + events
    before = time.process_time()
    for batch in batches(lines):
        cluster.lines["pods"].put_nowait(batch)
    await enough.wait()
    used = time.process_time() - before
    await watch.close()
    return 1e6 * used / events


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """The ratio, with both figures beside it."""
    few, many = [], []
    for _ in range(options.runs):
        few.append(asyncio.run(event_us(FEW, options.events)))
        many.append(asyncio.run(event_us(options.pods, options.events)))
    yield Row(
        name=f"event of a Kubernetes watch with {options.pods:,} pods, over that with {FEW}",
        value=statistics.median(a / b for a, b in zip(many, few, strict=True)),
        unit="",
        better=Better.LESS,
        limit=RATIO,
        details={
            "few_us": statistics.median(few),
            "many_us": statistics.median(many),
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
