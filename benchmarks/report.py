"""Rows of a benchmark, with a limit and the figures that peers had in the same run."""

from __future__ import annotations

import enum
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class Better(enum.Enum):
    """Direction in which a figure is better."""

    MORE = "more"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Figure:
    """A peer's figure for the same measurement, in the row's unit. None and a note if there is none."""

    peer: str
    value: float | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of the table. ``details`` are further figures, such as the speed of the disk and a bare loop."""

    name: str
    value: float | None
    unit: str
    better: Better
    limit: float | None = None
    details: Mapping[str, float | int | str | None] = field(default_factory=dict)
    peers: Sequence[Figure] = ()
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """True if the limit holds, or None without a limit. A row without a value fails its limit."""
        if self.limit is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.limit if self.better is Better.MORE else self.value <= self.limit

    @property
    def ratio(self) -> float | None:
        """The value as a share of a limit that is not 0.

        If more is better, it should be above 1, else below.
        """
        return None if not self.limit or self.value is None else self.value / self.limit

    def times_better(self, figure: Figure) -> float | None:
        """Return how many times as fast, or as small, as the peer, or None if a value is missing or zero."""
        if not self.value or not figure.value:
            return None
        return self.value / figure.value if self.better is Better.MORE else figure.value / self.value

    def json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "value": _short(self.value),
                "unit": self.unit,
                "better": self.better.value,
                "limit": self.limit,
                "ok": self.ok,
                "ratio": _short(self.ratio),
                **{key: _short(value) for key, value in self.details.items()},
                **({"note": self.note} if self.note else {}),
                "peers": [
                    {
                        "peer": figure.peer,
                        "value": _short(figure.value),
                        "times_better": _short(self.times_better(figure)),
                        **({"note": figure.note} if figure.note else {}),
                    }
                    for figure in self.peers
                ],
            }
        )

    def sentence(self) -> str:
        """Return the row as one line for people."""
        parts = [f"{self.name}: {self._measured()}"]
        if self.limit is not None:
            word = "at least" if self.better is Better.MORE else "at most"
            parts.append(f"{word} {self.limit:g}: {'holds' if self.ok else 'DOES NOT HOLD'}")
        parts += [self._against(figure) for figure in self.peers]
        return "; ".join(parts)

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table, in the order of ``COLUMNS``."""
        sign = "≥" if self.better is Better.MORE else "≤"
        beside = ", ".join(f"{key} {_plain(value)}" for key, value in self.details.items())
        return (
            self.name,
            self._measured(),
            "" if self.limit is None else f"{sign} {self.limit:g}",
            {None: "", True: "yes", False: "**no**"}[self.ok],
            beside,
            "; ".join(self._against(figure) for figure in self.peers),
        )

    def _measured(self) -> str:
        said = "not measured" if self.value is None else f"{_plain(self.value)} {self.unit}".strip()
        return f"{said} ({self.note})" if self.note else said

    def _against(self, figure: Figure) -> str:
        if figure.value is None:
            return f"{figure.peer}: {figure.note or 'no figure'}"
        times = self.times_better(figure)
        tail = "" if times is None else f" ({_plain(times)} times)"
        return f"{figure.peer}: {_plain(figure.value)}{tail}" + (f", {figure.note}" if figure.note else "")


COLUMNS = (
    "what",
    "measured",
    "limit",
    "holds",
    "beside it",
    "peers in the same run (how many times better ours is)",
)


def rates_row(
    name: str, rates: Mapping[str, Sequence[float]], *, limit: float, details: Mapping[str, float]
) -> Row:
    """Build the row of a rate over another one, both measured several times, in turn.

    ``rates``: name -> trials a second, the rate in question first. The value is the median of the pairs'
    shares. ``details`` stand before the number of pairs and the median rates.
    """
    (ours, measured), (other, beside) = rates.items()
    return Row(
        name=name,
        value=statistics.median(a / b for a, b in zip(measured, beside, strict=True)),
        unit="",
        better=Better.MORE,
        limit=limit,
        details={
            **details,
            "pairs": len(measured),
            f"{ours}_per_s": statistics.median(measured),
            f"{other}_per_s": statistics.median(beside),
        },
    )


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def emit(row: Row) -> Row:
    """Print the row at once: JSON to standard output, a readable line to standard error. Return the row."""
    print(row.json(), flush=True)
    print(row.sentence(), file=sys.stderr, flush=True)
    return row


def _short(value: float | int | str | None) -> float | int | str | None:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _plain(value: float | int | str | None) -> str:
    if not isinstance(value, float):
        return str(value)
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if abs(short) >= 100 else f"{short:g}"
