"""The note in a keeper's directory that its container is about to end.

This is a separate module, because most keepers run in no container and need nothing else of ``wrap``.
"""

from __future__ import annotations

ENDING = "ending"  # the file holds the seconds of grace that are left for the trials
DEFAULT_GRACE_S = 10.0


def grace(directory: str) -> float | None:
    """Return the seconds that the container leaves its trials; None if the container was not told to end."""
    try:
        with open(f"{directory}/{ENDING}", encoding="ascii") as file:
            return float(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return DEFAULT_GRACE_S
