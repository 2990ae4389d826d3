"""Sizes that the calls of a compiled model may vary, as `dynamic_shapes` declares them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import sympy
from torch import Tensor
from torch._dynamo.exc import UserError
from torch.export import Dim, ShapesCollection
from torch.export.dynamic_shapes import _check_dynamic_shapes, _tree_map_with_path

from lamina.core.errors import CompileError
from lamina.core.sizes import LEAST
from lamina.core.sizes.facts import NamedSizes

OpenDims = Mapping[int, Any]
"""The dimensions of a tensor that calls may vary, each with what torch.export is told of it: a Dim, Dim.AUTO or Dim.DYNAMIC."""


@dataclass(frozen=True)
class OpenSizes:
    """The open dimensions of the arguments, by name."""

    dims: Mapping[str, OpenDims] = field(default_factory=dict)

    @staticmethod
    def declared(dynamic_shapes: Any, given: Mapping[str, Any], names: Mapping[int, Sequence[str]]) -> "OpenSizes":
        """Reads `dynamic_shapes` as torch.export does.

        given  the example inputs by the names of their parameters
        names  of the arguments, by the id of the tensor

        Raises CompileError for shapes that are not built like the inputs.
        """
        if dynamic_shapes is None or isinstance(dynamic_shapes, OpenSizes):
            return dynamic_shapes or OpenSizes()
        if isinstance(dynamic_shapes, ShapesCollection):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(lambda **named: None, (), dict(given))["named"]
        open_dims: dict[str, OpenDims] = {}

        def read(path: Any, value: Any, shape: Any) -> None:
            """Records the declared dimensions of one leaf."""
            if not isinstance(value, Tensor) or shape is None:
                return
            dims = shape.items() if isinstance(shape, dict) else enumerate(shape)
            opened = {d: dim for d, dim in dims if _is_open(dim)}
            if wrong := [d for d in opened if not 0 <= d < value.dim()]:
                raise CompileError(
                    f"dynamic_shapes: argument {names[id(value)][0]!r} has {value.dim()} dimensions, none of number {wrong[0]}"
                )
            open_dims.update((name, opened) for name in names[id(value)] if opened)

        try:
            _check_dynamic_shapes(dict(given), dynamic_shapes)
            if dynamic_shapes:
                by_position = isinstance(dynamic_shapes, tuple | list)
                inputs = type(dynamic_shapes)(given.values()) if by_position else dict(given)
                _tree_map_with_path(read, inputs, dynamic_shapes, tree_name="inputs")
        except (UserError, AssertionError, ValueError) as error:
            if isinstance(error, CompileError):
                raise
            message = " ".join(str(error).split("\n\n")[0].split())
            raise CompileError(f"dynamic_shapes: {message}", remedy="see dynamic_shapes of torch.export.export") from error
        return OpenSizes(open_dims)

    def shape_text(self, name: str, shape: Sequence[int]) -> str:
        """Returns the shape that an argument must have, with the names of open dimensions."""
        opened = self.dims.get(name, {})
        return "[" + ", ".join(getattr(opened[d], "__name__", "?") if d in opened else str(n) for d, n in enumerate(shape)) + "]"

    def check(self, tensors: Mapping[str, Tensor]) -> None:
        """Raises ValueError for a size outside its range, and for sizes that share a Dim and do not fit each other."""
        roots: dict[str, tuple[str, int]] = {}
        for name, dim, size in self._open_sizes_of(tensors):
            low, high = bounds(dim)
            if size < low or (high is not None and size > high):
                raise ValueError(f"{name} must be {range_text(low, high)}{_called(dim)}; it is {size}")
            if isinstance(dim, Dim):
                known, other = roots.setdefault(dim.__name__, (name, size))
                if other != size:
                    raise ValueError(f"{known} and {name} must be equal{_called(dim)}; they are {other} and {size}")
        for name, dim, size in self._open_sizes_of(tensors):
            root = roots.get(dim.root.__name__) if hasattr(dim, "root") else None
            if root is not None and (wanted := int(dim.fn(root[1]))) != size:
                raise ValueError(f"{name} must be {dim.__name__} = {wanted}, as {root[0]} is {root[1]}; it is {size}")

    def _open_sizes_of(self, tensors: Mapping[str, Tensor]) -> list[tuple[str, Any, int]]:
        opened = [(name, d, dim) for name, dims in self.dims.items() for d, dim in dims.items()]
        return [(place_text(name, d), dim, tensors[name].shape[d]) for name, d, dim in opened]

    def names(self, name: str, dim: int) -> tuple[str, ...]:
        """Returns the names by which a user may refer to a dimension of an argument: its place, and the name of its Dim."""
        declared = self.dims.get(name, {}).get(dim)
        return (f"{name}, dimension {dim}", *((declared.__name__,) if isinstance(declared, Dim) else ()))

    def check_named(self, sets: Sequence[NamedSizes]) -> None:
        """Raises CompileError for a name that is not an open size's, and for a size outside its range."""
        known: dict[str, Any] = {}
        for name, dims in self.dims.items():
            for d, dim in dims.items():
                known.update(dict.fromkeys(self.names(name, d), dim))
        for name, size in chain.from_iterable(sets):
            if (dim := known.get(name)) is None:
                named = ", ".join(sorted(known))
                raise CompileError(f"options.specialize: no size is called {name!r}", remedy=f"those that calls vary are {named}")
            if hasattr(dim, "root"):
                raise CompileError(f"options.specialize: {name!r} is {dim.__name__}", remedy=f"name {dim.root.__name__!r}")
            low, high = bounds(dim)
            if size < low or (high is not None and size > high):
                raise CompileError(f"options.specialize: {name!r} must be {range_text(low, high)}; {size} given")

    def wanted(self, name: str, dim: int, size: int, sizes: Mapping[str, int]) -> int:
        """Returns the size of a dimension for named sizes: `size` where they do not name it."""
        declared: Any = self.dims.get(name, {}).get(dim)
        root = getattr(declared, "root", None)
        if root is not None and root.__name__ in sizes:
            return int(declared.fn(sizes[root.__name__]))
        return next((sizes[n] for n in self.names(name, dim) if n in sizes), size)

    def symbolic(self, tensors: Mapping[str, Tensor]) -> dict[str, OpenDims]:
        """Returns the dimensions that are symbols for a call. Those of size 0 or 1, and those of the same Dim, are constants."""
        fixed = {
            _group(dim, (name, d)) for name, dims in self.dims.items() for d, dim in dims.items() if tensors[name].shape[d] < LEAST
        }
        kept = {
            name: {d: dim for d, dim in dims.items() if _group(dim, (name, d)) not in fixed} for name, dims in self.dims.items()
        }
        return {name: dims for name, dims in kept.items() if dims}


