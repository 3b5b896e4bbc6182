"""torchrun on machines over SSH: one agent on each, which meet at the first one by the rendezvous ``c10d``.

Sharing of its store is off, because it does not recover from a killed worker with it, and lost agents are
noticed after 3 times 2 s, as a careful user would set it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.machines.bed import Bed
from tests.machines.machine import Machine

PORT = 29400
ENVIRON = {
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "GLOO_SOCKET_IFNAME": "eth0",
    "OMP_NUM_THREADS": "1",
}


class Torchrun:
    """One run: agents on all machines, of one worker each. ``python`` is an interpreter that has torch."""

    def __init__(
        self,
        found: Bed,
        machines: Sequence[Machine],
        python: str,
        worker: Path,
        *,
        name: str,
        nodes: str | None = None,
        restarts: int = 0,
    ) -> None:
        options = {
            "nnodes": nodes or str(len(machines)),
            "nproc-per-node": "1",
            "max-restarts": str(restarts),
            "rdzv-backend": "c10d",
            "rdzv-endpoint": f"{machines[0].host}:{PORT}",
            "rdzv-id": name,
        }
        self._found, self._leader = found, machines[0]
        self._arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        self._command = python, str(worker)
        self.agents = [self._start(machine) for machine in machines]

    def join(self, machine: Machine) -> None:
        """Start an agent on a further machine."""
        self.agents.append(self._start(machine))

    def _start(self, machine: Machine) -> subprocess.Popen[bytes]:
        python, worker = self._command
        conf = "keep_alive_interval=2,keep_alive_max_attempt=3,last_call_timeout=1"
        variables = [f"{key}={value}" for key, value in ENVIRON.items()]
        agent = [
            *("env", *variables, python, "-m", "torch.distributed.run", *self._arguments),
            *("--rdzv-conf", f"{conf},is_host={int(machine is self._leader)}"),
            *("--local-addr", machine.host, worker),
        ]
        login = [*self._found.ssh_command(machine), f"{machine.user}@{machine.host}"]
        return subprocess.Popen(
            [*login, shlex.join(agent)],
            env=self._found.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, limit_s: float) -> None:
        """Wait until all agents have ended well. Raise RuntimeError, subprocess.TimeoutExpired."""
        codes = [agent.wait(limit_s) for agent in self.agents]
        if any(codes):
            raise RuntimeError(f"torchrun's exit codes were {codes}")

    def end(self) -> None:
        for agent in self.agents:
            agent.kill()
            agent.wait()
