"""The sizes and layouts of the tensors that one compiled variant serves."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..capture.open_sizes import OpenDims, layout_of
from .arguments import Arguments


@dataclass(frozen=True)
class VariantSizes:
    """The sizes of a variant: which of them are symbols, and the values of the others.

    symbolic  the dimensions that are symbols, by the number of the flattened input
    opened    of the tensors, by position, those with such a dimension
    layouts   of the tensors
    fixed     the sizes that are constants though calls may vary them: argument, dimension and size
    """

    symbolic: Mapping[int, OpenDims]
    opened: tuple[int, ...]
    layouts: tuple[Hashable, ...]
    fixed: tuple[tuple[str, int, int], ...]

    @property
    def key(self) -> Hashable:
        """The part that distinguishes it from other variants of the same model."""
        return self.layouts, self.fixed

    @staticmethod
    def of(form: Arguments, leaves: Sequence[Any]) -> "VariantSizes":
        """Returns the sizes of a call."""
        return _sizes(form, leaves, form.symbolic(leaves))

    @staticmethod
    def constant(form: Arguments, leaves: Sequence[Any]) -> "VariantSizes":
        """Returns those of a call for which all sizes are constants."""
        return _sizes(form, leaves, {})

    def fit(self, tensors: Sequence[Tensor]) -> bool:
        """Returns whether tensors of sizes that the variant serves have its layouts."""
        return _layouts(tensors, self.opened) == self.layouts


def _sizes(form: Arguments, leaves: Sequence[Any], symbolic: Mapping[int, OpenDims]) -> VariantSizes:
    opened = tuple(n for n, i in enumerate(form.tensors) if i in symbolic)
    constants = tuple(
        (name, d, leaves[i].shape[d])
        for i, name in enumerate(form.names)
        for d in form.open.dims.get(name, ())
        if d not in symbolic.get(i, ())
    )
    return VariantSizes(symbolic, opened, _layouts([leaves[i] for i in form.tensors], opened), constants)


def _layouts(tensors: Sequence[Tensor], opened: Sequence[int]) -> tuple[Hashable, ...]:
    return tuple(layout_of(t) if n in opened else t.stride() for n, t in enumerate(tensors))
