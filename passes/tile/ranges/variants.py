"""Reads the ranges of a symbolic size for which kernel selection has chosen other schedules of a matrix product: one for thousands
of rows leaves most of a GPU idle where a call has few."""

from itertools import pairwise

from torch_mlir import ir

from lamina.core.errors import CompileError

from ...families.choice import SMALLER
from ...ir.locations import where
from ...ir.sizes import read_size
from .size_range import SizeRange


def take_variants(function: ir.Operation) -> list[SizeRange]:
    """Takes the choices in `graph.smaller` off a kernel function, and returns the ranges that they are for; [] for none."""
    if SMALLER not in function.attributes:
        return []
    given = function.attributes[SMALLER]
    del function.attributes[SMALLER]
    ends = [ir.IntegerAttr(most).value for most in given["most"]]
    if any(most <= above for above, most in pairwise((-1, *ends))):
        raise CompileError(f"{SMALLER} is not in order: {ends}", where=where(function.location), remedy="sort it by `most`")
    size = read_size(given["size"])
    found = [SizeRange(f"to_{n}", ((size, n),), choice=choice) for n, choice in zip(ends, given["choices"], strict=True)]
    return [*found, SizeRange()]
