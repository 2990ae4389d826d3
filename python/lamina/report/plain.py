"""Tables without borders, and the console that they are printed to."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 150  # columns of what is not printed to a terminal
_NUMBERS = (
    *("step", "programs", "bytes", "flops", "flops/byte", "of roof", "roof", "offset", "time", "its time", "share", "count"),
    "dropped",
)


def wide_console() -> Console:
    """Returns a console for standard output: as wide as the terminal, or WIDTH columns."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def plain_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Returns a table without borders. Its cells are plain text, in which rich reads no markup."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
