"""Calls programs with symbolic sizes: one compilation, with its own numbers and memory plan for each set of sizes."""

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from lamina import _native
from lamina.core.binding.bind import Narrow, ProgramBinding
from lamina.core.binding.template import Template
from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.sizes import SizeLike, symbol_name, symbols_of
from lamina.core.sizes.facts import SizeFacts
from lamina.core.target import Target

from ..calls.call import adapt
from ..capture.size_relations import SizeRelations
from ..fx.sizes import exact, exact_sizes, symbol_of, unguarded
from .later import with_kernels
from .worker import WORKER

if TYPE_CHECKING:
    from .stages import Built

BOUND = 128
"""How many sets of sizes a program keeps its plan for; the one used longest ago is dropped first."""

Run = Callable[..., Any]


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


class SizedProgram(_native.BySizes):
    """Takes a graph's arguments, boxed or one by one, and runs its program with the numbers for their sizes, found in native
    code for sizes that it has met before.

    specialized  programs for some values of its symbols
    built     its program and code
    captured  the tensors that the graph holds
    sources   where the symbols' values are found
    load      makes a program with numbers callable
    widen     compiles the graph with Options.wide_sizes, for calls with tensors that its kernels do not count
    check     raises for sizes that the graph does not take, where no guard has kept them off
    """

    def __init__(
        self,
        built: "Built",
        captured: tuple[Tensor, ...],
        sources: dict[str, SizeSource],
        load: Callable[["Built"], Run],
        widen: Callable[[], "Built"],
        check: Callable[[Mapping[str, int], Sequence[SizeFacts]], None],
    ) -> None:
        super().__init__([(s.argument, s.dim, s.of_stride) for s in sources.values()], self.bind, BOUND)
        self.built = built
        self.sources = sources
        self.specialized: dict[frozenset[tuple[str, int]], Bindable] = {}
        self._names = tuple(sources)
        self._narrow = Bindable(built, captured, load)
        self._check = check
        self._wide = cache(lambda: Bindable(widen(), captured, load))
        self._boxed_call = True  # on the instance: torch._dynamo.disable copies its attributes, not the class's

    @property
    def symbols(self) -> tuple[SizeFacts, ...]:
        """The sizes that each call decides."""
        return tuple(source.symbol for source in self.sources.values() if source.symbol is not None)

    def typical(self) -> "Built":
        """Returns the program for the sizes of the call that was traced."""
        return self.at({symbol.name: symbol.typical for symbol in self.symbols})

    def at(self, symbols: Mapping[str, int]) -> "Built":
        """Returns the program for these values of its symbols."""
        return self._bound(symbols)[0]

    def variant_of(self, bound: "Built") -> "Built":
        """Returns the program that was bound: that for all sizes, or for some of Options.specialize."""
        return next((c.built for c in self.specialized.values() if c.built.code is bound.code), self.built)

    def bind(self, sizes: tuple[int, ...]) -> tuple[Run, tuple[int, ...] | None] | None:
        """Returns a function that runs the program for these values of its symbols, and the arguments that it takes, None for all.
        Returns None if the program that was bound before serves on: code cannot be loaded while torch captures a CUDA graph."""
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing() and sizes in self.programs():
            return None
        symbols = dict(zip(self._names, sizes, strict=True))
        self._check(symbols, self.symbols)
        while True:
            known = len(self.specialized)
            built, compiled = self._bound(symbols)
            missing = compiled.missing(symbols)
            if missing and torch.are_deterministic_algorithms_enabled():
                compiled.add(symbols)
                continue
            run = compiled.load(built)
            if known == len(self.specialized) and missing == compiled.missing(symbols):  # a thread may have added one meanwhile
                break
        compiled.add_general_later()
        if missing:
            self._compile_later(compiled, symbols, sizes)
        if built.interface.only_picks():
            return run, built.interface.inputs
        return adapt(run, built.interface, compiled.captured), None

    def specialize(self, sizes: Mapping[str, int], compiled: "Bindable") -> None:
        """Serves the calls in which symbols have these values by a program of their own from now on."""
        self.specialized = {**self.specialized, frozenset(sizes.items()): compiled}  # calls may be going through the old one
        for key in self.programs():
            if sizes.items() <= dict(zip(self._names, key, strict=True)).items():
                self.renew(key)

    def _compile_later(self, compiled: "Bindable", symbols: Mapping[str, int], sizes: tuple[int, ...]) -> None:
        """Has kernels compiled on another thread. The next call of these sizes after that has its program bound again."""
        owner = weakref.ref(self)

        def task() -> None:
            """Compiles the missing kernels, unless the program is gone."""
            if (program := owner()) is not None and compiled.add(symbols):
                program.renew(sizes)

        WORKER.add(task)

    def _bound(self, symbols: Mapping[str, int]) -> "tuple[Built, Bindable]":
        """Returns the program for these values of its symbols, and what it was made of: that for most of these sizes."""
        fitting = [(len(sizes), compiled) for sizes, compiled in self.specialized.items() if sizes <= symbols.items()]
        for compiled in (*(c for _, c in sorted(fitting, key=lambda of: -of[0])), self._narrow):
            try:
                return compiled(symbols), compiled
            except Narrow:
                continue
        return self._wide()(symbols), self._wide()


