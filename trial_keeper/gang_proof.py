"""Messages between the crews of a gang, and the proofs in them.

A message is one line of JSON. The members of an attempt have a common key, which only the server and their
keepers know. Each message after the first one has a proof: an HMAC over its content, the two sides, and the
two random numbers that they have chosen for this connection. So nobody without the key can make a message,
change one, or use one again. A proof also names the leader's port, so a stranger on another port cannot pass
it on to the leader.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

LONGEST = 1 << 14  # bytes of a message; the longest one has the number of processes of 256 members
ANSWER, JOIN, MET = "answer", "join", "met"  # the messages with a proof


class Talk(NamedTuple):
    """Connection of a member to the leader, with the random numbers of the member and the leader."""

    job: str
    port: int
    member: int
    theirs: str
    ours: str

    def proof(self, key: str, kind: str, *content: object) -> str:
        """Return the proof of a message of this kind with this content."""
        text = json.dumps([kind, *self, *content])
        return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()

    def proves(self, message: dict[str, Any], key: str, kind: str, *content: object) -> bool:
        """Return whether the message has the proof of this content."""
        given = message.get("proof")
        right = self.proof(key, kind, *content)
        return isinstance(given, str) and hmac.compare_digest(
            given.encode(errors="surrogatepass"), right.encode()
        )


def random_number() -> str:
    """Return a number that nobody can guess, as text."""
    return os.urandom(16).hex()


def encode(**message: object) -> bytes:
    """Return the line of a message."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the message of a line; None if it is not valid."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_text(value: object) -> bool:
    """Return whether this is a random number that another side may have chosen."""
    return isinstance(value, str) and len(value) <= 64
