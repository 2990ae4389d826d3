"""One traced form of a model and the programs made of it: without gradients, and with them for each set of tensors that need it."""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from lamina.core.options import Options

from .binding import Binding
from .custom.substitute import with_kernels
from .decompositions import table
from .dynamo import autograd
from .exclusive import COMPILING
from .normalise import fold_weights
from .stages import compile_graph
from .trace import Inference, Traced, inference

_requires_grad = operator.attrgetter("requires_grad")

Run = Callable[..., Sequence[Any]]


class Variant:
    """Called with the input tensors, returns what the model returns.

    flat      the model's arguments are plain positional tensors
    training  the model's mode when it was traced
    strides   those of the input tensors
    """

    def __init__(
        self, traced: Traced, flat: bool, strides: tuple[tuple[int, ...], ...], options: Options, target: str | None
    ) -> None:
        self.traced = traced
        self.flat = flat
        self.strides = strides
        self.training = traced.training
        self._options, self._target = options, target
        self._run: Run | None = None
        self._mutated: tuple[int | None, ...] = ()
        self._binding = Binding(traced.slots, traced.constants)
        self._with_grad: dict[tuple[bool, ...], Run] = {}
        self._grad_binding = self._binding
        self._finish = _finisher(traced.out_spec)

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        if torch.is_grad_enabled() and self.wants_grad(tensors):
            args = self._grad_binding.arrange(tensors)
            return self._finish(self.differentiable(args, tensors)(*args))
        run = self._run
        if run is None or not self._binding.is_current():
            run = self.load()
        results = run(*tensors)
        return self._finish(self._store(results, tensors) if self._mutated else results)

    def wants_grad(self, tensors: Sequence[Tensor]) -> bool:
        return any(map(_requires_grad, tensors)) or any(map(_requires_grad, self._grad_binding.values))

    def prepare(self, tensors: Sequence[Tensor]) -> None:
        """Compiles what a call now would run."""
        if torch.is_grad_enabled() and self.training and self.wants_grad(tensors):
            self.differentiable(self._grad_binding.arrange(tensors), tensors)
        else:
            self.load()

    def load(self) -> Run:
        """The program without gradients as a function of the input tensors, compiled if it is not yet."""
        with COMPILING:
            if self._run is None:
                graph = inference(self.traced, with_kernels(table(), self._options.kernels, self._target))
                gm = fold_weights(graph.gm, self._foldable(graph)) if self._options.fold_weights else graph.gm
                self._compiled = compile_graph(gm, options=self._options, target=self._target)
                self._mutated = graph.mutated
                self._binding = Binding(graph.slots, self.traced.constants)
            self._binding.refresh()
            self._run = self._binding.bound(self._compiled)
            return self._run

    def _foldable(self, graph: Inference) -> dict[int, Tensor]:
        """The model's tensors that count as constants: small enough, and never written by the model."""
        values = {i: slot.value for i, slot in enumerate(graph.slots) if slot.value is not None and i not in graph.mutated}
        return {i: v for i, v in values.items() if v.numel() * v.element_size() <= self._options.fold_weights}

    def differentiable(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> Run:
        """The programs with gradients, as a function of all arguments of the traced graph. They are compiled for the first call's
        tensors, which have to be this variant's: ValueError otherwise."""
        key = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        if key not in self._with_grad:
            with COMPILING, torch.enable_grad():
                if key not in self._with_grad:
                    if tuple(t.stride() for t in tensors) != self.strides:
                        raise ValueError("these strides have a variant of their own")
                    module = self.traced.program.graph_module
                    self._with_grad[key] = autograd(module, list(args), options=self._options, target=self._target)
        return self._with_grad[key]

    def _store(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Sequence[Any]:
        """Writes the new values of what the model changes in place; the rest of the results."""
        count = len(self._mutated)
        pairs = [
            (self._binding.argument(i, tensors), value) for i, value in zip(self._mutated, results, strict=False) if i is not None
        ]
        self._binding.check_disjoint([target for target, _ in pairs], tensors)
        with torch.no_grad():
            for target, value in pairs:
                target.copy_(value)
        return results[count:]


def _finisher(spec: pytree.TreeSpec) -> Callable[[Sequence[Any]], Any]:
    """The model's output from the flat outputs."""
    if spec.is_leaf():
        return operator.itemgetter(0)
    if spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children()):
        kind: Callable[[Sequence[Any]], Any] = spec.type
        return kind
    return partial(_unflatten, spec)


def _unflatten(spec: pytree.TreeSpec, results: Sequence[Any]) -> Any:
    return pytree.tree_unflatten(list(results), spec)