class Bindable:
    """A compiled program, bound to one set of sizes after the other.

    captured  the tensors that its graph holds
    load      makes a program with numbers callable
    """

    def __init__(self, built: "Built", captured: tuple[Tensor, ...], load: Callable[["Built"], Run]) -> None:
        self.captured, self.load = captured, load
        self._interface = Template(built.interface)
        self._bound = (built, ProgramBinding(built.program, built.kernels if built.later else None))
        self._refused: set[str] = set()
        self._general_added = False
        self._adding = threading.Lock()

    @property
    def built(self) -> "Built":
        """The program, with the kernels that are compiled so far."""
        return self._bound[0]

    def __call__(self, symbols: Mapping[str, int]) -> "Built":
        """Returns the program for these values of its symbols, and compiles kernels without which it cannot run at them. Raises
        Narrow for sizes that its kernels cannot count."""
        while needed := self._bound[1].needed(symbols):
            self._compile(needed, {})
        built, program = self._bound
        return replace(built, program=program(symbols), interface=self._interface(symbols))

    def missing(self, symbols: Mapping[str, int]) -> list[str]:
        """Returns the kernels for these values that are not compiled yet, in whose place others run."""
        return [name for name in self._bound[1].missing(symbols) if name not in self._refused]

    def add(self, symbols: Mapping[str, int]) -> bool:
        """Compiles the kernels for these values that are missing; returns whether they are there. Where one cannot be compiled,
        others run in its place from now on."""
        # Which call comes first must not decide how a deterministic program adds.
        typical = {} if torch.are_deterministic_algorithms_enabled() else symbols
        return self._add(lambda: self.missing(symbols), typical)

    def add_general_later(self) -> None:
        """Has the kernels for any size compiled on another thread, once, so that calls of other sizes need not wait for them."""
        if self._general_added or Target.parse(self.built.target).null:
            return
        self._general_added = True
        if self._bound[1].general():
            owner = weakref.ref(self)
            WORKER.add(lambda: compiled._add_general() if (compiled := owner()) is not None else None)

    def _add_general(self) -> None:
        self._add(lambda: [name for name in self._bound[1].general() if name not in self._refused], {})

    def _add(self, missing: Callable[[], Sequence[str]], typical: Mapping[str, int]) -> bool:
        while names := missing():
            try:
                self._compile(names, typical)
            except Exception as error:
                warnings.warn(f"lamina compiled no kernel {', '.join(names)}: {error}", stacklevel=1)
                self._refused.update(names)
                return False
        return True

    def _compile(self, names: Sequence[str], typical: Mapping[str, int]) -> None:
        """Brings kernels a step nearer to code (see with_kernels), those that no other thread has compiled meanwhile. typical: the
        values of symbols that they are meant for. Raises CompileError for a kernel that the program does not have."""
        with self._adding:
            names = [name for name in names if name not in self.built.kernels]
            if unknown := set(names) - {kernel.name for kernel in self.built.later}:
                raise CompileError(
                    f"there is neither code nor text of the kernels {', '.join(sorted(unknown))}", remedy="clear Lamina's cache"
                )
            if names:
                built = with_kernels(self.built, names, typical)
                self._bound = (built, ProgramBinding(built.program, built.kernels))


def sized_program(
    gm: fx.GraphModule,
    options: Options,
    build: "Callable[..., Built]",
    captured: "Callable[[Built], tuple[Tensor, ...]]",
    load: "Callable[[Built], Run]",
) -> SizedProgram:
    """Compiles a graph with symbolic sizes. Raises CompileError if it can be compiled for some sizes only.

    build     compiles it with `options=`
    captured  returns the tensors that the graph holds, for what build returned
    load      makes a program with numbers callable
    """

    def built(chosen: Options) -> "Built":
        """Compiles the graph without adding guards on its sizes."""
        with unguarded(gm.graph):
            return build(options=chosen)

    with unguarded(gm.graph):
        sources = sources_of(gm)
    made = built(options)
    check = SizeRelations.of(gm.graph).check_unguarded
    return SizedProgram(made, captured(made), sources, load, lambda: built(replace(options, wide_sizes=True)), check)
