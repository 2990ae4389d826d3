"""Compiles kernels for ranges of sizes when a call first needs them; until then another kernel serves such calls."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from torch._subclasses.fake_tensor import unset_fake_temporarily

from lamina.core.binding.later import LaterKernel, with_launches
from lamina.core.program import Program
from lamina.core.program_needs import with_needs
from lamina.core.sizes import with_hints
from lamina.core.target import Target
from lamina.runtime import cubins

from ..capture.exclusive import BUILDING
from . import stored
from .stored import Built


def advance_kernels(built: Built, names: Collection[str], symbols: Mapping[str, int]) -> Built:
    """Brings kernels of `built.later` a step nearer to code, and returns the program with them: tiles those that are not, of which
    several kernels may become, for small grids and for large ones; or compiles them. Keeps the program in the cache if it is there.

    symbols  typical values of symbols for these kernels; those that it leaves out have those of the call that was traced
    """
    kernels = [kernel for kernel in built.later if kernel.name in names]
    planned = [kernel for kernel in kernels if not kernel.tiled]
    with BUILDING, unset_fake_temporarily():
        found = _tiled(built, planned, symbols) if planned else _compiled(built, kernels)
    return stored.keep(found, found.key) if found.key else found


def _remaining(built: Built, kernels: Sequence[LaterKernel]) -> tuple[LaterKernel, ...]:
    return tuple(kernel for kernel in built.later if kernel not in kernels)


def _compiled(built: Built, kernels: Sequence[LaterKernel]) -> Built:
    """Compiles tile programs."""
    from torch_mlir import ir

    from lamina.dialects import context
    from lamina.targets import backend

    module = ir.Module.parse("\n".join(kernel.text for kernel in kernels), context())
    artifact = backend(Target.parse(built.target).machine).compile(module)
    return replace(
        built,
        program=with_needs(built.program, artifact.needs),
        code=cubins.join([*cubins.divide(built.code), *cubins.divide(artifact.code)]),
        kernels=(*built.kernels, *artifact.kernels),
        later=_remaining(built, kernels),
    )


def _tiled(built: Built, kernels: Sequence[LaterKernel], symbols: Mapping[str, int]) -> Built:
    """Tiles kernel functions, and launches what they have become."""
    from torch_mlir import ir

    from lamina.dialects import context
    from lamina.passes.infra.diagnostics import verify
    from lamina.passes.infra.pipeline import run
    from lamina.passes.plan.program import program_from
    from lamina.targets.module import keep_kernels, programs_as_later

    own = context()
    programs: dict[str, Program] = {}
    later = list(_remaining(built, kernels))
    for kernel in kernels:
        module = ir.Module.parse(with_hints(kernel.text, symbols), own)
        run(built.to_tile, module)
        verify(module)
        with module.context:
            programs[kernel.name] = program_from(module, built.program.device)
        keep_kernels(module)
        later += programs_as_later(module)
    return replace(built, program=with_launches(built.program, programs), later=tuple(later))
