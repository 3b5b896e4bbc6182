"""What the transfer of a checkpoint to another host costs, over scp of the same bytes on the same link.

    python -m benchmarks.checkpoint_transfers [--size 1073741824]

Two machines with SSH servers of their own, in network namespaces (this needs root). A trial saves one file on
the first machine; the server copies it. Then this machine is drained, and the trial continues on the second
one, which fetches the copy. In turn, ``scp`` brings a file of the same size from the first machine to this
one, and from this one to the second machine.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import program
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers
from benchmarks.report import Better, Row
from tests.e2e.remote import Field, field
from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine
from training_services.keepers.names import host_of

RATIO = 0.5  # least throughput over that of scp, in each direction
LIMIT_S = 300.0
TRIAL = """
import os, time
import nni

nni.get_next_parameter()
if nni.load_checkpoint() is None:
    path = os.path.join(os.environ["NNI_SYS_DIR"], "state")
    with open(path, "wb") as file:
        piece = os.urandom(1 << 20)
        for _ in range(SIZE >> 20):
            file.write(piece)
    nni.save_checkpoint(path, step=1, metric=0.5)
    os.unlink(path)
    time.sleep(600)  # until it is paused
nni.report_final_result(0.5)
"""


class Transfer(Field):
    """One trial that saves a large checkpoint on one of two machines, and continues on the other."""

    def begin_saving(self, size: int) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL.replace("SIZE", str(size)))
        self.create(
            "python3 trial.py",
            trialCodeDirectory=str(code),
            trainingService={
                "platform": "remote",
                "machineList": [machine.entry() for machine in self.machines],
            },
        )

    def times(self, kind: str) -> list[float]:
        """Return the times of the facts of this kind, in seconds."""
        return [
            at / 1e6 for found, at in self.rows("SELECT kind, at FROM facts ORDER BY number") if found == kind
        ]

    def seconds_to_server(self) -> float:
        eventually(lambda: self.times("CheckpointKept"), "the copy", LIMIT_S)
        return self.times("CheckpointKept")[0] - self.times("CheckpointKeepBegun")[0]

    def seconds_from_server(self) -> float:
        """Move the trial to the other machine; return the seconds from its placement to its start."""
        trial = self.trial()
        place = next(job["keeperId"] for job in self.get(f"/trials/{trial['id']}")["jobs"])
        machines = self.get("/machines")["machines"]
        name = next(each["name"] for each in machines if str(host_of(place)) in each["address"])
        self.nnictl("machine", "drain", name, "exp")
        self.nnictl("trial", "pause", "exp", "-T", trial["id"])
        eventually(lambda: self.trial()["status"] == "PAUSED", "the pause", LIMIT_S)
        self.nnictl("trial", "resume", "exp", "-T", trial["id"])
        eventually(lambda: len(self.times("JobStarted")) == 2, "the start", LIMIT_S)
        return self.times("JobStarted")[1] - self.times("JobPlaced")[1]


def scp(found: Bed, source: str, target: str, machine: Machine) -> float:
    """Return the seconds that scp takes. The machine's user and address replace ``@``."""
    there = f"{machine.user}@{machine.host}"
    command = ["scp", "-q", "-F", str(found.config), "-P", str(machine.port)]
    began = time.monotonic()
    paths = (each.replace("@", there) for each in (source, target))
    subprocess.run([*command, *paths], env=found.environ, check=True)
    return time.monotonic() - began


def measure(ground: Ground, peers: Peers, options: argparse.Namespace) -> Iterator[Row]:
    """Measure both directions, each beside scp."""
    size = options.size
    with ExitStack() as stack:
        room = tempfile.TemporaryDirectory(prefix="nnimgr-transfer-", dir="/var/tmp")
        directory = Path(stack.enter_context(room))
        found = stack.enter_context(bed())
        machines = [found.machine() for _ in range(2)]
        here = directory / "file"
        dd = ["dd", "if=/dev/urandom", f"of={here}", "bs=1M", f"count={size >> 20}"]
        subprocess.run(dd, check=True, stderr=subprocess.DEVNULL)
        to_host = scp(found, str(here), "@:file", machines[1])
        scp(found, str(here), "@:file", machines[0])
        to_server = scp(found, "@:file", str(directory / "back"), machines[0])
        (directory / "back").unlink()
        remote = stack.enter_context(field(directory, found, machines, kind=Transfer))
        assert isinstance(remote, Transfer)
        remote.begin_saving(size)
        for name, bare, seconds in (
            ("from a host to the server", to_server, remote.seconds_to_server()),
            ("from the server to a host", to_host, remote.seconds_from_server()),
        ):
            yield Row(
                name=f"throughput of a checkpoint of {size >> 20} MiB {name}, over scp",
                value=bare / seconds,
                unit="times",
                better=Better.MORE,
                limit=RATIO,
                details={
                    "bytes": size,
                    "mb_per_s": size / seconds / 1e6,
                    "scp_mb_per_s": size / bare / 1e6,
                },
            )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the checkpoint")


if __name__ == "__main__":
    program.main(__doc__, arguments, measure)
