"""Runs Slurm's commands: on the server's machine, or on a login node over SSH."""

from __future__ import annotations

import abc
import asyncio
import subprocess
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from training_services.base import ServiceUnavailable
from training_services.slurm.config import LoginConfig
from training_services.ssh.config import RemoteConfig
from training_services.ssh.connection import Share, SshPool
from training_services.ssh.target import Target
from trial_keeper.batch_commands import complete

__all__ = ["Commands", "LocalCommands", "LoginCommands", "Outcome"]

# Variables with which users change what Slurm's commands do. They would contradict the script, or hide jobs.
_OPTIONS = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SACCT_")
_OTHER_OPTIONS = ("SLURM_HINT", "SLURM_EXIT_ERROR")
AT_ONCE = 8  # commands that run at the same time on the server's machine
LIMIT_S = 60.0  # a busy controller may answer late; Slurm's own limit for a message is 10 s


class Outcome(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """The errors as one sentence, without the names that Slurm's commands put before it."""
        lines = [line.partition(": error: ")[2] or line for line in self.errors.splitlines() if line.strip()]
        return "; ".join(dict.fromkeys(line.strip() for line in lines)) or f"exit code {self.code}"


class Commands(abc.ABC):
    """Place where Slurm's commands run. Places with the same ``key`` are one, and share one squeue.

    ``title``: name of the place in sentences.
    """

    key: Hashable
    title: str

    @abc.abstractmethod
    async def run(self, *words: str, text: str = "") -> Outcome:
        """Run a command with ``text`` as its standard input, and return its outcome.

        Raises ServiceUnavailable if it did not run, or if its outcome is not known.
        """

    async def close(self) -> None:
        """Release the connection to the place."""
        return None


class LocalCommands(Commands):
    """Slurm's commands on this machine. ``environ``: environment of the user who created the experiment."""

    title = "this machine"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {
            name: value
            for name, value in environ.items()
            if not name.startswith(_OPTIONS) and name not in _OTHER_OPTIONS
        }
        # Those of Slurm say which cluster is asked, and as whom.
        ours = {name: value for name, value in self._environ.items() if name.startswith("SLURM_")}
        self.key = "local", environ.get("PATH"), tuple(sorted(ours.items()))
        # Threads, because uvloop's pipes are not safe beside threads. They are its own, because commands that
        # hang would else take those of the whole server.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="slurm")

    async def run(self, *words: str, text: str = "") -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, words, text)

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _run(self, words: Sequence[str], text: str) -> Outcome:
        try:
            done = complete(words, text, LIMIT_S, self._environ)
        except FileNotFoundError:
            raise ServiceUnavailable(
                f"there is no {words[0]} on {self.title}: install Slurm's commands here, or give the login "
                "node of the cluster as login"
            ) from None
        except subprocess.TimeoutExpired:
            raise ServiceUnavailable(f"{words[0]} has not ended within {LIMIT_S:g} s") from None
        except OSError as error:
            raise ServiceUnavailable(f"{words[0]} cannot be started: {error.strerror}") from error
        said, complained = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
        return Outcome(done.returncode, said, complained)


class LoginCommands(Commands):
    """Slurm's commands on a login node, which the attendant there runs.

    ``environ``: environment of the user who created the experiment. ``pool`` has the SSH connections.
    """

    def __init__(self, login: LoginConfig, pool: SshPool, environ: Mapping[str, str]) -> None:
        machine = login.machine()
        config = RemoteConfig(machine_list=[machine], host_key_policy=login.host_key_policy)
        self._target = Target.of(machine, config, environ=environ)
        self.key, self.title = self._target.key, self._target.title
        self._pool = pool
        self._share: Share | None = None

    async def run(self, *words: str, text: str = "") -> Outcome:
        if self._share is None:
            self._share = self._pool.share(self._target, lambda: None)
        share = self._share
        try:
            async with asyncio.timeout(LIMIT_S):
                link = await share.link()
        except TimeoutError:
            raise ServiceUnavailable(share.obstacle or f"{self.title} is slow to answer") from None
        answer = await link.attendant.ask("run", limit=LIMIT_S + 5, words=words, text=text, seconds=LIMIT_S)
        return Outcome(answer["code"], answer["output"], answer["errors"])

    async def close(self) -> None:
        if self._share is not None:
            await self._share.close()
