"""Runs of many lives in several processes, with counts and reports."""

from __future__ import annotations

import collections
import multiprocessing
import time
from collections.abc import Iterator, Sequence

from tests.simulation.kernel import Violation
from tests.simulation.world import CERTAIN, World

Outcome = tuple[int, dict[str, int], str | None]


def live(seed: int) -> Outcome:
    """Run one seed. Return its faults by kind, and the promise that it broke."""
    world = World(seed)
    try:
        world.run()
    except Violation as violation:
        return seed, dict(world.kernel.counts), str(violation)
    missing = [kind for kind in CERTAIN if not world.kernel.counts[kind]]
    too_kind = f"the simulator injected too few faults: no {', no '.join(missing)}" if missing else None
    return seed, dict(world.kernel.counts), too_kind


def tell(seed: int, *, whole: bool) -> bool:
    """Print the story of one seed. Return True if it keeps every promise."""
    world = World(seed)
    failure = None
    try:
        world.run()
    except Violation as violation:
        failure = violation
    story = world.kernel.story()
    for line in story if whole else story[-60:]:
        print(line)
    print(f"seed {seed}: {failure or 'no violation'}")
    return failure is None


def _outcomes(seeds: Sequence[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(live, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(live, seeds, chunksize=5)


def run(seeds: Sequence[int], *, jobs: int) -> bool:
    """Run many seeds and print the injected faults. Return True if no seed broke a promise."""
    began = time.perf_counter()
    faults: collections.Counter[str] = collections.Counter()
    broken: dict[int, str] = {}
    for seed, counts, violation in _outcomes(seeds, jobs):
        faults.update(counts)
        if violation is not None:
            broken[seed] = violation
            print(f"seed {seed}: {violation.splitlines()[0][:200]}", flush=True)
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds in {seconds:.1f} s ({len(seeds) / seconds:.1f} seeds/s), {len(broken)} broken")
    for kind, number in sorted(faults.items(), key=lambda item: -item[1]):
        print(f"{number:9d}  {kind}")
    if broken:
        print()
        tell(min(broken), whole=False)
    return not broken
