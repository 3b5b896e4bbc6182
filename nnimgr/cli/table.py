"""Tables, and lines of names and values, for terminals. Both fit into the terminal's width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nnimgr.cli.terminal import Terminal, printable

__all__ = ["Column", "show_lines", "show_table"]

_UNLIMITED = 100_000
_GAP = 2  # spaces between two columns


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. ``gives_way``: the cells of this column are cut first on a narrow terminal."""

    title: str
    justify: Literal["left", "right"] = "left"
    gives_way: bool = False
    least: int = 4  # fewest characters to which its cells are cut
    optional: bool = False  # left out if all its cells are empty


def show_table(terminal: Terminal, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table. With ``--json``, print nothing."""
    if terminal.as_json:
        return
    import io

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    shown = [at for at, column in enumerate(columns) if not column.optional or any(row[at] for row in cells)]
    width = terminal.width if terminal.for_people else _UNLIMITED
    longest = [max(map(cell_len, (columns[at].title, *(row[at] for row in cells)))) for at in shown]
    widths = _widths([columns[at] for at in shown], longest, width)
    for at, wide in zip(shown, widths, strict=True):
        column = columns[at]
        table.add_column(column.title, justify=column.justify, no_wrap=True, overflow="ellipsis", width=wide)
    for row in cells:
        table.add_row(*(Text(row[at], no_wrap=True, overflow="ellipsis") for at in shown))
    written = io.StringIO()
    Console(file=written, width=width, color_system=None).print(table)
    terminal.say("\n".join(line.rstrip() for line in written.getvalue().splitlines()))


def _widths(columns: Sequence[Column], longest: Sequence[int], width: int) -> list[int]:
    """Return the width of each column, so that the table fits into ``width`` if it can.

    The widest column that gives way is narrowed first. ``longest``: length of each column's longest cell.
    """
    room = max(1, width - _GAP * (len(columns) - 1))
    widths = [min(wide, room) for wide in longest]
    while sum(widths) > room:
        narrowed = [at for at, column in enumerate(columns) if column.gives_way and widths[at] > column.least]
        if not narrowed:
            break
        widest = max(narrowed, key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def show_lines(terminal: Terminal, fields: Sequence[tuple[str, str]]) -> None:
    """Print one line for each name and value. Further lines of a long value are indented to the value."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        terminal.say(f"{name:<{width}}  {value}", indent=" " * (width + 2))
