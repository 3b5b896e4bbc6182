"""Texts for times and durations, in the same form as on the dashboard."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["duration_text", "when"]

_DAY_S = 86_400


def when(at: datetime | str | None, *, now: datetime | None = None) -> str:
    """Format a point in time as "1 min ago", or as local date and time after a day. None gives "-"."""
    if at is None:
        return "-"
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    age = ((now or datetime.now(UTC)) - instant).total_seconds()
    if age >= _DAY_S or age < -60:
        return instant.astimezone().strftime("%Y-%m-%d %H:%M")
    if age < 1:
        return "just now"
    for size, unit in ((3600, "h"), (60, "min")):
        if age >= size:
            return f"{int(age // size)} {unit} ago"
    return f"{int(age)} s ago"


def duration_text(seconds: float | None) -> str:
    """Format a duration in its two largest units, such as "2 min 5 s". None gives "-"."""
    if seconds is None:
        return "-"
    rest = max(0, int(seconds))
    if 0 < seconds < 1:
        return "< 1 s"
    parts = []
    for size, unit in ((_DAY_S, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        parts.append((count, unit))
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"
