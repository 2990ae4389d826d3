"""Graphs with symbolic sizes, compiled once per concrete size."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .exclusive import COMPILING

VARIANTS = 8
"""How many sizes of one graph are kept; the one compiled first goes first."""


def is_symbolic(value: Any) -> bool:
    """Whether a size is left open: a SymInt, or a tensor with one among its sizes or strides."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return True
    return isinstance(value, Tensor) and any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


def _size(value: Any) -> Any:
    return (value.shape, value.stride()) if isinstance(value, Tensor) else value


class PerSize:
    """Calls the variant compiled for the sizes of the arguments, compiling it when it is new."""

    def __init__(
        self,
        gm: fx.GraphModule,
        trace: Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]],
        example_inputs: Sequence[Any],
    ) -> None:
        """Dynamo's guards see to the sizes that `example_inputs` do not leave open."""
        self.gm = gm
        self.trace = trace
        self.open = [i for i, value in enumerate(example_inputs) if is_symbolic(value)]
        self.variants: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
        self.compiled = 0

    def __call__(self, *args: Any) -> Any:
        key = tuple([_size(args[i]) for i in self.open])
        variant = self.variants.get(key)
        if variant is None:
            variant = self._add(key, args)
        return variant(*args)

    def _add(self, key: tuple[Any, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        with COMPILING:
            if key not in self.variants:
                self.compiled += 1
                if self.compiled == 2:
                    warnings.warn(
                        f"lamina compiles this graph once per size (the last {VARIANTS} are kept): compile with "
                        "torch.compile(dynamic=False), or call torch._dynamo.mark_static on inputs whose size is fixed",
                        stacklevel=3,
                    )
                self.variants[key] = self._compile(args)
                while len(self.variants) > VARIANTS:
                    self.variants.popitem(last=False)
            return self.variants[key]

    @torch._dynamo.disable
    def _compile(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        return self.trace(self.gm, list(args))
