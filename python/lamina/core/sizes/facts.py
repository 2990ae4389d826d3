"""What is known of the sizes that each call decides, for reports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SizeFacts:
    """A size that each call decides.

    typical  its value in the call for which the graph was compiled, at which times and bytes are given
    least    the least value; most: the largest, None without a limit
    read     where a call brings it: "x, dimension 0"
    factor   divides it at every call, as a branch of the model has asked
    called   the name of its Dim; "" without one
    """

    name: str
    typical: int
    least: int
    most: int | None
    read: tuple[str, ...]
    factor: int = 1
    called: str = ""


@dataclass(frozen=True)
class SizeCondition:
    """A condition on sizes that a graph rests on: calls that break it are compiled anew, or refused.

    text   "(dimension 1 of argument 'x') <= 20"
    where  the line that asked for it, "model.py:7"; "" where none is known
    code   that line
    by     the function that asked, where it is not the model's: "torch: infer_size"
    """

    text: str
    where: str = ""
    code: str = ""
    by: str = ""
