"""What `lamina.compile` returns."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lamina.core.options import Options

from .arguments import Arguments
from .exclusive import COMPILING
from .trace import trace
from .variant import Variant

_VARIANTS = 8


class CompiledModel:
    """A model compiled for inputs like its example inputs. Call it as the model is called.

    Tensors must come with the example's shapes and dtypes; other strides are served too, by a variant compiled at the first call
    with them. Numbers, strings and None must be the example's. The model's parameters and buffers are looked up at each call, so
    what is assigned to them or done to them in place is seen, and `model.train()` and `eval()` compile a variant of their own.
    """

    def __init__(
        self,
        module: nn.Module,
        signature: inspect.Signature | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        options: Options,
        target: str | None,
    ) -> None:
        self.module = module
        self.options = options
        self.target = target
        self._arguments = Arguments(signature, args, kwargs)
        self._variants: dict[tuple[Any, ...], Variant] = {}
        leaves = self._arguments.flatten(*self._arguments.bind(args, kwargs))
        with COMPILING:
            self._current = self._variant(leaves)
            self._current.prepare([leaves[i] for i in self._arguments.tensors])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        variant = self._current
        tensors: Sequence[Tensor] = args
        flat = variant.flat and len(args) == len(self._arguments.tensors)
        if kwargs or not flat or variant.training is not self.module.training:
            tensors, variant = self._general(args, kwargs)
        try:
            return variant(tensors)
        except (TypeError, ValueError, AttributeError, RuntimeError):
            if torch.compiler.is_compiling():  # part of a larger model that is being traced: tensors hold no data
                return self.module(*args, **kwargs)
            other = self._recover(args, kwargs, variant)
            if other is None:
                raise
        return other[1](other[0])

    def _general(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Tensor], Variant]:
        leaves = self._arguments.flatten(*self._arguments.bind(args, kwargs))
        variant = self._current
        if variant.training is not self.module.training:
            variant = self._current = self._variant(leaves)
        return [leaves[i] for i in self._arguments.tensors], variant

    def _recover(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], failed: Variant) -> tuple[list[Tensor], Variant] | None:
        """After a call that failed: an error that names the argument at fault, or the variant for its strides, or None when the
        arguments were not at fault."""
        leaves = self._arguments.flatten(*self._arguments.bind(args, kwargs))
        self._arguments.check(leaves)
        variant = self._variant(leaves)
        if variant is failed:
            return None
        self._current = variant
        return [leaves[i] for i in self._arguments.tensors], variant

    def _variant(self, leaves: Sequence[Any]) -> Variant:
        """The variant for the strides of these inputs and the model's mode, traced if it is new."""
        strides = tuple(leaves[i].stride() for i in self._arguments.tensors)
        key = (self.module.training, strides)
        with COMPILING:
            if key not in self._variants:
                args, kwargs = self._arguments.unflatten(leaves)
                with torch.no_grad():
                    traced = trace(self.module, args, kwargs)
                self._variants[key] = Variant(traced, self._arguments.flat, strides, self.options, self.target)
                while len(self._variants) > _VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
            return self._variants[key]
