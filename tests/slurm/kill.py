"""Kills the controller of a real Slurm at random moments in the first seconds of pilots.

    python -m tests.slurm.kill [--pilots 200] [--seed 1]

In each round, several experiments submit a pilot each, at random times before the controller is killed and
started again. For half of them, the answer of sbatch is lost. Each has one trial, which notes each run of its
command. Counted are commands that run twice, and pilots that are there two minutes after the experiment has
ended. Bare jobs of sbatch with the same command, without nnimgr, are counted beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tests.slurm.cluster import SlurmCluster
from tests.slurm.platform import SlurmPlatform
from tests.slurm.test_failures import until
from training_services.base import JobEnded, JobLost
from training_services.slurm import login
from training_services.testing import CoreDouble

FIRST_S = 10.0  # the controller is killed within this time after a pilot was submitted
AWAY_S = 0.3
# A controller that was killed may have forgotten jobs that it had just started. Then it ends them on their
# nodes, and only the lease proves that nothing of them runs.
LEASE = timedelta(seconds=30)
RUNS_S = 8  # seconds for which a trial runs
# A controller that has forgotten jobs gives their numbers again. It drains the nodes where these still run,
# and nothing starts there any more.
END_S = 120.0
BARE_S = 45.0  # time in which a job of a killed controller is launched again
# Time after which no pilot of an ended experiment may be there. One whose sbatch got no answer leaves by
# itself when it has found no order for a minute.
LEFT_S = 120.0
LIVING = {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING"}
LOST_ANSWER = """#!/bin/sh
PATH=${PATH#*:}
sbatch "$@" > /dev/null
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""
BARE = """#!/bin/sh
#SBATCH --no-requeue --ntasks=1 --output=/dev/null --time=10
echo ran >> {runs}
sleep {seconds}
"""


@dataclass(slots=True)
class Tally:
    """Counts of a campaign. ``twice``: commands that ran more than once; ``left``: pilots too many.

    ``bare_twice``: bare jobs whose command ran more than once. ``ends``: how the trials have ended;
    "none": they wait for Slurm.
    """

    pilots: int = 0
    twice: int = 0
    left: int = 0
    bare_twice: int = 0
    ends: Counter[str] = field(default_factory=Counter)


def lose_answers(platform: SlurmPlatform) -> None:
    """Put an sbatch before the real one on the PATH that submits, and reports an error."""
    folder = platform.directory / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(LOST_ANSWER)
    (folder / "sbatch").chmod(0o755)
    platform.environ["PATH"] = f"{folder}:{platform.environ['PATH']}"


async def _experiment(platform: SlurmPlatform, tally: Tally, *, after: float) -> None:
    """Run one trial in one pilot, and count what it has done."""
    await asyncio.sleep(after)
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", f"echo ran >> {platform.shared}/ran\nsleep {RUNS_S}\n")
    job_id = core.submit("aaaa1")

    def ends() -> list[str]:
        return [type(fact).__name__ for fact in core.of(job_id) if isinstance(fact, JobEnded | JobLost)]

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await until(lambda: bool(ends()))
    tally.ends.update(ends()[:1] or ["none"])
    await core.close(detach=False)
    left = await _left(platform)
    runs = platform.shared / "ran"
    tally.pilots += 1
    tally.twice += runs.exists() and len(runs.read_text().split()) > 1
    tally.left += left
    await platform.close()


async def _left(platform: SlurmPlatform) -> int:
    """Wait until no pilot of the experiment is there. Return the number of those that stay."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LEFT_S
    while True:
        words = ("squeue", "-h", "-o", "%T %k")
        done = await asyncio.to_thread(platform.cluster.run, *words, check=False)
        states = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(platform.run)]
        found = sum(state in LIVING for state in states)
        if (done.returncode == 0 and not found) or loop.time() > end:
            return found
        await asyncio.sleep(1.0)


async def _bare(cluster: SlurmCluster, directory: Path, tally: Tally, *, after: float) -> None:
    """Submit a job without nnimgr, give it time for a second run, and count its runs."""
    await asyncio.sleep(after)
    runs, script = directory / "ran", directory / "bare.sh"
    script.write_text(BARE.format(runs=runs, seconds=RUNS_S))
    await asyncio.to_thread(cluster.run, "sbatch", str(script), check=False)
    await asyncio.sleep(BARE_S)
    tally.bare_twice += runs.exists() and len(runs.read_text().split()) > 1


async def _round(
    cluster: SlurmCluster, directory: Path, tally: Tally, dice: random.Random, pilots: int
) -> None:
    tasks = []
    for number in range(pilots):
        folder, bare = directory / f"p{number}", directory / f"b{number}"
        folder.mkdir()
        bare.mkdir()
        platform = SlurmPlatform(folder, cluster)
        platform.lease = LEASE
        if dice.random() < 0.5:
            lose_answers(platform)
        after = dice.uniform(0, FIRST_S)
        tasks.append(asyncio.create_task(_experiment(platform, tally, after=after)))
        tasks.append(asyncio.create_task(_bare(cluster, bare, tally, after=after)))
    await asyncio.sleep(FIRST_S)
    await asyncio.to_thread(cluster.kill_controller)
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(cluster.start_controller)
    await asyncio.gather(*tasks)


async def campaign(
    directory: Path, *, pilots: int, together: int, seed: int, say: Callable[[str], object]
) -> Tally:
    """Run rounds of ``together`` pilots until there were enough. Return what was counted."""
    tally, dice, number = Tally(), random.Random(seed), 0
    before, login.LOOK_S = login.LOOK_S, 1.0  # what is in doubt is looked up within a minute
    try:
        while tally.pilots < pilots:
            number += 1
            folder = directory / f"round{number}"
            folder.mkdir()
            with SlurmCluster(nodes=2, cpus=2 * together) as cluster:
                await _round(cluster, folder, tally, dice, min(together, pilots - tally.pilots))
            say(f"round {number}: {tally}")
    finally:
        login.LOOK_S = before
    return tally


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--pilots", type=int, default=200)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="nnimgr-slurm-kill-") as directory:
        tally = asyncio.run(
            campaign(
                Path(directory), pilots=options.pilots, together=options.together, seed=options.seed, say=say
            )
        )
    if tally.twice or tally.left:
        sys.exit(f"{tally.twice} commands ran twice, {tally.left} pilots are too many")


if __name__ == "__main__":
    main()
