"""A bridge, and the cables between it and the machines: cut, lossy, slow."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess

# Where Debian has ip, tc and iptables, which is not on everybody's PATH.
ENVIRON = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
PREFIX = "nnb"  # of the bridges' and cables' names: found again if a run was killed


def run(*command: str, check: bool = True) -> str:
    """What a command prints; raises CalledProcessError with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRON)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


class Network:
    """A bridge with an address of this box on it; ``tag`` (four hex digits) is in its names and addresses."""

    def __init__(self) -> None:
        while True:
            number = random.SystemRandom().randrange(1 << 13)
            self.tag = f"{number:04x}"
            self.bridge = f"{PREFIX}{self.tag}"
            with contextlib.suppress(RuntimeError):
                run("ip", "link", "add", self.bridge, "type", "bridge")
                break
        self._v4 = f"10.{192 + (number >> 8)}.{number & 255}"
        self._v6 = f"fd6e:6e69:{number:x}:"
        self.address, self.address6 = self.v4(1), self.v6(1)
        run("ip", "addr", "add", f"{self.address}/24", "dev", self.bridge)
        # Where the kernel has no IPv6 there is none.
        run("ip", "addr", "add", f"{self.address6}/64", "dev", self.bridge, "nodad", check=False)
        run("ip", "link", "set", self.bridge, "up")

    def v4(self, host: int) -> str:
        return f"{self._v4}.{host}"

    def v6(self, host: int) -> str:
        return f"{self._v6}:{host:x}"

    def remove(self) -> None:
        run("ip", "link", "del", self.bridge, check=False)


class Cable:
    """Leads from a bridge into the network namespace of the process ``pid``, where it is ``eth0``."""

    def __init__(self, network: Network, number: int, pid: int) -> None:
        self._enter = ("nsenter", "--target", str(pid), "--net")
        self._outer = f"{PREFIX}{network.tag}n{number}"
        run("ip", "link", "del", self._outer, check=False)  # of a life before, which the kernel still has
        run(
            *("ip", "link", "add", self._outer, "type", "veth"),
            # The hardware's address outlives a reboot; neighbours remember it.
            *("peer", "name", "eth0", "address", f"02:6e:6e:62:00:{number:02x}", "netns", str(pid)),
        )
        run("ip", "link", "set", self._outer, "master", network.bridge, "up")
        self._inside("ip", "link", "set", "lo", "up")
        self._inside("ip", "addr", "add", f"{network.v4(number)}/24", "dev", "eth0")
        self._inside("ip", "addr", "add", f"{network.v6(number)}/64", "dev", "eth0", "nodad", check=False)
        self._inside("ip", "link", "set", "eth0", "up")

    def _inside(self, *command: str, check: bool = True) -> str:
        return run(*self._enter, *command, check=check)

    def cut(self) -> None:
        """Nothing passes, and nobody is told."""
        run("ip", "link", "set", self._outer, "down")

    def restore(self) -> None:
        run("ip", "link", "set", self._outer, "up")

    def drop(self, share: float) -> None:
        """Lose this share of the packets, each way; 0 ends it."""
        for chain in ("INPUT", "OUTPUT"):
            for program in ("iptables", "ip6tables"):
                self._inside(program, "--flush", chain)
                if share:
                    self._inside(
                        *(program, "--append", chain, "--match", "statistic", "--mode", "random"),
                        *("--probability", str(share), "--jump", "DROP"),
                    )

    def limit(self, rate: str | None) -> None:
        """Let no more than ``rate`` ("256kbit") pass, each way; None ends it."""
        inner = (*self._enter, "tc")
        for tc, device in (inner, "eth0"), (("tc",), self._outer):
            if rate is None:
                run(*tc, "qdisc", "del", "dev", device, "root")
            else:
                run(
                    *(*tc, "qdisc", "replace", "dev", device, "root"),
                    *("tbf", "rate", rate, "burst", "16kb", "latency", "400ms"),
                )

    def refuse(self, address: str, ports: str) -> None:
        """Whoever connects from this address to these TCP ports ("20000:29999") is refused."""
        self._inside(
            *("iptables", "--append", "INPUT", "--source", address, "--protocol", "tcp"),
            *("--dport", ports, "--jump", "REJECT", "--reject-with", "tcp-reset"),
        )

    def admit_only(self, address: str) -> None:
        """Whoever does not come from this address finds nobody."""
        only = ("--append", "INPUT", "--in-interface", "eth0")
        self._inside("iptables", *only, "!", "--source", address, "--jump", "DROP")
        self._inside("ip6tables", *only, "--jump", "DROP")


def sweep(tag: str) -> None:
    """Remove the bridge of a run that was killed; the cables go with their machines."""
    run("ip", "link", "del", f"{PREFIX}{tag}", check=False)
