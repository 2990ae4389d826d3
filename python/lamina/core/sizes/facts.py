"""What is known of a size that each call decides, for reports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SizeFacts:
    """A size that each call decides.

    typical  its value in the call for which the graph was compiled, at which times and bytes are given
    least    the least value; most: the largest, None without a limit
    read     where a call brings it: "x, dimension 0"
    """

    name: str
    typical: int
    least: int
    most: int | None
    read: tuple[str, ...]
