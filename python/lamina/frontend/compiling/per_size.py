"""Specializes graphs with dynamic sizes or floats, or that write to memory that may be shared: one variant per concrete case."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.symbolic_convert import TensorifyState
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from lamina.core.errors import CompileError

from ..capture.exclusive import COMPILING
from ..capture.size_relations import SizeRelations
from ..fx.aliases import sharing
from ..fx.sizes import is_open, place_of
from ..fx.unbacked import has_unbacked, note_sizes
from ..rewrites.nested_regions import inline_regions
from ..rewrites.numbers import (
    device_of,
    faked,
    floats,
    specialize,
    stays_argument,
    symbol_of_float,
    with_constants,
    writes_to_arguments,
)

VARIANTS = 8
"""How many variants of one graph are kept; the oldest is evicted first."""

Run = Callable[..., Any]
Trace = Callable[[fx.GraphModule, Sequence[Any]], Run]


def _size(value: Any) -> Any:
    return (value.shape, value.stride()) if isinstance(value, Tensor) else value


_SHARED = "arguments share memory that the graph writes to"


def per_size(gm: fx.GraphModule, trace: Trace, example_inputs: Sequence[Any]) -> Run:
    """Compiles `gm` by `trace`: now where all sizes and numbers are known, else at each call with new ones. A graph that writes to
    its arguments is also compiled at each call where other arguments share memory."""
    inline_regions(gm)
    specialize(gm, example_inputs)
    note_sizes(gm, example_inputs)
    _check(gm, example_inputs)
    run = _per_size(gm, trace, example_inputs)
    TensorifyState.clear()  # Dynamo would go by it in frames whose floats have the same names
    return run


def _check(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Raises CompileError for sizes that a model does not take, where torch may not guard on them (`mark_unbacked`): it would find
    after the compilation that its guards fail for the call that it has captured."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("example_value") for node in placeholders]
    if not has_unbacked(values):
        return
    sources = [getattr(node.meta.get("grapharg"), "source", None) for node in placeholders]
    named = enumerate(zip(sources, example_inputs, strict=True))
    arguments = {i: (place_of(source), given) for i, (source, given) in named if source is not None and isinstance(given, Tensor)}
    try:
        SizeRelations(values).serve(arguments)
    except ValueError as error:
        raise CompileError(str(error)) from None


def _per_size(gm: fx.GraphModule, trace: Trace, example_inputs: Sequence[Any]) -> Run:
    """Returns how to run a graph: compiled once for all sizes, or, with the reason, once for each set of sizes and floats."""
    if any(is_open(value) for value in example_inputs):
        return _all_sizes(gm, trace, example_inputs)
    if sharing(example_inputs) is not None:  # fake tensors do not say how large the memory is that they share
        return PerSize(gm, trace, example_inputs, reason=_SHARED)
    if floats(gm, example_inputs):
        return PerSize(gm, trace, example_inputs)
    whole = with_constants(gm, {})
    run = trace(gm, example_inputs)
    if not writes_to_arguments():
        return run
    return PerSize(whole, trace, example_inputs, run)


def _all_sizes(gm: fx.GraphModule, trace: Trace, example_inputs: Sequence[Any]) -> Run:
    """Compiles `gm` once for all sizes; per size where that cannot be done.

    Floats stay arguments where torch can trace them as tensors; others are constants, until they change."""
    _guard_signs(gm, example_inputs)
    try:
        numbers = {i: example_inputs[i].item() for i in floats(gm, example_inputs) if not stays_argument(gm, i)}
        run = _traced(gm, trace, example_inputs, numbers)
    except RestartAnalysis:
        raise
    except Exception as error:  # whatever symbolic sizes meet, numbers may do
        return PerSize(gm, trace, example_inputs, reason=(str(error).splitlines() or [type(error).__name__])[0])
    if writes_to_arguments() and sharing(example_inputs) is not None:
        return PerSize(gm, trace, example_inputs, reason=_SHARED)
    if not numbers and not writes_to_arguments():
        return run
    other = PerSize(gm, trace, example_inputs, reason="a float changed, or arguments share memory", seen=numbers)
    return AllSizes(run, [i for i in range(len(example_inputs)) if i not in numbers], numbers, other)


def _guard_signs(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Guards on the signs of ints among the arguments that the graph uses. Sizes may be made of such ones; Dynamo captures a graph
    of its own for those of the other sign."""
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), example_inputs, strict=True):
        if isinstance(value, torch.SymInt) and node.users and value.node.has_hint():
            bool(value >= 0)


