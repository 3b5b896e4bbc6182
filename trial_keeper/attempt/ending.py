"""The file ``ending`` in a keeper's directory, which tells the keeper that its container is about to end.

It is a separate module, because most keepers run in no container and do not need the module ``wrap``.
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
