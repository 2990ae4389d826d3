"""Adapts the arguments and outputs of a compiled graph to those of its program, where they differ."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..fx.aliases import ConstantResult, Empty, Reinterpreted, ViewResult
from .interface import Interface, unboxed


def adapt(run: Callable[..., tuple[Tensor, ...]], interface: Interface, captured: tuple[Tensor, ...]) -> Callable[..., Any]:
    """Returns `run` itself when the graph's arguments and outputs are the program's, else an adapter around it."""
    return run if interface.is_identity() else _Adapter(run, interface, captured)


class _Adapter:
    """Calls a program with the tensors among the graph's arguments, some of them copied to the GPU, and with the graph's constants.
    Fills in outputs that are not results: constants, tensors without elements, views in another dtype."""

    def __init__(self, run: Callable[..., tuple[Tensor, ...]], interface: Interface, captured: tuple[Tensor, ...]) -> None:
        self.run = run
        self._boxed_call = True  # of the instance: torch._dynamo.disable copies its attributes, not the class's
        self.pick = _moving(_picker(interface.inputs), interface.moved)
        self.captured = captured
        self.template = [o.value if isinstance(o, ConstantResult) else None for o in interface.outputs]
        self.tensors = [i for i, o in enumerate(interface.outputs) if isinstance(o, ViewResult | Reinterpreted)]
        self.reinterpreted = [(i, o) for i, o in enumerate(interface.outputs) if isinstance(o, Reinterpreted)]
        self.empties = [(i, o) for i, o in enumerate(interface.outputs) if isinstance(o, Empty)]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        results = self.run([*self.pick(unboxed(args)), *self.captured])
        if len(self.tensors) == len(self.template) and not self.reinterpreted:
            return results
        out = list(self.template)
        for i, result in zip(self.tensors, results, strict=True):
            out[i] = result
        for i, view in self.reinterpreted:
            out[i] = view.of(out[i])
        for i, empty in self.empties:
            out[i] = torch.empty_strided(empty.shape, empty.strides, dtype=empty.dtype, device=empty.device)
        return tuple(out)


def _picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns a function that returns the items at `indices`."""
    if len(indices) > 1:
        return operator.itemgetter(*indices)
    return lambda items: [items[i] for i in indices]


def _moving(pick: Callable[[Sequence[Any]], Sequence[Any]], moved: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns `pick` with the items at `moved` copied to the GPU that the others are on."""
    if not moved:
        return pick

    def run(items: Sequence[Any]) -> Sequence[Any]:
        """Picks the arguments and moves CPU scalars to the GPU of the others."""
        picked = list(pick(items))
        gpu = next((x.device for i, x in enumerate(picked) if i not in moved and x.is_cuda), torch.device("cuda"))
        for i in moved:
            picked[i] = picked[i].to(gpu, non_blocking=True)
        return picked

    return run
