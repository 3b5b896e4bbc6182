"""200 lives of an experiment under faults; every promise is checked after each step."""

from __future__ import annotations

import collections
import os
import subprocess
import sys

import pytest

from tests.simulation.kernel import Violation
from tests.simulation.planted import PLANTED
from tests.simulation.runs import run
from tests.simulation.world import CERTAIN, PREEMPTED, World

CHUNK = 20
GIVING_UP = (2157, 9517)  # lives in which gangs give up members
SAVING = 84  # first of four lives with checkpoints


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world = World(seed)
        try:
            world.run()
        except Violation as violation:
            story = "\n".join(world.kernel.story()[-200:])
            pytest.fail(f"seed {seed}: {violation}\n{story}", pytrace=False)
        assert all(world.kernel.counts[kind] for kind in CERTAIN), f"seed {seed} injected too few faults"


def test_a_seed_replays_identically_in_any_process() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        code = (
            "from tests.simulation.world import World; world = World(5); world.run();"
            "print(world.kernel.digest())"
        )
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True, timeout=60
        )
        digests.add(run.stdout)
    world = World(5)
    world.run()
    digests.add(world.kernel.digest() + "\n")
    assert len(digests) == 1


def test_lives_with_checkpoints_meet_all_that_can_happen_to_them() -> None:
    counts: collections.Counter[str] = collections.Counter()
    for seed in (*range(12, 16), *range(SAVING, SAVING + 4)):
        world = World(seed)
        world.run()
        counts += world.kernel.counts
    kinds = (
        *("saved", "saved when asked", "left", "paused", "parked", "continued", "checkpoint deleted"),
        *("exploit", "leg"),
    )
    assert all(counts[kind] for kind in kinds), counts


def test_trials_are_stopped_for_another_experiment() -> None:
    for seed in (PREEMPTED + 17, PREEMPTED + 85):  # trials that save nothing, and trials that save
        world = World(seed)
        world.run()
        assert world.kernel.counts["preempted"]


def test_gangs_give_up_members_and_their_members_keep_their_order() -> None:
    counts: collections.Counter[str] = collections.Counter()
    for seed in GIVING_UP:
        world = World(seed)
        world.run()
        counts += world.kernel.counts
    kinds = ("members wanted back", "gave up members", "members kept", "guest placed")
    assert all(counts[kind] for kind in kinds), counts


def test_seeds_differ() -> None:
    worlds = [World(seed) for seed in (1, 2)]
    for world in worlds:
        world.run()
    assert worlds[0].kernel.digest() != worlds[1].kernel.digest()


def test_a_broken_seed_is_told_with_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    with PLANTED["inventory_trusted_early"]():
        assert not run(range(5), jobs=1)
    printed = capsys.readouterr().out
    assert "VIOLATION" in printed and "server crash" in printed and "seeds/s" in printed


def test_seeds_are_shared_out_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(range(200, 206), jobs=2)
    assert "6 seeds in" in capsys.readouterr().out
