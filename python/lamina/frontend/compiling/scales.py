"""Compiles the program of a graph with symbolic sizes again, for calls whose sizes are of another scale than those of the call that
was traced: passes divide the work among kernels by typical sizes."""

from collections.abc import Mapping
from dataclasses import replace

from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lamina.core.layout import Layout
from lamina.core.options import Options
from lamina.core.program import Program
from lamina.core.sizes import SizeLike, with_hints, without_hints
from lamina.runtime.cache import cache_key

from ..calls.interface import Interface, with_outputs
from ..capture.exclusive import BUILDING
from ..fx.destination import Destination
from . import stored
from .lowering import Lowering
from .stored import Built
from .tuning import UNSEEN, without_measuring


def at_scale(
    built: Built, symbols: Mapping[str, int], gm: fx.GraphModule, options: Options, destination: Destination
) -> Built | None:
    """Returns the program that `built.source` becomes where symbols typically have these values, from the cache or by compiling it;
    None if its results would have other strides, which callers know already."""
    key = _key(built, symbols) if built.key else ""
    with BUILDING, unset_fake_temporarily():
        if key and (found := stored.take(key, gm, built.gpu)) is not None:
            return found
        made = _compiled(built, symbols, without_measuring(options), destination)
    return stored.keep(made, key) if made is not None and key else made


def _compiled(built: Built, symbols: Mapping[str, int], options: Options, destination: Destination) -> Built | None:
    from torch_mlir import ir

    from lamina.dialects import context
    from lamina.targets.clock import Stopwatch

    lowering = Lowering(options, destination, True, UNSEEN, Stopwatch())
    lowered = lowering.lower(ir.Module.parse(with_hints(built.source, symbols), context()))
    if not _has_strides(lowered.program, built.interface):
        return None
    program = replace(with_outputs(lowered.program, built.interface), saved=built.program.saved)
    return lowering.build(lowered, program, built.interface, built.source)


def _has_strides(program: Program, interface: Interface) -> bool:
    """Returns whether the results of a program lie in memory as an interface says, whatever the typical sizes of both."""
    results = [(view, program.outputs[view.index]) for view in interface.views() if view.source == "result"]
    whole = [(view, ref) for view, ref in results if _plain(view.shape) == _plain(ref.shape)]
    return all(_plain(Layout.of(view.shape, view.strides).strides) == _plain(ref.strides) for view, ref in whole)


def _plain(sizes: tuple[SizeLike, ...]) -> tuple[SizeLike, ...]:
    return tuple(map(without_hints, sizes))


def _key(built: Built, symbols: Mapping[str, int]) -> str:
    """Returns the name in the cache of a program for sizes of the same numbers of bits."""
    scale = repr(sorted((name, size.bit_length()) for name, size in symbols.items()))
    return cache_key(graph=built.key.encode(), options=scale, target="scale")
