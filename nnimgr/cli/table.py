"""Tables for terminals. Long cells are cut to the width of the terminal, but not in files and pipes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nnimgr.cli.terminal import Terminal, printable

__all__ = ["Column", "show_table"]

_UNLIMITED = 100_000


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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown = [at for at, column in enumerate(columns) if not column.optional or any(row[at] for row in cells)]
    for at in shown:
        column = columns[at]
        longest = max((cell_len(row[at]) for row in cells), default=0)
        table.add_column(
            column.title,
            justify=column.justify,
            no_wrap=not column.gives_way,
            overflow="ellipsis",
            min_width=min(column.least, longest) if column.gives_way else None,
        )
    for row in cells:
        table.add_row(*(Text(row[at], no_wrap=True, overflow="ellipsis") for at in shown))
    width = terminal.width if terminal.for_people else _UNLIMITED
    written = io.StringIO()
    Console(file=written, width=width, color_system=None).print(table)
    terminal.say("\n".join(line.rstrip() for line in written.getvalue().splitlines()))