def _traced(gm: fx.GraphModule, trace: Trace, example_inputs: Sequence[Any], numbers: Mapping[int, float]) -> Run:
    """Traces `gm` with these of its arguments as constants. Where a float is not among a graph's arguments, torch's pass that turns
    floats into tensors has Dynamo start again and guard on it; it leaves those alone that are said to be constants already."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    names = {name for i in numbers if (name := symbol_of_float(placeholders[i]))}
    TensorifyState.force_specializations |= names
    try:
        taken = [value for i, value in enumerate(example_inputs) if i not in numbers]
        return trace(with_constants(gm, numbers), taken)
    finally:
        TensorifyState.force_specializations -= names


class AllSizes:
    """Calls the program for all sizes; per size where a float among the arguments has another value, or memory is shared that the
    graph writes to."""

    def __init__(self, run: Run, read_arguments: Sequence[int], numbers: Mapping[int, float], per_size: "PerSize") -> None:
        self._run, self._per_size = run, per_size
        self._read_arguments = tuple(read_arguments)
        self._numbers = tuple((i, number.hex()) for i, number in numbers.items())
        self._writes = writes_to_arguments()

    def __call__(self, *args: Any) -> Any:
        """Calls the variant for the arguments."""
        if any(args[i].item().hex() != number for i, number in self._numbers) or (self._writes and sharing(args) is not None):
            return self._per_size(*args)
        return self._run(*[args[i] for i in self._read_arguments]) if self._numbers else self._run(*args)


class PerSize:
    """Calls the variant compiled for the sizes of the arguments and for which of them share memory; compiles it when it is new.

    A float is a constant of a variant until it arrives with another value. From then on it is an argument, so that a value that
    changes at every call causes no more compilations. Only where the graph branches on it, it stays a constant.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        trace: Trace,
        example_inputs: Sequence[Any],
        without_sharing: Run | None = None,
        reason: str = "",
        seen: Mapping[int, float] | None = None,
    ) -> None:
        """Dynamo's guards check the sizes that `example_inputs` do not leave open.

        without_sharing  the variant for arguments that share no memory, where no size is open
        reason           why the graph is not compiled once for all sizes
        seen             values of floats that other calls have brought
        """
        self.reason = reason
        self.gm = gm
        self.trace = trace
        self.open = [i for i, value in enumerate(example_inputs) if is_open(value)]
        self.fixed = floats(gm, example_inputs)
        self.variants: OrderedDict[tuple[Any, ...], Run] = OrderedDict()
        self._writes = True  # whether the graph writes to its arguments; assumed until it is traced
        self._seen = {i: value.hex() for i, value in (seen or {}).items()}
        self._changing: set[int] = set()
        self._branches: set[int] = set()
        if without_sharing is not None:
            self.variants[(None,)] = without_sharing
        self._sizes: set[tuple[Any, ...]] = set()

    def __call__(self, *args: Any) -> Any:
        """Calls the variant for the arguments' sizes, which it compiles if it is new."""
        variant = self.variants.get(self._key(args))
        if variant is None:
            variant = self._add(args)
        return variant(*args)

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes, the values of floats that are constants, and which arguments share memory, where the graph writes to some."""
        shared = sharing(args) if self._writes else None
        return (*[_size(args[i]) for i in self.open], *[args[i].item().hex() for i in self.fixed], shared)

    def _add(self, args: Sequence[Any]) -> Run:
        with COMPILING:
            self._release(args)
            key = self._key(args)
            if key not in self.variants:
                self._warn(key[: len(self.open)])
                compiled = self._compile(args)
                key = self._key(args)  # compiling may have found floats that have to be constants
                self.variants[key] = compiled
                while len(self.variants) > VARIANTS:
                    self.variants.popitem(last=False)
            return self.variants[key]

    def _release(self, args: Sequence[Any]) -> None:
        """Turns floats whose value has changed into arguments."""
        values = {i: args[i].item().hex() for i in self.fixed}
        changed = {i for i, value in values.items() if self._seen.setdefault(i, value) != value} - self._branches
        if changed:
            self._set_changing(self._changing | changed)

    def _set_changing(self, changing: set[int]) -> None:
        known = {*self.fixed, *self._changing}
        self._changing, self.fixed = changing, sorted(known - changing)
        self.variants.clear()

    def _warn(self, sizes: tuple[Any, ...]) -> None:
        self._sizes.add(sizes)
        if len(self._sizes) == 2:
            warnings.warn(
                f"lamina compiles this graph once per size (the last {VARIANTS} are kept), as {self.reason}: compile with "
                "torch.compile(dynamic=False), or call torch._dynamo.mark_static on inputs whose size is fixed",
                stacklevel=4,
            )

    @torch._dynamo.disable
    def _compile(self, args: Sequence[Any]) -> Run:
        while True:
            try:
                return self._traced(args)
            except GuardOnDataDependentSymNode:
                if not self._changing:
                    raise
                self._branches |= self._changing
                self._set_changing(set())

    def _traced(self, args: Sequence[Any]) -> Run:
        constants = {i: args[i] for i in self.open if isinstance(args[i], int)} | {i: args[i].item() for i in self.fixed}
        with faked(args, self._changing) as fakes:
            taken = [i for i in range(len(args)) if i not in constants]
            run = self.trace(with_constants(self.gm, constants), [fakes[i] for i in taken])
            self._writes = writes_to_arguments()
        return _Variant(run, taken, self._changing, device_of(args))


class _Variant:
    """One compiled variant, called with all arguments of the graph. Floats among its arguments are moved to its device."""

    def __init__(self, run: Run, read_arguments: Sequence[int], changing: set[int], device: torch.device) -> None:
        self.run, self.read_arguments, self.device = run, read_arguments, device
        self.moved = [read_arguments.index(i) for i in sorted(changing)] if device.type != "cpu" else []

    def __call__(self, *args: Any) -> Any:
        values = [args[i] for i in self.read_arguments]
        for i in self.moved:
            values[i] = values[i].to(self.device, non_blocking=True)
        return self.run(*values)
