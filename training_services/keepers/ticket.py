"""Ticket that a new host shows once, to get the token of its keeper."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from pathlib import Path

from training_services.keepers.caller import Refused
from training_services.keepers.hub import token_digest

__all__ = ["Ticket"]


class Ticket:
    """Secret of a host, in the server's folder about its keeper. The methods block the thread.

    Who may see how the host was made may also see the ticket. So the first program that shows it is the only
    one that gets the token. ``launch``: hash of the name of that program; None: nobody has shown the ticket.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ticket.json"
        self.text = ""
        self.launch: str | None = None

    def read(self) -> None:
        """Read the ticket. Make it if there is none. Raises OSError."""
        if self.text:
            return
        try:
            found = json.loads(self._path.read_bytes())
            self.text, self.launch = str(found["ticket"]), found["launch"]
        except (FileNotFoundError, ValueError, KeyError):
            self.text = secrets.token_urlsafe(24)
            self._write()

    def take(self, shown: str, launch: str) -> bool:
        """Give the ticket to the program of this name. Return False if it has shown a wrong one.

        Raises Refused if another program has it, and OSError.
        """
        if not self.text or not hmac.compare_digest(token_digest(shown), token_digest(self.text)):
            return False
        if self.launch is None:
            self.launch = token_digest(launch)
            try:
                self._write()
            except OSError:
                self.launch = None
                raise
        elif not hmac.compare_digest(self.launch, token_digest(launch)):
            raise Refused("instance", "Another program has used the ticket of this keeper before.")
        return True

    def _write(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            json.dump({"ticket": self.text, "launch": self.launch}, file)
        new.replace(self._path)
