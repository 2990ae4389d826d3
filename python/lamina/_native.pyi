"""Types of the native runtime (runtime/native/module.cpp)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

class Runner:
    """A program ready to run: call it with tensors, or with one list of tensors, which it empties."""

    def __init__(self, spec: dict[str, Any]) -> None: ...
    def __call__(self, *tensors: torch.Tensor | list[torch.Tensor]) -> tuple[torch.Tensor, ...]: ...
    def packed(self) -> int:
        """How many of the program's matrix products run on packed weights now."""

    def graphs(self) -> dict[str, Any] | None:
        """Whether the steps run as a recorded CUDA graph, as lamina.runtime.graphs.status_of reads it; None on the CPU."""

    def load(self, index: int, /) -> None:
        """Loads code and constants on the GPU of this number now, not at the first call there."""

class BySizes:
    """A program with symbolic sizes: call it with tensors and ints, or with one list of them, which it empties."""

    def __init__(
        self,
        sources: list[tuple[int, int | None, bool]],
        bind: Callable[[tuple[int, ...]], tuple[Callable[..., Any], tuple[int, ...] | None] | None],
        limit: int,
        /,
    ) -> None:
        """sources  for each symbol the argument that shows its value; None for an int itself, else the dimension, and whether it is
                 the dimension's stride instead of its size
        bind     returns for the symbols' values what runs the program, and the numbers of the arguments that it takes; None: all.
                 None alone where what is kept for these values serves on
        limit    how many programs are kept; the one called longest ago is dropped first
        """

    def __call__(self, *arguments: Any) -> tuple[Any, ...]: ...
    def programs(self) -> dict[tuple[int, ...], Callable[..., Any]]:
        """The programs that are kept, by the values of the symbols."""

    def renew(self, sizes: tuple[int, ...], /) -> None:
        """Has the next call at these values of the symbols bind anew, if a program is kept for them."""

class Watch:
    """Whether the Python state that a compilation depended on is as it was."""

    def __init__(
        self,
        items: list[tuple[dict[Any, Any], Any, Any]],
        sizes: list[tuple[dict[Any, Any], int]],
        results: list[tuple[Callable[..., Any], tuple[Any, ...], Any]],
        pattern: tuple[int, ...],
        types: tuple[type, ...],
    ) -> None:
        """items    dictionaries, keys and the objects there
        sizes    dictionaries and how many entries they have
        results  functions, their arguments and what they return
        pattern  for each argument of a call the number of the first one that is the same object
        types    that arguments may have
        """

    def holds(self, arguments: tuple[Any, ...]) -> bool:
        """Whether all is as it was, for a call with these arguments."""

class SeenSizes:
    """A set of sizes and strides of tensors."""

    def __init__(self, places: Sequence[int], limit: int) -> None:
        """places  which tensors of a call count
        limit   how many sets of sizes are kept, before all are dropped
        """

    def holds(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the sizes and strides of these tensors were added."""

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Adds the sizes and strides of these tensors."""

    def clear(self) -> None:
        """Drops all."""

def info() -> dict[str, Any]:
    """What of torch the runtime found and uses."""

def has_routine(name: str, device: str = "cpu") -> bool:
    """Whether a library routine can be called without Python."""

def pool_stats() -> dict[str, int]:
    """Bytes of the pool of results and arenas: limit, idle, used; blocks taken and reused."""

def set_pool_limit(bytes: int) -> None:
    """Bytes that may lie idle in the pool."""

def trim_pool() -> None:
    """Frees what lies idle in the pool."""

def set_pack_limit(bytes: int) -> None:
    """Bytes that packed weights may take."""

def pack_bytes() -> int:
    """Bytes that packed weights take."""
