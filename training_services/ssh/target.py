"""Target of an SSH connection: address and credentials of a machine, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training_services.base import ServiceUnavailable
from training_services.ssh.config import HostKeyPolicy, MachineConfig, RemoteConfig

__all__ = ["UNANSWERED", "Target", "Unreachable"]

UNANSWERED = 3  # consecutive checks without an answer after which a connection is dead


class Unreachable(ServiceUnavailable):
    """Error: the connection to a machine could not be opened.

    ``lasting``: retries will fail as well until a person fixes the cause.
    """

    def __init__(self, sentence: str, *, lasting: bool = False) -> None:
        super().__init__(sentence)
        self.lasting = lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Address and credentials of a machine.

    Values that are None are taken from ~/.ssh/config, or are ssh's defaults. ``agent``: socket of the user's
    SSH agent. ``keep_alive``: seconds between two checks of the connection.
    """

    host: str
    title: str
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    passphrase: str | None = field(default=None, repr=False)
    agent: str | None = None
    proxy_jump: str | None = None
    policy: HostKeyPolicy = HostKeyPolicy.STRICT
    keep_alive: float = 5.0
    python_path: str | None = None

    @classmethod
    def of(cls, machine: MachineConfig, config: RemoteConfig, *, environ: Mapping[str, str]) -> Target:
        """Return the address and credentials of a machine in the configuration.

        ``environ``: environment of the user who created the experiment.
        """
        return cls(
            host=machine.host,
            title=machine.title,
            port=machine.port,
            user=machine.user,
            password=None if machine.password is None else machine.password.get_secret_value(),
            key_file=machine.ssh_key_file,
            passphrase=None if machine.ssh_passphrase is None else machine.ssh_passphrase.get_secret_value(),
            agent=environ.get("SSH_AUTH_SOCK"),
            proxy_jump=machine.proxy_jump,
            policy=config.policy(machine),
            keep_alive=config.keep_alive.total_seconds(),
            python_path=machine.python_path,
        )

    def broke(self, error: Exception | None) -> str:
        """Return a sentence that says why the connection to the machine has ended."""
        if error is None:
            return f"{self.title} has closed the connection"
        if "keepalive" in str(error).lower():
            return (
                f"{self.title} has not answered for {UNANSWERED * self.keep_alive:g} s: connection given up"
            )
        return f"the connection to {self.title} broke: {error}"

    @property
    def key(self) -> tuple[str | None, str, int | None]:
        """User, host and port. Experiments with equal values share one connection."""
        return self.user, self.host, self.port
