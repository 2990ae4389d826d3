"""Describes a class of small graphs, for tensors of any size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Arguments = tuple[Tensor, ...]


@dataclass(frozen=True)
class KernelClass:
    """A graph.

    function   what is compiled
    arguments  returns its arguments, for about as many rows and columns; those after `symbolic` have sizes that never change
    symbolic   how many arguments have symbolic sizes
    trains     a call also computes the gradients of its floating-point arguments
    known      for each argument, its dimensions that never change
    """

    function: Callable[..., Any]
    arguments: Callable[[int, int], Arguments]
    symbolic: int = 9
    trains: bool = False
    known: tuple[tuple[int, ...], ...] = ()