def _is_open(dim: Any) -> bool:
    return isinstance(dim, Dim) or (dim is not None and not isinstance(dim, int) and dim.type.name != "STATIC")


def _group(dim: Any, otherwise: Hashable) -> Hashable:
    """Returns the key of dimensions that can only be constants together: a Dim and those derived from it."""
    return getattr(dim, "root", dim).__name__ if isinstance(dim, Dim) else otherwise


def bounds(dim: Any) -> tuple[int, int | None]:
    """Returns the least and the largest size declared; None for no largest."""
    high = dim.max
    return int(dim.min or 0), int(high) if isinstance(high, int | sympy.Integer) else None


def is_automatic(dim: Any) -> bool:
    """Returns whether a dimension may be found to be a constant."""
    return not isinstance(dim, Dim) and dim.type.name == "AUTO"


def _called(dim: Any) -> str:
    return f" ({dim.__name__})" if isinstance(dim, Dim) else ""


def place_text(name: str, dim: int) -> str:
    """Returns how errors name a dimension."""
    return f"dimension {dim} of argument {name!r}"


def range_text(low: int, high: int | None) -> str:
    """Returns how errors name a range of sizes."""
    return f"at least {low}" if high is None else f"from {low} to {high}"


def automatic_dims(dims: OpenDims) -> OpenDims:
    """Returns the dimensions with nothing declared of them."""
    return dict.fromkeys(dims, Dim.AUTO)


def shapes_collection(leaves: Sequence[Any], open_dims: Mapping[int, OpenDims]) -> ShapesCollection | None:
    """Returns the dynamic shapes of flattened inputs, by number, for torch.export; None without any."""
    if not open_dims:
        return None
    shapes = ShapesCollection()
    for i, dims in open_dims.items():
        shapes[leaves[i]] = dict(dims)
    return shapes


def layout_of(tensor: Tensor) -> Hashable:
    """Returns a key of a tensor's layout that holds for all sizes: its dimensions in the order of their strides, and of each
    whether it lies densely over the one before, else its stride if that is 0. Dimensions of size 1 have no part in it."""
    order: list[tuple[int, bool | None]] = []
    dense = 1
    for d in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
        if tensor.shape[d] != 1:
            stride = tensor.stride(d)
            order.append((d, stride == dense if stride else None))
            dense = stride * tensor.shape[d] if stride else dense
    return tuple(order)
