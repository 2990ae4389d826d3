"""Calls programs with symbolic sizes: one compilation, with its own numbers and memory plan for each set of sizes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

import torch
from torch import Tensor, fx

from lamina import _native
from lamina.core.binding.bind import Narrow
from lamina.core.errors import CompileError
from lamina.core.sizes import SizeLike, symbol_name, symbols_of
from lamina.core.sizes.facts import SizeFacts

from ..calls.call import adapt
from ..capture.size_relations import SizeRelations
from ..fx.sizes import exact, exact_sizes, symbol_of, unguarded
from .bindable import Bindable, Run
from .stored import Built
from .worker import WORKER, warned

MOST_SCALES = 3
"""How many more programs a graph gets for sizes of other scales than those that were traced."""
BOUND = 128
"""How many sets of sizes a program keeps its plan for; the one used longest ago is dropped first."""


@dataclass(frozen=True)
class SizeSource:
    """Where a call brings the value of a symbol: an int argument, or the size or stride of a dimension of a tensor.

    symbol  for reports: its value in the call that was traced, its range, and its place among the model's arguments
    """

    argument: int
    dim: int | None
    of_stride: bool = False
    symbol: SizeFacts | None = field(default=None, compare=False)


def sources_of(gm: fx.GraphModule) -> dict[str, SizeSource]:
    """Returns for each symbol of a graph's arguments where its value is found. Raises CompileError for a symbol that no argument
    shows by itself."""
    sources: dict[str, SizeSource] = {}
    symbols: dict[str, SizeFacts] = {}
    needed: set[str] = set()
    for i, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        sizes = _sizes(node)
        value = node.meta.get("val")
        for d, size in enumerate(sizes):
            needed |= symbols_of(size)
            if (name := symbol_name(size)) is None:
                continue
            symbols.setdefault(name, symbol_of(value if not isinstance(value, Tensor) else (*value.shape, *value.stride())[d]))
            source = SizeSource(i, d % value.dim(), d >= value.dim()) if isinstance(value, Tensor) else SizeSource(i, None)
            if name not in sources or _rank(source) < _rank(sources[name]):
                sources[name] = source
    if missing := sorted(needed - sources.keys()):
        raise CompileError(f"no argument of the graph has the size {missing[0]} by itself", remedy="compile per concrete size")
    return {name: replace(source, symbol=symbols[name]) for name, source in sources.items()}


def _sizes(argument: fx.Node) -> tuple[SizeLike, ...]:
    """Returns the sizes that an argument brings: a tensor's sizes and strides, an int's value."""
    value = argument.meta.get("val")
    if isinstance(value, Tensor):
        return (*exact_sizes(value.shape), *exact_sizes(value.stride()))
    if not isinstance(value, torch.SymInt):
        return ()  # a bool or a float of sizes shows none
    try:
        return (exact(value),)
    except CompileError:
        if argument.users:
            raise
        return ()  # an int that the graph does not use may be no size


def _rank(source: SizeSource) -> tuple[bool, bool]:
    """Orders sources: an int before a size before a stride."""
    return source.dim is not None, source.of_stride


class GraphCompiler(Protocol):
    """Compiles the programs of one graph with symbolic sizes: at first, and when calls bring sizes that need other programs."""

    def build(self, *, wide_sizes: bool = False) -> Built:
        """Compiles the graph without adding guards on its sizes. wide_sizes: see Options."""

    def rescale(self, built: Built, symbols: Mapping[str, int]) -> Built | None:
        """Compiles a program again, with these values as the typical ones of its symbols; None if it cannot be."""

    def captured(self, built: Built) -> tuple[Tensor, ...]:
        """Returns the tensors that the graph holds."""

    def load(self, built: Built) -> Run:
        """Makes a program with numbers callable."""


class SizedProgram(_native.BySizes):
    """Takes a graph's arguments, boxed or one by one, and runs its program with the numbers for their sizes, found in native
    code for sizes that it has met before. Raises CompileError, when it is made, if the graph can be compiled for some sizes only.

    built        its program and code
    sources      where the symbols' values are found
    specialized  programs for some values of its symbols
    """

    def __init__(self, gm: fx.GraphModule, compiler: GraphCompiler) -> None:
        with unguarded(gm.graph):
            sources = sources_of(gm)
        super().__init__([(s.argument, s.dim, s.of_stride) for s in sources.values()], self.bind, BOUND)
        self.built = compiler.build()
        self.sources = sources
        self.specialized: dict[frozenset[tuple[str, int]], Bindable] = {}
        self._names = tuple(sources)
        captured, load = compiler.captured(self.built), compiler.load
        self._narrow = Bindable(self.built, captured, load)
        self._check = SizeRelations.of(gm.graph).check_unguarded  # raises for sizes that no guard has kept off
        self._rescale = compiler.rescale
        self._scales: tuple[Bindable, ...] = ()
        self._may_rescale = True
        self._wide = cache(lambda: Bindable(compiler.build(wide_sizes=True), captured, load))
        self._boxed_call = True  # on the instance: torch._dynamo.disable copies its attributes, not the class's

    @property
    def symbols(self) -> tuple[SizeFacts, ...]:
        """The sizes that each call decides."""
        return tuple(source.symbol for source in self.sources.values() if source.symbol is not None)

    def typical(self) -> Built:
        """Returns the program for the sizes of the call that was traced."""
        return self.at({symbol.name: symbol.typical for symbol in self.symbols})

    def at(self, symbols: Mapping[str, int]) -> Built:
        """Returns the program for these values of its symbols."""
        return self._bound(symbols)[0]

    def variant_of(self, bound: Built) -> Built:
        """Returns the program that was bound: that for all sizes, one for those of another scale, or one for some of
        Options.specialize."""
        others = (*self.specialized.values(), *self._scales)
        return next((c.built for c in others if c.built.code is bound.code), self.built)

    def bind(self, sizes: tuple[int, ...]) -> tuple[Run, tuple[int, ...] | None] | None:
        """Returns a function that runs the program for these values of its symbols, and the arguments that it takes, None for all.
        Returns None if the program that was bound before serves on: code cannot be loaded while torch captures a CUDA graph."""
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing() and sizes in self.programs():
            return None
        symbols = dict(zip(self._names, sizes, strict=True))
        self._check(symbols, self.symbols)
        while True:
            known = len(self.specialized), len(self._scales)
            built, compiled = self._bound(symbols)
            missing = compiled.missing(symbols)
            if missing and torch.are_deterministic_algorithms_enabled():
                compiled.add(symbols)
                continue
            run = compiled.load(built)
            # A thread may have added one meanwhile.
            if known == (len(self.specialized), len(self._scales)) and missing == compiled.missing(symbols):
                break
        compiled.add_general_later()
        if missing:
            WORKER.add(self, lambda program: program._add_kernels(compiled, symbols, sizes))
        if self._is_outgrown(symbols) and not torch.are_deterministic_algorithms_enabled():
            WORKER.add(self, lambda program: program._add_scale(symbols))
        if built.interface.is_selection():
            return run, built.interface.inputs
        return adapt(run, built.interface, compiled.captured), None

    def specialize(self, sizes: Mapping[str, int], compiled: Bindable) -> None:
        """Serves the calls in which symbols have these values by a program of their own from now on."""
        self.specialized = {**self.specialized, frozenset(sizes.items()): compiled}  # calls may be going through the old one
        self._rebind(lambda symbols: sizes.items() <= symbols.items())

    def _rebind(self, fits: Callable[[Mapping[str, int]], bool]) -> None:
        """Has programs bound again at the next calls with values of symbols that fit."""
        for sizes in self.programs():
            if fits(dict(zip(self._names, sizes, strict=True))):
                self.renew(sizes)

    def _is_outgrown(self, symbols: Mapping[str, int]) -> bool:
        """Returns whether a program for sizes of the scale of these is missing, and may be made."""
        return (
            self._may_rescale
            and len(self._scales) < MOST_SCALES
            and all(c.outgrown(symbols) for c in (self._narrow, *self._scales))
        )

    def _add_kernels(self, compiled: Bindable, symbols: Mapping[str, int], sizes: tuple[int, ...]) -> None:
        """Compiles the kernels that `compiled` lacks for these values of its symbols. They serve the next calls of these sizes."""
        if compiled.add(symbols):
            self.renew(sizes)

    def _add_scale(self, symbols: Mapping[str, int]) -> None:
        """Compiles a program for sizes of the scale of these, unless there is one by now. It serves their next calls."""
        if not self._is_outgrown(symbols):
            return
        built = None
        with warned(f"program for sizes like {listed(symbols)}"):
            built = self._rescale(self.built, symbols)
        if built is None:
            self._may_rescale = False
            return
        self._scales = (*self._scales, Bindable(built, self._narrow.captured, self._narrow.load))
        self._rebind(self._narrow.outgrown)

    def _of_scale(self, symbols: Mapping[str, int]) -> Bindable:
        """Returns the program for sizes of the scale of these, or else that of the sizes that were traced."""
        return next((c for c in (self._narrow, *self._scales) if not c.outgrown(symbols)), self._narrow)

    def _bound(self, symbols: Mapping[str, int]) -> tuple[Built, Bindable]:
        """Returns the program for these values of its symbols, and what it was made of: that for most of these sizes."""
        fitting = sorted((sizes for sizes in self.specialized if sizes <= symbols.items()), key=len, reverse=True)
        for compiled in (*(self.specialized[sizes] for sizes in fitting), self._of_scale(symbols)):
            try:
                return compiled(symbols), compiled
            except Narrow:
                continue
        return self._wide()(symbols), self._wide()


def listed(sizes: Mapping[str, int]) -> str:
    """Returns the values of symbols as text: "s0 = 8, s1 = 12"."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())
