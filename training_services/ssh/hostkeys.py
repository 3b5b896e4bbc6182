"""Checks a machine's host key against known_hosts, and explains to the user why a key is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from training_services.ssh.config import DEFAULT_PORT, HostKeyPolicy

__all__ = ["HostKeys"]

_OF_THE_SYSTEM = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


class HostKeys:
    """Known host keys, from the user's and the system's known_hosts files.

    ``files``: the user's own files; None: ~/.ssh/known_hosts. A new key is appended to the first file.
    """

    def __init__(self, files: Sequence[str] | None, policy: HostKeyPolicy) -> None:
        own = [Path(name).expanduser() for name in files or ()] or [Path("~/.ssh/known_hosts").expanduser()]
        self._file = own[0]
        self._policy = policy
        self.known = _load([*own, *_OF_THE_SYSTEM])

    def judge(self, host: str, address: str, port: int, key: asyncssh.SSHKey) -> str | None:
        """Return a sentence that says why the unknown or changed host key is refused; None if it is
        accepted.
        """
        name = host if port == DEFAULT_PORT else f"[{host}]:{port}"
        shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
        asked = None if port == DEFAULT_PORT else port
        if asyncssh.match_known_hosts(self.known, host, address, asked)[0]:
            return (
                f"the host key of {name} has changed (it is {shown} now, and {self._file} has another): "
                "somebody may be intercepting the connection; if the machine was really reinstalled, remove "
                f"the old key with \"ssh-keygen -f {self._file} -R '{name}'\""
            )
        if self._policy is not HostKeyPolicy.ACCEPT_NEW:
            at = "" if port == DEFAULT_PORT else f"-p {port} "
            return (
                f"the host key of {name} is not known: {shown}; compare this fingerprint with the machine's, "
                f'then accept it with "ssh-keyscan {at}{host} >> {self._file}" '
                "(or set hostKeyPolicy: accept-new)"
            )
        try:
            self._remember(name, key)
        except OSError as error:
            return f"the host key of {name} cannot be saved in {self._file}: {error.strerror}"
        return None

    def _remember(self, name: str, key: asyncssh.SSHKey) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kind, text = key.export_public_key("openssh").split()[:2]
        line = b" ".join((name.encode(), kind, text)) + b"\n"
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)


def _load(files: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    known = asyncssh.SSHKnownHosts()
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:  # a missing or unreadable file contributes no keys
            continue
        for line in text.splitlines():
            try:
                known.load(line)
            except ValueError:  # a line that cannot be read is skipped, as ssh does
                continue
    return known
