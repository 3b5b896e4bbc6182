"""The file in a keeper's directory that says that its container is about to end.

This is a separate module, because most keepers run in no container and need nothing else of ``wrap``.
"""

from __future__ import annotations

ENDING = "ending"  # name of the file; its content is the seconds of grace for the trials
DEFAULT_GRACE_S = 10.0


def grace(directory: str) -> float | None:
    """Return the seconds of grace for the trials of the container; None if the container was not ordered
    to end.
    """
    try:
        with open(f"{directory}/{ENDING}", encoding="ascii") as file:
            return float(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return DEFAULT_GRACE_S
