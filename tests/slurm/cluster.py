"""A cluster of Slurm for a test: munged, slurmctld and slurmds of its own on this machine."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "setpriv")
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
LIMIT_S = 600.0  # a controller that was killed may need minutes to notice that a job has ended
BACK_AFTER_S = 60.0  # nodes that are not idle after that are put back into service
CONF = """
ClusterName=nnimgr
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait={kill_wait}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"


def missing() -> str | None:
    """Return why no cluster can be started here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if absent:
        return f"no Slurm here: there is no {', '.join(absent)} (Debian's slurm-wlm and munge)"
    if os.geteuid() != 0:
        return "slurmd and munged have to be started by root"
    return None


class SlurmCluster:
    """Slurm on this machine with nodes n1, n2, ... Use as a context manager."""

    def __init__(self, nodes: int = 2, cpus: int = 2, kill_wait: int = 5) -> None:
        reason = missing()
        if reason is not None:
            pytest.skip(reason)
        # not below a folder of pytest: munged wants all parents to belong to root, and to be closed to others
        self.folder = Path(tempfile.mkdtemp(prefix="nnimgr-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.environ = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        host = socket.gethostname().partition(".")[0]
        controller, *ports = _free_ports(nodes + 1)
        lines = [
            NODE.format(name=name, host=host, port=port, cpus=cpus)
            for name, port in zip(self.names, ports, strict=True)
        ]
        text = CONF.format(
            host=host, controller=controller, folder=self.folder, nodes="\n".join(lines), kill_wait=kill_wait
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()

    def __enter__(self) -> SlurmCluster:
        try:
            self._start_munge()
            self.start_controller()
            for name in self.names:
                self._run("slurmd", "-N", name)
            self.wait_for_nodes()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the daemons, by their pids."""
        self.run("scancel", "--me", check=False)
        for name in (*(f"slurmd-{name}" for name in self.names), "slurmctld", "munge/munged"):
            self._end(self.pid(name), signal.SIGTERM if name.startswith("munge") else signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def pid(self, name: str) -> int | None:
        """Return the pid of a daemon, from its file."""
        try:
            return int((self.folder / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return None

    def kill_controller(self) -> None:
        self._end(self.pid("slurmctld"), signal.SIGKILL)

    def start_controller(self) -> None:
        self._run("slurmctld")

    def wait_for_nodes(self) -> None:
        """Wait until all nodes are idle. A controller that was killed may have taken one out of service."""
        begun = time.monotonic()
        while self.run("sinfo", "-h", "-p", "main", "-o", "%t", check=False).stdout.split() != ["idle"]:
            passed = time.monotonic() - begun
            assert passed < LIMIT_S, self.run("sinfo", "-N", "-o", "%N %T %E").stdout + self.logs()
            if passed > BACK_AFTER_S:
                self.run("scontrol", "update", "NodeName=ALL", "State=RESUME", check=False)
            time.sleep(0.05 if passed < BACK_AFTER_S else 5)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm."""
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=self.environ
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def jobs(self) -> dict[str, str]:
        """Return the states of all jobs that Slurm knows, by their names."""
        lines = self.run("squeue", "-h", "-t", "all", "-o", "%j %T").stdout.splitlines()
        return dict(line.split() for line in lines)

    def wait_for_state(self, name: str, state: str) -> None:
        """Wait until the job with this name has this state."""
        end = time.monotonic() + LIMIT_S
        while (found := self.jobs().get(name)) != state:
            assert time.monotonic() < end, f"{name}: {found}"
            time.sleep(0.1)

    async def until(self, wanted: str, number: int = 1) -> dict[str, str]:
        """Wait until so many jobs have this state."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                jobs = await asyncio.to_thread(self.jobs)
                if list(jobs.values()).count(wanted) >= number:
                    return jobs
                await asyncio.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        user = pwd.getpwnam("munge")
        for path in (folder, key):
            os.chown(path, user.pw_uid, user.pw_gid)
        files = {"key-file": "key", "socket": "munge.sock", "pid-file": "munged.pid", "log-file": "log"}
        options = [f"--{name}={folder}/{file}" for name, file in {**files, "seed-file": "seed"}.items()]
        self._run("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", *options)

    def _run(self, *words: str) -> None:
        subprocess.run(
            words, check=True, timeout=LIMIT_S, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _end(self, pid: int | None, number: int) -> None:
        if pid is None:
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        end = time.monotonic() + LIMIT_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.01)


def _free_ports(number: int) -> list[int]:
    held = [socket.socket() for _ in range(number)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
